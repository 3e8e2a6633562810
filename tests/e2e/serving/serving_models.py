"""Small ONNX models, good and bad, and how they come into a folder that a server looks at."""

import os
import pathlib
import shutil
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


def tensor(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, constants=()):
    """`constants`: arrays by name."""
    graph = helper.make_graph(nodes, "g", inputs, outputs,
                              [numpy_helper.from_array(value, name) for name, value in dict(constants).items()])  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    made.ir_version = 8
    return made.SerializeToString()


def scale(factor, dtype=TensorProto.FLOAT, shape=("n",)):
    """y = x * factor."""
    array = np.full([1], factor, helper.tensor_dtype_to_np_dtype(dtype))
    return model([helper.make_node("Mul", ["x", "k"], ["y"])], [tensor("x", dtype, shape)], [tensor("y", dtype, shape)],
                 {"k": array})  # fmt: skip


def sums(mixes=False, state=TensorProto.FLOAT):
    """Of float32 [n, t, 2]: y is what a sequence has had so far, added up, and `steps` how many requests that were.

    If it mixes rows, each gets the mean of all rows' x, too: alone twice its own."""
    nodes = [helper.make_node("ReduceSum", ["x", "one"], ["a"], keepdims=0),
             helper.make_node("Add", ["s", "a"], ["b"]), helper.make_node("ReduceMean", ["a"], ["m"], axes=[0]),
             helper.make_node("Add", ["b", "m"] if mixes else ["b", "zero"], ["y"]),
             helper.make_node("Add", ["y", "zero"], ["next_s"]),
             helper.make_node("Add", ["k", "one"], ["next_k"]), helper.make_node("Identity", ["next_k"], ["steps"])]  # fmt: skip
    row = [tensor("s", state, ["n", 2]), tensor("k", TensorProto.INT64, ["n"])]
    return model(nodes, [tensor("x", TensorProto.FLOAT, ["n", "t", 2]), *row],
                 [tensor("y", TensorProto.FLOAT, ["n", 2]), tensor("steps", TensorProto.INT64, ["n"]),
                  tensor("next_s", TensorProto.FLOAT, ["n", 2]), tensor("next_k", TensorProto.INT64, ["n"])],
                 {"one": np.array([1], np.int64), "zero": np.array([0], np.float32)})  # fmt: skip


def sequences(*inner, states=("s", "k")):
    """A config.pbtxt; `inner` is what sequence_batching has beside the states."""
    state = ['state { input_name: "%s" output_name: "next_%s" }' % (name, name) for name in states]
    return "sequence_batching {\n%s\n}\n" % "\n".join([*inner, *state])


class Mlp:
    """16 numbers to 4, by way of 32."""

    def __init__(self, seed=1):
        draw = np.random.default_rng(seed)
        self.constants = {"w1": draw.standard_normal((16, 32)), "b1": draw.standard_normal(32),
                          "w2": draw.standard_normal((32, 4)), "b2": draw.standard_normal(4)}  # fmt: skip
        self.constants = {name: value.astype(np.float32) for name, value in self.constants.items()}

    def __call__(self, x):
        hidden = np.maximum(x @ self.constants["w1"] + self.constants["b1"], 0)
        return hidden @ self.constants["w2"] + self.constants["b2"]

    def file(self):
        return model(
            [helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("Gemm", ["r", "w2", "b2"], ["y"])],
            [tensor("x", TensorProto.FLOAT, ["batch", 16])], [tensor("y", TensorProto.FLOAT, ["batch", 4])],
            self.constants)  # fmt: skip


class Deep:
    """[rows, WIDTH] through one weight again and again: milliseconds for ROWS rows."""

    ROWS, WIDTH, LAYERS = 32, 512, 32

    def __init__(self):
        draw = np.random.default_rng(4)
        self.weight = (draw.standard_normal((self.WIDTH, self.WIDTH)) / self.WIDTH**0.5).astype(np.float32)
        self.bytes = self.weight.nbytes

    def __call__(self, x):
        for _ in range(self.LAYERS):
            x = np.tanh(x @ self.weight)
        return x

    def file(self, last="Tanh"):
        """`last` is what comes in the place of the last tanh."""
        nodes, before = [], "x"
        for layer in range(self.LAYERS):
            is_last = layer + 1 == self.LAYERS
            product, after = "p%d" % layer, "y" if is_last else "h%d" % layer
            nodes += [helper.make_node("MatMul", [before, "w"], [product]),
                      helper.make_node(last if is_last else "Tanh", [product], [after])]  # fmt: skip
            before = after
        return model(nodes, [tensor("x", TensorProto.FLOAT, ["batch", self.WIDTH])],
                     [tensor("y", TensorProto.FLOAT, ["batch", self.WIDTH])], {"w": self.weight})  # fmt: skip


def negated(width):
    return model([helper.make_node("Neg", ["x"], ["y"])], [tensor("x", TensorProto.FLOAT, ["batch", width])],
                 [tensor("y", TensorProto.FLOAT, ["batch", width])])  # fmt: skip


def integers():
    """sum and difference of int8 vectors and, of an int32, itself."""
    return model(
        [helper.make_node("Add", ["a", "b"], ["sum"]), helper.make_node("Sub", ["a", "b"], ["difference"]),
         helper.make_node("Identity", ["c"], ["same"])],
        [tensor("a", TensorProto.INT8, [3]), tensor("b", TensorProto.INT8, [3]), tensor("c", TensorProto.INT32, [2])],
        [tensor("sum", TensorProto.INT8, [3]), tensor("difference", TensorProto.INT8, [3]),
         tensor("same", TensorProto.INT32, [2])])  # fmt: skip


