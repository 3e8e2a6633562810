"""The cases as they stand in cases/*.json, and tensors and graphs as they are written there."""

import base64
import functools
import json
import pathlib
import sys
from typing import Any, Dict, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE / "adapters")]

import support  # noqa: F401: finds the package
import numpy as np
import python_adapter
from google.protobuf import json_format

import kiln
from kiln.v1 import graph_pb2

VECTORS = HERE.parent / "conformance" / "hash_vectors.json"
FIELDS = {"about", "server", "cut_each_frame", "steps"}


class Case(NamedTuple):
    name: str  # "theme.what"
    about: str
    server: Dict[str, Any]
    cut_each_frame: bool
    steps: list


@functools.lru_cache(None)
def cases():
    """All, by name, in the order in which they stand."""
    found = {}
    for path in sorted((HERE / "cases").glob("*.json")):
        for name, row in json.loads(path.read_text()).items():
            if set(row) - FIELDS:
                raise ValueError("%s, %s: a case has no %s" % (path.name, name, ", ".join(set(row) - FIELDS)))
            name = "%s.%s" % (path.stem, name)
            cut = row.get("cut_each_frame", False)
            found[name] = Case(name, row["about"], row.get("server", {}), cut, row["steps"])
    return found


@functools.lru_cache(None)
def _graphs():
    return json.loads((HERE / "graphs.json").read_text())


@functools.lru_cache(None)
def graph(name):
    """A graph of graphs.json, or one of the hash's vectors ("vector:add"), serialized, in base64."""
    if name.startswith("vector:"):
        written = {row["name"]: row["graph"] for row in vectors()}[name[len("vector:") :]]
    else:
        written = _graphs()[name]
    if isinstance(written, list):
        return python_adapter.Adapter().build({"calls": written})["graph"]
    return encoded(json_format.ParseDict(written, graph_pb2.Graph()).SerializeToString())


@functools.lru_cache(None)
def vectors():
    return json.loads(VECTORS.read_text())


def encoded(data):
    return base64.b64encode(data).decode()


def tensor(written):
    """{"dtype", "values", "hex", "zeros" (how many) or "range" (so many from 0 on, `times` and `plus` a number), "shape"?}
    as adapters have it."""
    dtype = written["dtype"]
    if "zeros" in written:
        written = dict(written, values=[0] * written["zeros"])
    if "range" in written:
        written = dict(written, values=np.arange(written["range"]) * written.get("times", 1) + written.get("plus", 0))
    if "hex" in written:
        data, count = bytes.fromhex(written["hex"]), len(written["hex"]) // 2 // kiln.dtype(dtype).itemsize
    else:
        values = np.array(written["values"]).astype(kiln.dtype(dtype).numpy)
        data, count = values.tobytes(), values.size
    return {"dtype": dtype, "shape": written.get("shape", [count]), "data": encoded(data)}


def array(said):
    """What an adapter's tensor holds."""
    data = np.frombuffer(base64.b64decode(said.get("data") or ""), kiln.dtype(said["dtype"]).numpy)
    return data.reshape(said.get("shape") or ())
