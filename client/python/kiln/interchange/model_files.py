"""Models as files that a server serves: kiln.save_model.

    graph = kiln.Graph()
    x = graph.param("x", (graph.variable("batch", 1, 64), 16))
    w = graph.param("w", (16, 4))
    kiln.save_model("models/mlp/1", {"y": kiln.softmax(x @ w)}, constants={"w": weights})

Then `kilnd --models=models` serves it as mlp, version 1. There are two files: model.kgraph has the graph, as its message
travels, and model.safetensors the constants, each under its slot's number and its name, with what goes in and out beside
them (models/kgraph/README.md). Clients of other languages read both, too.
"""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Dict, List, Mapping, Set, Union

import numpy as np

from kiln import arrays
from kiln.buffers import Buffer
from kiln.dims import Dim
from kiln.dtypes import DType, dtype as dtype_of
from kiln.errors import DTypeError, GraphError, InvalidArgument, ShapeError
from kiln.functional.held import Held
from kiln.hash import graph_hash
from kiln.interchange import safetensors_file
from kiln.interchange.files import Path, replacing
from kiln.tensor import Tensor
from kiln.value import Shape

# Under "__metadata__" of the constants' file, as models/kgraph/signature.h has it.
KEY = "kiln.signature"


def save_model(folder: Path, outputs: Mapping[str, Tensor], *, constants: Mapping[str, Any] = {}) -> None:
    """Writes model.kgraph and model.safetensors into a folder, which is made if it is not there.

    folder     of a version, such as models/mlp/1
    outputs    a graph's tensors by name, in the order in which they are told
    constants  arrays, here or on a device, by the names of parameters; all other parameters are the model's inputs

    A size of an input is a number, or a variable. Each file is there whole or as it was before. Raises GraphError for
    outputs that are of no graph and parameters without a name, InvalidArgument for a constant that is no parameter,
    ShapeError and DTypeError where it does not fit its parameter, ImportError without the package safetensors.
    """
    if not outputs or not all(isinstance(one, Tensor) for one in outputs.values()):
        raise GraphError("save_model: outputs is a dict of a graph's tensors by name", code="BAD_ARGUMENT")
    graph = next(iter(outputs.values())).graph
    message = graph.build(list(outputs.values()))
    parameters, variables = graph.named()
    for name in constants:
        if name not in parameters:
            raise InvalidArgument("save_model: the graph has no parameter %r" % name, code="BAD_ARGUMENT",
                                  remedy="its parameters are " + (", ".join(parameters) or "none"))  # fmt: skip
    known = {row[0] for row in parameters.values()} | {row.slot for row in variables.values()}
    for uop in message.nodes:
        if uop.HasField("buffer") and uop.buffer.slot not in known:
            raise GraphError("save_model: the parameter in slot %d has no name" % uop.buffer.slot, code="BAD_ARGUMENT")
    read = {uop.buffer.slot for uop in message.nodes if uop.HasField("buffer")}
    inputs = {name: row for name, row in parameters.items() if name not in constants}
    # Of sizes that the graph does not read, those that a shape names.
    shapes = [row[2] for row in inputs.values()] + [one.shape for one in outputs.values()]
    named = read.union(*map(_variables, shapes))
    told = {
        "graph": graph_hash(message).hex(),
        "inputs": [{"name": name, "slot": slot, "dtype": kind.name, "shape": _input(name, shape), "used": slot in read}
                   for name, (slot, kind, shape) in inputs.items()],
        "sizes": [{"name": name, "slot": row.slot, "min": row.least, "max": row.greatest}
                  for name, row in variables.items() if row.slot in named],
        "outputs": [{"name": name, "dtype": one.dtype.name, "shape": _sizes(one.shape)} for name, one in outputs.items()],
    }  # fmt: skip
    decided = {size for row in told["inputs"] for size in row["shape"]}
    for size in told["sizes"]:
        if size["name"] not in decided:
            raise ShapeError("save_model: no input's shape says what %s is" % size["name"], code="BAD_ARGUMENT")
    sources: Dict[str, Callable[[], np.ndarray]] = {}
    for name, value in constants.items():
        slot, kind, shape = parameters[name]
        sources["%d_%s" % (slot, name)] = _reader(name, value, kind, shape)
    os.makedirs(folder, exist_ok=True)
    # A version is there once its graph is: the constants come first.
    with replacing(os.path.join(folder, "model.safetensors")) as path:
        safetensors_file.write(path, sources, {KEY: json.dumps(told)})
    with replacing(os.path.join(folder, "model.kgraph")) as path, open(path, "wb") as file:
        file.write(message.SerializeToString())


def _sizes(shape: Shape) -> "List[Union[int, str]]":
    return [repr(size) if isinstance(size, Dim) else size for size in shape]


def _variables(shape: Shape) -> "Set[int]":
    """Their slots."""
    terms = [monomial for size in shape if isinstance(size, Dim) for monomial, _ in size.terms]
    return {variable.slot for monomial in terms for variable in monomial}


def _input(name: str, shape: Shape) -> "List[Union[int, str]]":
    for size in shape:
        if isinstance(size, Dim) and (len(size.terms) != 1 or len(size.terms[0][0]) != 1 or size.terms[0][1] != 1):
            raise ShapeError("save_model: %s has size %r; an input's is a number, or a variable" % (name, size),
                             code="BAD_ARGUMENT")  # fmt: skip
    return _sizes(shape)


def _reader(name: str, value: Any, kind: DType, shape: Shape) -> "Callable[[], np.ndarray]":
    """What gives a constant's array; it fits its parameter."""
    array = value if isinstance(value, (Held, Buffer)) else arrays.host_array(value, kind)
    found = dtype_of(array.dtype)
    if found is not kind:
        raise DTypeError("save_model: %s is %s, and the parameter %s" % (name, found.name, kind.name),
                         code="DTYPE_MISMATCH", remedy="astype(%r)" % kind.name)  # fmt: skip
    if tuple(array.shape) != tuple(shape):
        raise ShapeError("save_model: %s has shape %s, and the parameter %s" % (name, tuple(array.shape), tuple(shape)),
                         code="SHAPE_MISMATCH")  # fmt: skip
    return array.numpy if isinstance(array, (Held, Buffer)) else lambda: array