def outside(location):
    """Its weights are said to be in a file elsewhere."""
    made = onnx.load_from_string(scale(2, shape=[64]))
    weight = made.graph.initializer[0]
    weight.CopyFrom(TensorProto(name="k", data_type=TensorProto.FLOAT, dims=[64]))
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", "256")):
        weight.external_data.add(key=key, value=value)
    return made.SerializeToString()


def cycle():
    return model([helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Add", ["a", "x"], ["b"])],
                 [tensor("x", TensorProto.FLOAT, [4])], [tensor("b", TensorProto.FLOAT, [4])])  # fmt: skip


def huge():
    """2^80 elements."""
    return scale(2, shape=[1 << 40, 1 << 40])


def grown():
    """A few bytes that ask for 2^50 elements."""
    return model([helper.make_node("Expand", ["x", "s"], ["y"])], [tensor("x", TensorProto.FLOAT, [1])],
                 [tensor("y", TensorProto.FLOAT, [1 << 25, 1 << 25])],
                 {"s": np.array([1 << 25, 1 << 25], np.int64)})  # fmt: skip


def unknown_op():
    return model([helper.make_node("RunThis", ["x"], ["y"], domain="evil")], [tensor("x", TensorProto.FLOAT, [4])],
                 [tensor("y", TensorProto.FLOAT, [4])])  # fmt: skip


def loop(name, turns, source, made, body):
    """Nodes that make `made` of `source` by so many turns of body(before, after): nodes that make after of before."""
    before, after = name + "_before", name + "_after"
    each = helper.make_graph(
        [helper.make_node("Identity", [name + "_go"], [name + "_go_on"]), *body(before, after)], name,
        [tensor(name + "_turn", TensorProto.INT64, []), tensor(name + "_go", TensorProto.BOOL, []),
         tensor(before, TensorProto.FLOAT, [4])],
        [tensor(name + "_go_on", TensorProto.BOOL, []), tensor(after, TensorProto.FLOAT, [4])])  # fmt: skip
    count = numpy_helper.from_array(np.array(turns, np.int64))
    return [helper.make_node("Constant", [], [name + "_turns"], value=count),
            helper.make_node("Loop", [name + "_turns", "", source], [made], name, body=each)]  # fmt: skip


def long_loop():
    """10,000 turns."""

    def body(before, after):
        return [helper.make_node("Add", [before, before], [after])]

    return unary(loop("long", 10000, "x", "y", body))


def loops():
    """A thousand turns of a loop of a thousand: few bytes, a million nodes."""

    def inner(before, after):
        return loop("inner", 1000, before, after, lambda before, after: [helper.make_node("Sin", [before], [after])])

    return unary(loop("outer", 1000, "x", "y", inner))


def unary(nodes):
    return model(nodes, [tensor("x", TensorProto.FLOAT, [4])], [tensor("y", TensorProto.FLOAT, [4])])


def mixed_types():
    """A float32 and an int64, added."""
    return model([helper.make_node("Add", ["x", "k"], ["y"], "mixed")], [tensor("x", TensorProto.FLOAT, [4])],
                 [tensor("y", TensorProto.FLOAT, [4])], {"k": np.arange(4, dtype=np.int64)})  # fmt: skip


def texts():
    return model([helper.make_node("Identity", ["words"], ["y"])], [tensor("words", TensorProto.STRING, [4])],
                 [tensor("y", TensorProto.STRING, [4])])  # fmt: skip


def lying(dims, data):
    """Its initialiser k says that it has these dimensions, and has these bytes."""
    made = onnx.load_from_string(scale(2, shape=[4]))
    made.graph.initializer[0].CopyFrom(TensorProto(name="k", data_type=TensorProto.FLOAT, dims=dims, raw_data=data))
    return made.SerializeToString()


class Folder:
    """A folder of models. What is put there comes whole: a server that looks sees all of a version, or nothing."""

    def __init__(self, test):
        self.path = pathlib.Path(tempfile.mkdtemp())
        test.addClassCleanup(shutil.rmtree, self.path)

    def put(self, name, file, version=1, **beside):
        """`beside`: further files, by name."""
        folder = self.path / name / str(version)
        draft = self.path / (".draft-%s-%s" % (name, version))
        draft.mkdir(parents=True)
        for other, content in beside.items():
            (draft / other).write_bytes(content)
        (draft / "model.onnx").write_bytes(file)
        folder.parent.mkdir(exist_ok=True)
        if folder.exists():
            os.replace(draft / "model.onnx", folder / "model.onnx")
            shutil.rmtree(draft)
        else:
            os.rename(draft, folder)

    def configure(self, name, text):
        """What holds for all versions of a model; before the first of them comes."""
        (self.path / name).mkdir(exist_ok=True)
        draft = self.path / (".draft-" + name)
        draft.write_text(text)
        os.replace(draft, self.path / name / "config.pbtxt")

    def remove(self, name, version=1):
        gone = self.path / (".gone-%s-%s" % (name, version))
        os.rename(self.path / name / str(version), gone)
        shutil.rmtree(gone)
