"""The hash of a graph: 32 bytes, the same in every language.

proto/README.md fixes each byte; tests/conformance/hash_vectors.json pins the result.
A digest of a node is BLAKE3 over its op's name, its argument in canonical form and
its sources' digests, so one pass from the first node to the last gives all.
"""

from __future__ import annotations

import struct
from typing import Any, Callable, Dict, List, Sequence

from blake3 import blake3

from kiln.constants import constant
from kiln.errors import GraphError
from kiln.v1 import graph_pb2

_U32 = struct.Struct("<I").pack
_I64 = struct.Struct("<q").pack
_NO_ARGUMENT = b"\0"

_ADDRSPACE: Dict[int, int] = {
    graph_pb2.DEFINE_LOCAL: graph_pb2.LOCAL,
    graph_pb2.DEFINE_REG: graph_pb2.REG,
    graph_pb2.DEFINE_ACC: graph_pb2.REG,
    graph_pb2.DEFINE_VAR: graph_pb2.ALU,
}

_FLOORING: Dict[int, str] = {graph_pb2.IDIV: "FLOORDIV", graph_pb2.MOD: "FLOORMOD"}
_TRUNCATING: Dict[int, str] = {graph_pb2.IDIV: "CDIV", graph_pb2.MOD: "CMOD"}


def _string(value: Any) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _U32(len(data)) + data


def _list(values: Sequence[Any], encode: Callable[[Any], bytes]) -> bytes:
    return _U32(len(values)) + b"".join(map(encode, values))


def _i64s(values: Sequence[int]) -> bytes:
    return struct.pack("<I%dq" % len(values), len(values), *values)


def _buffer(arg: graph_pb2.BufferArg, op: int) -> bytes:
    space = arg.addrspace or _ADDRSPACE.get(op, graph_pb2.GLOBAL)
    out = _U32(arg.slot) + _U32(arg.dtype) + _list(arg.device, _string) + _U32(space)
    out += _string(arg.name if space == graph_pb2.ALU else "")
    for bound in ("min_value", "max_value"):
        out += b"\1" + _I64(getattr(arg, bound)) if arg.HasField(bound) else b"\0"
    return out


def _opt(arg: graph_pb2.OptOp) -> bytes:
    return _U32(arg.kind) + _I64(arg.axis) + _i64s(arg.arg)


def _wmma(arg: graph_pb2.WmmaArg) -> bytes:
    out = _I64(arg.n) + _I64(arg.m) + _I64(arg.k) + _U32(arg.dtype_in) + _U32(arg.dtype_out) + _I64(arg.threads)
    return out + _list(arg.upcast_axes, lambda axes: _i64s(axes.axis)) + _i64s(arg.reduce_axes)


def _view(arg: Any) -> bytes:
    return _i64s(arg.shape) + _i64s(arg.stride) + _I64(arg.offset) + _i64s(arg.mask_begin) + _i64s(arg.mask_end)


# By form: its field number in UOp's oneof, and the content.
_FORMS: Dict[str, Any] = {
    "constant": (10, lambda arg, op: constant(arg)),
    "buffer": (11, _buffer),
    "axes": (12, lambda arg, op: _i64s(arg.axis)),
    "flip": (13, lambda arg, op: _U32(len(arg.axis)) + bytes(arg.axis)),
    "reduce": (14, lambda arg, op: _string(graph_pb2.Op.Name(arg.op)) + _i64s(arg.axis)),
    "pad": (15, lambda arg, op: constant(arg.fill)),
    "cast_to": (16, lambda arg, op: _U32(arg)),
    "index": (17, lambda arg, op: _I64(arg)),
    "load": (18, lambda arg, op: _list(arg.device, _string) + _U32(arg.addrspace)),
    "range": (19, lambda arg, op: _i64s(arg.axis_id) + _U32(arg.type)),
    "special": (20, lambda arg, op: _string(arg.name)),
    "kernel": (21, lambda arg, op: _list(arg.opts, _opt) + bytes((arg.dont_use_locals,))),
    "wmma": (22, lambda arg, op: _wmma(arg)),
    "text": (23, lambda arg, op: _string(arg)),
    "data": (24, lambda arg, op: _string(arg)),
    "view": (25, lambda arg, op: _list(arg.view, _view)),
    "all_reduce": (26, lambda arg, op: _string(graph_pb2.Op.Name(arg.op)) + _list(arg.device, _string)),
    "opt": (27, lambda arg, op: _opt(arg)),
}


def _argument(node: graph_pb2.UOp) -> bytes:
    form = node.WhichOneof("arg")
    if form is None:
        return _NO_ARGUMENT
    arg = getattr(node, form)
    # Two forms that say nothing count as none.
    if form == "pad" and (not arg.HasField("fill") or arg.fill.WhichOneof("value") == "invalid"):
        return _NO_ARGUMENT
    if form == "load" and not arg.device and not arg.addrspace:
        return _NO_ARGUMENT
    number, encode = _FORMS[form]
    return bytes((number,)) + encode(arg, node.op)


def graph_hash(graph: graph_pb2.Graph) -> bytes:
    """The 32 bytes of hash(graph), proto/README.md.

    Raises GraphError for constants without a canonical form, and for sources that are
    not earlier nodes: such graphs have no hash.
    """
    renamed = _TRUNCATING if graph.dialect == graph_pb2.LEGACY_2025 else _FLOORING
    names: Dict[int, bytes] = {}
    digests: List[bytes] = []
    for number, node in enumerate(graph.nodes):
        op = node.op
        name = names.get(op)
        if name is None:
            name = names[op] = _string(renamed.get(op) or graph_pb2.Op.Name(op))
        sources = node.src
        if any(source >= number for source in sources):
            raise GraphError("node %d has a source that is not earlier" % number, code="SOURCE_OUT_OF_RANGE")
        parts = [name, _argument(node), _U32(len(sources))]
        parts += [digests[source] for source in sources]
        digests.append(blake3(b"".join(parts)).digest())
    if not digests:
        raise GraphError("a graph without nodes has no hash", code="GRAPH_EMPTY")
    return blake3(b"kiln.graph\x01" + digests[-1]).digest()
