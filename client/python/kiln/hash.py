"""The hash of a graph: 32 bytes, the same in every language.

proto/README.md fixes each byte; tests/conformance/hash_vectors.json pins the result.
A digest of a node is BLAKE3 over its op's name, its argument in canonical form and
its sources' digests, so one pass from the first node to the last gives all.
"""

from __future__ import annotations

import struct
from typing import Any, Callable, Dict, List, Optional, Sequence

from blake3 import blake3

from kiln.constants import constant
from kiln.errors import GraphError
from kiln.v1 import dtype_pb2, error_pb2, graph_pb2

_PACK_U32 = struct.Struct("<I").pack
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

# Whose sources the older documents order otherwise; whose dtype says what they are, always
# or where nothing else does; and what counts in int64 unless its dtype says otherwise.
_READ_BY_DIALECT = frozenset((graph_pb2.LOAD, graph_pb2.STORE, graph_pb2.RANGE))
_SAID_BY_DTYPE = frozenset((graph_pb2.BUFFER_VIEW, graph_pb2.CUSTOM, graph_pb2.CUSTOMI, graph_pb2.EMPTY, graph_pb2.INS,
                            graph_pb2.VCONST))
_DEFINES = frozenset((graph_pb2.DEFINE_GLOBAL, graph_pb2.DEFINE_LOCAL, graph_pb2.DEFINE_REG, graph_pb2.DEFINE_ACC))
_COUNTERS = frozenset((graph_pb2.RANGE, graph_pb2.LOOP, graph_pb2.SPECIAL))
_COUNTS = frozenset((dtype_pb2.INT64, dtype_pb2.WEAKINT))
_OPS = frozenset(graph_pb2.Op.values()) - {graph_pb2.OP_UNSPECIFIED}
_NAMED_BY_NODE = _SAID_BY_DTYPE | _DEFINES | _COUNTERS


def _U32(value: int) -> bytes:
    """Of a size, or of an enum's number, which may be any int32."""
    return _PACK_U32(value & 0xFFFFFFFF)


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
    "reduce": (14, lambda arg, op: _reduce_op(arg.op) + _i64s(arg.axis)),
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
    "all_reduce": (26, lambda arg, op: _reduce_op(arg.op) + _list(arg.device, _string)),
    "opt": (27, lambda arg, op: _opt(arg)),
}


def _argument(node: graph_pb2.UOp) -> bytes:
    form = node.WhichOneof("arg")
    if form is None:
        return _NO_ARGUMENT
    arg = getattr(node, form)
    # Two forms that say nothing count as none.
    if form == "pad" and (not arg.HasField("fill") or arg.fill.invalid):
        return _NO_ARGUMENT
    if form == "load" and not arg.device and not arg.addrspace:
        return _NO_ARGUMENT
    number, encode = _FORMS[form]
    return bytes((number,)) + encode(arg, node.op)


def _is_op(op: int) -> bool:
    return op in _OPS


def _reduce_op(op: int) -> bytes:
    """The op of a reduction."""
    if not _is_op(op):
        raise GraphError("op %d of the reduction is unknown" % op, code="BAD_ARGUMENT")
    return _string(graph_pb2.Op.Name(op))


def _at(number: int, node: graph_pb2.UOp, message: str, code: Optional[str]) -> GraphError:
    op = graph_pb2.Op.Name(node.op) if _is_op(node.op) else str(node.op)
    detail = error_pb2.ErrorDetail(code=error_pb2.ErrorCode.Value(code or "BAD_ARGUMENT"), node=number, op=op, tag=node.tag)
    return GraphError("node %d (%s): %s" % (number, op, message), detail=detail)


def _op_name(node: graph_pb2.UOp, legacy: bool) -> str:
    """The op's name, by what its dialect and a dtype that is no mere check make of it."""
    op, dtype = node.op, node.dtype
    name = (_TRUNCATING if legacy else _FLOORING).get(op) or graph_pb2.Op.Name(op)
    if legacy and op in _READ_BY_DIALECT:
        name += ":LEGACY_2025"
    if dtype and (
        op in _SAID_BY_DTYPE
        or (op in _DEFINES and not node.buffer.dtype)
        or (op in _COUNTERS and dtype not in _COUNTS)
    ):
        name += ":%d" % dtype
    return name


def graph_hash(graph: graph_pb2.Graph) -> bytes:
    """The 32 bytes of hash(graph), proto/README.md.

    Raises GraphError, with the code and the node that the server would give, for what
    has no hash: constants without a canonical form, sources that are not earlier nodes,
    ops that are unknown.
    """
    if not graph.nodes:
        raise GraphError("a graph without nodes has no hash", code="GRAPH_EMPTY")
    if graph.dialect not in graph_pb2.Dialect.values():
        raise GraphError("dialect %d is unknown" % graph.dialect, code="BAD_ARGUMENT")
    legacy = graph.dialect == graph_pb2.LEGACY_2025
    names: Dict[int, bytes] = {}  # of ops whose name is the same in every node
    digests: List[bytes] = []
    count = len(graph.nodes)
    for number, node in enumerate(graph.nodes):
        op = node.op
        name = names.get(op)
        if name is None:
            if not _is_op(op):
                raise _at(number, node, "op %d is unknown" % op, "UNKNOWN_OP")
            name = _string(_op_name(node, legacy))
            if op not in _NAMED_BY_NODE:
                names[op] = name
        sources = node.src
        try:
            argument = _argument(node)
        except GraphError as error:
            raise _at(number, node, error.message, error.code) from None
        for source in sources:
            if source >= count:
                raise _at(number, node, "source %d is no node of the graph" % source, "SOURCE_OUT_OF_RANGE")
            if source >= number:
                raise _at(number, node, "source %d is not earlier" % source, "GRAPH_CYCLE")
        parts = [name, argument, _U32(len(sources))]
        parts += [digests[source] for source in sources]
        digests.append(blake3(b"".join(parts)).digest())
    return blake3(b"kiln.graph\x01" + digests[-1]).digest()
