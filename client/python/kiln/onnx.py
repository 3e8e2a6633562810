"""kiln.onnx: an ONNX model as a function of arrays.

    model = kiln.onnx.load("model.onnx", sizes={"batch": (1, 64)})
    y = model(x)

The file is read on this machine by the command line, `kiln import`, which is the package kilnd's or on PATH (or
KILN_CLI says where it is). A model is data: it becomes a graph, and nothing of it runs as code, neither here nor on the server.
docs/onnx.md lists the ops that are taken.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from numbers import Integral
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

import numpy as np

from kiln.dtypes import dtype
from kiln.errors import DTypeError, Internal, InvalidArgument, NotFound, ShapeError
from kiln.functional import programs
from kiln.functional.current import current
from kiln.help import describe
from kiln.interchange.files import load as load_arrays
from kiln.v1 import graph_pb2

__all__ = ["Model", "Tensor", "load"]

# What a size may be in a call: a number, or the least and the greatest.
Sizes = Mapping[str, Union[int, Tuple[int, int]]]


class Tensor(NamedTuple):
    """An input or output. A size that calls decide is the text of what it depends on, such as "batch"."""

    name: str
    dtype: str
    shape: Tuple[Union[int, str], ...]


def load(path: "Union[str, os.PathLike[str]]", sizes: Sizes = {}, *, client: Optional[Any] = None,
         device: Optional[str] = None) -> "Model":  # fmt: skip
    """The model of a file, compiled, with its constants on a device.

    path            ends with .onnx; external data lies beside it
    sizes           of dimensions that the model names: a number, or (least, greatest) for what each call
                    decides; one that is not here is 1
    client, device  where it runs; default: the current client, and its device

    Raises InvalidArgument for what is no model, and where an op is not taken: `code` is UNSUPPORTED_OP, and the message
    names the node; NotFound where the file, or the program `kiln`, is not there; ImportError without the package
    safetensors; and what compile() does.
    """
    client = client or current()
    with tempfile.TemporaryDirectory(prefix="kiln-onnx-") as folder:
        graph, weights = os.path.join(folder, "graph.pb"), os.path.join(folder, "constants.safetensors")
        words = ["--json", "-o", graph, "--constants", weights]
        for name, size in sizes.items():
            words += ["--size", "%s=%s" % (name, size if isinstance(size, Integral) else "%d:%d" % tuple(size))]
        said = json.loads(_run(os.fspath(path), words))
        message = graph_pb2.Graph()
        with open(graph, "rb") as file:
            message.ParseFromString(file.read())
        constants = {}
        if said["constants"]:
            arrays = load_arrays(weights, client=client, device=device)
            constants = {row["slot"]: arrays[row["written_as"]] for row in said["constants"]}
    return Model(client.compile(message, constants=list(constants), device=device), said, constants)


class Model:
    """A function of the model's inputs: `inputs` and `outputs` describe them, `program` is the program.

    Called with arrays in the order of `inputs`, or by name; results are numpy arrays in the order of `outputs`, one by
    itself. Sizes follow from the arrays' shapes. Threads: any.
    """

    def __init__(self, program: Any, said: Mapping[str, Any], constants: Mapping[int, Any]):
        self.program = program
        self.inputs = tuple(Tensor(row["name"], row["dtype"], tuple(row["shape"])) for row in said["inputs"])
        self.outputs = tuple(Tensor(row["name"], row["dtype"], tuple(row["shape"])) for row in said["outputs"])
        self._rows: List[Dict[str, Any]] = said["inputs"]
        self._sizes = {row["name"]: row["slot"] for row in said["sizes"]}
        self._results: List[Optional[int]] = [row["result"] for row in said["outputs"]]
        self._constants = dict(constants)

    def __call__(self, /, *args: Any, sizes: Mapping[str, int] = {}, timeout: Optional[float] = None, **named: Any) -> Any:
        """Runs it once: numpy arrays in the order of `outputs`, one by itself, None for an output that is empty.

        sizes    what follows from no array's shape

        Raises ShapeError and DTypeError where an array does not fit, InvalidArgument where one is missing or a name is
        none, and what the server says.
        """
        given = self._given(args, named)
        values: Dict[int, Any] = {slot: array.buffer for slot, array in self._constants.items()}
        known = dict(sizes)
        for name in known:
            if name not in self._sizes:
                raise InvalidArgument("%s is no size that calls decide; they are %s" % (name, ", ".join(self._sizes) or "none"),
                                      code="BAD_ARGUMENT")  # fmt: skip
        for row in self._rows:
            value = given[row["name"]]
            self._check(row, value, known)
            if row["used"]:
                values[row["slot"]] = getattr(value, "buffer", value)
        for name, slot in self._sizes.items():
            if name not in known:
                raise InvalidArgument("the size %s follows from no input's shape" % name, code="MISSING_ARGUMENT",
                                      remedy="sizes={%r: ...}" % name)  # fmt: skip
            values[slot] = known[name]
        found = self.program.run(values, timeout=timeout).results
        results = tuple(None if at is None else found[at] for at in self._results)
        return results[0] if len(results) == 1 else results

    def __repr__(self) -> str:
        def told(tensors: Tuple[Tensor, ...]) -> str:
            return ", ".join("%s: %s[%s]" % (each.name, each.dtype, ", ".join(map(str, each.shape))) for each in tensors)

        return "<ONNX model (%s) -> (%s)>" % (told(self.inputs), told(self.outputs))

    def _given(self, args: Tuple[Any, ...], named: Mapping[str, Any]) -> Dict[str, Any]:
        """Each input's array, by name."""
        names = [each.name for each in self.inputs]
        if len(args) > len(names):
            raise InvalidArgument("the model has %d inputs, not %d: %s" % (len(names), len(args), ", ".join(names)))
        given = dict(zip(names, args))
        for name, value in named.items():
            if name not in names or name in given:
                why = "is given twice" if name in given else "is no input; they are %s" % ", ".join(names)
                raise InvalidArgument("%s %s" % (name, why), code="BAD_ARGUMENT")
            given[name] = value
        missing = [name for name in names if name not in given]
        if missing:
            raise InvalidArgument("no value for %s" % ", ".join(missing), code="MISSING_ARGUMENT")
        return {name: value if hasattr(value, "buffer") else np.asarray(value) for name, value in given.items()}

    def _check(self, row: Mapping[str, Any], value: Any, known: Dict[str, int]) -> None:
        """Type and shape of one array; adds the sizes that they say."""
        found = dtype(value.dtype).name
        if found != row["dtype"]:
            raise DTypeError("%s is %s, and takes %s" % (row["name"], found, row["dtype"]), code="DTYPE_MISMATCH",
                             remedy="astype(%r)" % row["dtype"])  # fmt: skip
        shape = row["shape"]
        fits = len(shape) == len(value.shape)
        for size, has in zip(shape, value.shape):
            if isinstance(size, str) and size not in self._sizes:
                continue  # made of several, which the server checks
            fits = fits and has == (size if isinstance(size, int) else known.setdefault(size, has))
        if not fits:
            decided = "".join("; %s is %d" % item for item in known.items() if item[0] in shape)
            raise ShapeError("%s has shape %s, and takes (%s)%s" % (
                row["name"], tuple(value.shape), ", ".join(map(str, shape)), decided), code="SHAPE_MISMATCH")  # fmt: skip


def _run(path: str, words: List[str]) -> str:
    """What `kiln import` prints."""
    program, missing = programs.find("kiln", "KILN_CLI")
    if program is None:
        raise NotFound("kiln.onnx reads models by `kiln import`, and %s" % missing,
                       remedy="pip install ./kilnd-*.whl, by its file, as it is not on PyPI; "
                              "or KILN_CLI=/path/to/kiln")  # fmt: skip
    ran = subprocess.run([program, "import", path, *words], stdin=subprocess.DEVNULL, capture_output=True,
                         encoding="utf-8", errors="replace")  # fmt: skip
    if ran.returncode == 0:
        return ran.stdout
    if ran.returncode < 0:
        raise Internal("kiln import was ended by signal %d" % -ran.returncode)
    code, _, message = ran.stderr.strip().partition("kiln: ")[2].partition(": ")
    error = NotFound if code == "NOT_FOUND" else InvalidArgument
    raise error(message or ran.stderr.strip(), code=code if code.isupper() else "BAD_ARGUMENT")


describe({name: globals()[name] for name in __all__}, "onnx.")
