"""tinygrad's names and Kiln's: dtypes, ops that carry nothing but their sources, address spaces, axis types."""

from __future__ import annotations

from typing import Dict

from tinygrad.dtype import AddrSpace, DType, dtypes
from tinygrad.uop.ops import AxisType, Ops

from kiln.dtypes import BY_NAME
from kiln.v1 import graph_pb2 as pb


class NotExpressible(Exception):
    """A tinygrad graph that Kiln has no words for; the argument is a short reason."""


DTYPES: Dict[DType, int] = {
    getattr(dtypes, theirs): BY_NAME[ours].number
    for theirs, ours in {
        "void": "void", "bool": "bool", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
        "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "float16": "float16",
        "bfloat16": "bfloat16", "float32": "float32", "float64": "float64", "fp8e4m3": "float8_e4m3",
        "fp8e5m2": "float8_e5m2", "fp8e4m3fnuz": "float8_e4m3_fnuz", "fp8e5m2fnuz": "float8_e5m2_fnuz",
        "weakint": "weakint", "weakfloat": "weakfloat",
    }.items()  # fmt: skip
    if hasattr(dtypes, theirs)
}

# Ops that carry nothing but their sources, under one name in both.
PLAIN = {
    getattr(Ops, name): getattr(pb, name)
    for name in (
        "EXP2 LOG2 SIN SQRT RECIPROCAL NEG TRUNC ADD MUL SHL SHR CDIV MAX CMOD CMPLT CMPNE CMPEQ XOR OR AND THREEFRY "
        "SUB FDIV POW FLOORDIV FLOORMOD WHERE MULACC STACK INDEX AFTER STORE SINK TUPLE FUNCTION END GROUP BARRIER IF "
        "ENDIF CONTIGUOUS CONTIGUOUS_BACKWARD DETACH RESHAPE SHRINK LOAD LINEAR"
    ).split()
}

ADDRSPACES = {AddrSpace.GLOBAL: pb.GLOBAL, AddrSpace.LOCAL: pb.LOCAL, AddrSpace.REG: pb.REG, AddrSpace.ALU: pb.ALU}

AXIS_TYPES = {
    AxisType.GLOBAL: pb.AXIS_GLOBAL, AxisType.WARP: pb.AXIS_WARP, AxisType.LOCAL: pb.AXIS_LOCAL,
    AxisType.LOOP: pb.AXIS_LOOP, AxisType.WEAK: pb.AXIS_LOOP, AxisType.GROUP_REDUCE: pb.AXIS_GROUP_REDUCE,
    AxisType.REDUCE: pb.AXIS_REDUCE, AxisType.UPCAST: pb.AXIS_UPCAST, AxisType.UNROLL: pb.AXIS_UNROLL,
    AxisType.THREAD: pb.AXIS_THREAD, AxisType.DEVICE: pb.AXIS_DEVICE,
}  # fmt: skip


def dtype_number(kind: DType) -> int:
    number = DTYPES.get(kind)
    if number is None:
        raise NotExpressible("dtype %s" % kind.name)
    return number
