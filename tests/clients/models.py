"""Models, as ONNX: one for `kiln import`, whose weights are more elements than a graph has as its own; and a folder of
them, for servers that serve models."""

import pathlib
from typing import Callable, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Of two dtypes.
WEIGHTS = ((np.arange(4 * 33) % 5).reshape(4, 33) - 2).astype(np.float16)
BIAS = np.arange(33, dtype=np.float32) - 16


def write(path):
    """The sum of each row of relu(x @ w + b), of two rows."""
    nodes = [
        helper.make_node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "wide"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["shifted"]),
        helper.make_node("Relu", ["shifted"], ["y"]),
        helper.make_node("ReduceSum", ["y", "axes"], ["total"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes, "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("total", TensorProto.FLOAT, [2])],
        [numpy_helper.from_array(WEIGHTS, "w"), numpy_helper.from_array(BIAS, "b"),
         numpy_helper.from_array(np.array([1]), "axes")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))


# -- what is served: `"models": true` of a case's server

# By the names that clients give dtypes.
DTYPES = {
    "bool": TensorProto.BOOL, "int8": TensorProto.INT8, "int16": TensorProto.INT16, "int32": TensorProto.INT32,
    "int64": TensorProto.INT64, "uint8": TensorProto.UINT8, "uint16": TensorProto.UINT16, "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64, "float16": TensorProto.FLOAT16, "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE, "bfloat16": TensorProto.BFLOAT16,
}  # fmt: skip


def _model(nodes, inputs, outputs, constants=()):
    """Inputs and outputs are (name, dtype, shape); nodes (op, inputs, outputs); constants arrays by name."""
    said = [[helper.make_tensor_value_info(name, DTYPES[dtype], shape) for name, dtype, shape in rows]
            for rows in (inputs, outputs)]  # fmt: skip
    graph = helper.make_graph([helper.make_node(*node) for node in nodes], "g", *said,
                              [numpy_helper.from_array(value, name) for name, value in dict(constants).items()])  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    return made.SerializeToString()


def affine():
    """y = 2 * x + 1."""
    one = [("x", "float32", ["batch", 4])], [("y", "float32", ["batch", 4])]
    return _model([("Mul", ["x", "two"], ["p"]), ("Add", ["p", "one"], ["y"])], *one,
                  {"two": np.float32([2]), "one": np.float32([1])})  # fmt: skip


def dtypes():
    """Of each dtype, what is given comes back."""
    inputs = [(name + "_in", name, ["batch"]) for name in DTYPES]
    outputs = [(name + "_out", name, ["batch"]) for name in DTYPES]
    return _model([("Identity", [name + "_in"], [name + "_out"]) for name in DTYPES], inputs, outputs)


def two():
    """x times a number, and the sum of that: an input and an output without axes."""
    nodes = [("Mul", ["x", "by"], ["scaled"]), ("ReduceSum", ["scaled"], ["sums"]), ("Reshape", ["sums", "none"], ["total"])]
    return _model(nodes, [("x", "float32", ["batch", 3]), ("by", "float32", [])],
                  [("scaled", "float32", ["batch", 3]), ("total", "float32", [])],
                  {"none": np.array([], np.int64)})  # fmt: skip


def running():
    """y is the sum of all rows that the sequence has had, by RUNNING_CONFIG."""
    return _model([("Add", ["x", "before"], ["y"]), ("Identity", ["y"], ["after"])],
                  [("x", "float32", ["n", 2]), ("before", "float32", ["n", 2])],
                  [("y", "float32", ["n", 2]), ("after", "float32", ["n", 2])])  # fmt: skip


RUNNING_CONFIG = 'sequence_batching { state { input_name: "before" output_name: "after" } }\n'


def slow():
    """The sum over all products of an element of each: of 4096 elements each, seconds and more."""
    return _model([("Mul", ["a", "b"], ["p"]), ("Mul", ["p", "c"], ["q"]), ("ReduceSum", ["q"], ["total"])],
                  [("a", "float32", [4096, 1, 1]), ("b", "float32", [1, 4096, 1]), ("c", "float32", [1, 1, 4096])],
                  [("total", "float32", [1, 1, 1])])  # fmt: skip


def plus(number):
    one = [("x", "int32", ["batch"])], [("y", "int32", ["batch"])]
    return _model([("Add", ["x", "k"], ["y"])], *one, {"k": np.int32([number])})


class Served(NamedTuple):
    file: Callable[[], bytes]
    version: int = 1
    config: str = ""


SERVED = {
    "affine": [Served(affine)],
    "dtypes": [Served(dtypes)],
    "plus": [Served(lambda: plus(1)), Served(lambda: plus(7), version=7)],
    "running": [Served(running, config=RUNNING_CONFIG)],
    "slow": [Served(slow)],
    "two": [Served(two)],
}
# All versions; a sequence's size is how many sequences a run may have.
FLAGS = ("--model_versions=all", "--model_sizes=n=1:16,batch=1:1048576")


def write_folder(path):
    """How many versions there are in it."""
    for name, versions in SERVED.items():
        for version in versions:
            folder = pathlib.Path(path) / name / str(version.version)
            folder.mkdir(parents=True)
            (folder / "model.onnx").write_bytes(version.file())
            if version.config:
                (folder.parent / "config.pbtxt").write_text(version.config)
    return sum(map(len, SERVED.values()))
