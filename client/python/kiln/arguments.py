"""What a call gives a program, held against the program's signature before it is sent.

An argument has the parameter's dtype, shape and device, be it an array, a Buffer or Shards. A
buffer that is to be read as something else is viewed as that (Buffer.view), or given from a
byte on (At); one without a type (Client.allocate) may hold anything.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from kiln import arrays
from kiln.buffers import BufferLike
from kiln.dtypes import BY_NUMBER, DType, integer, integer64
from kiln.errors import DTypeError, InvalidArgument, OutOfRange, ShapeError
from kiln.sharding import ShardsLike
from kiln.v1 import graph_pb2, kernel_service_pb2
from kiln.transport.wire import INLINE


class At(NamedTuple):
    """An argument that begins at byte `offset` of a buffer: a view that costs nothing."""

    buffer: BufferLike
    offset: int


class AtShards(NamedTuple):
    """An argument on several devices: where each one's share begins."""

    places: Tuple[At, ...]


class Parameter:
    """A row of the signature, ready to be compared with."""

    __slots__ = ("slot", "name", "dtype", "shape", "symbolic", "devices", "axis")

    def __init__(self, row: Any, name: str, layout: Any, device: str):
        self.slot, self.name, self.dtype = row.slot, name, BY_NUMBER[row.dtype]
        self.shape: Tuple[int, ...] = tuple(row.shape)
        self.symbolic: Set[int] = {size.axis for size in row.symbolic}
        self.devices: Tuple[str, ...] = (device,) if layout is None else tuple(layout.device)
        self.axis: Optional[int] = layout.axis if layout is not None and layout.HasField("axis") else None

    def __str__(self) -> str:
        return "argument %d%s" % (self.slot, " (%s)" % self.name if self.name else "")

    def check(self, what: str, dtype: DType, shape: Tuple[int, ...], shape_code: str) -> None:
        """DTypeError or ShapeError unless a value of this type is one for the parameter."""
        if dtype is not self.dtype:
            raise DTypeError("%s is %s, the %s %s" % (self, self.dtype.name, what, dtype.name),
                             code="BUFFER_DTYPE_MISMATCH", remedy=_AS_DTYPE[what])  # fmt: skip
        if shape != self.shape and not self._fits(shape):
            wanted = tuple("n" if axis in self.symbolic else size for axis, size in enumerate(self.shape))
            raise ShapeError("%s is %s, the %s %s" % (self, str(wanted).replace("'n'", "n"), what, shape),
                             code=shape_code, remedy=_AS_SHAPE[what])  # fmt: skip

    def _fits(self, shape: Tuple[int, ...]) -> bool:
        """Where sizes come with the call; whether it is these, the server says."""
        return bool(self.symbolic) and len(shape) == len(self.shape) and all(
            axis in self.symbolic or size == shape[axis] for axis, size in enumerate(self.shape))  # fmt: skip

    def check_devices(self, devices: Tuple[str, ...]) -> None:
        if devices != self.devices:
            raise InvalidArgument("%s is on %s, the program takes it on %s" %
                                  (self, ", ".join(devices), ", ".join(self.devices)),
                                  code="BUFFER_DEVICE_MISMATCH", remedy="copy it there")  # fmt: skip


_AS_DTYPE = {"array": "convert it with astype", "buffer": "view it as what it is to be", "shards": "convert them"}
_AS_SHAPE = {"array": "reshape it", "buffer": "view it in that shape", "shards": "split it so"}


def names_of(graph: graph_pb2.Graph) -> Dict[int, str]:
    """What a graph calls its parameters, by slot. (The hash knows no names: a program may have been compiled under others.)"""
    names: Dict[int, Set[str]] = {}
    for node in graph.nodes:
        if node.op == graph_pb2.PARAM and node.buffer.addrspace != graph_pb2.ALU and node.buffer.name:
            names.setdefault(node.buffer.slot, set()).add(node.buffer.name)
    # Bodies of functions have slots of their own.
    return {slot: found.pop() for slot, found in names.items() if len(found) == 1}


class Takes:
    """Of programs: their parameters and variables, and the check of what is given for them."""

    def _read_signature(self, graph: graph_pb2.Graph, compiled: kernel_service_pb2.CompileResponse, device: str) -> None:
        signature, names = compiled.signature, names_of(graph)
        for row in signature.parameters:
            row.name = names.get(row.slot, row.name)
        layouts = compiled.parameter_layouts or [None] * len(signature.parameters)
        self._parameters = {row.slot: Parameter(row, row.name, layout, device)
                            for row, layout in zip(signature.parameters, layouts)}  # fmt: skip
        self._order = [row.slot for row in signature.parameters]
        self._variables = {row.slot: row for row in signature.variables}
        self._names: Dict[str, List[int]] = {}
        for row in [*signature.parameters, *signature.variables]:
            if row.name:
                self._names.setdefault(row.name, []).append(row.slot)

    def _slots(self, args: Sequence[Any], named: Mapping[str, Any]) -> Dict[int, Any]:
        """By slot: positional arguments in ascending order of slot, others by name."""
        if len(args) > len(self._order):
            raise InvalidArgument("%d arguments for %d parameters" % (len(args), len(self._order)),
                                  code="UNKNOWN_ARGUMENT")  # fmt: skip
        values = dict(zip(self._order, args))
        for name, value in named.items():
            slots = self._names.get(name)
            if slots is None:
                raise InvalidArgument("no parameter or variable is named %r" % name, code="UNKNOWN_ARGUMENT",
                                      remedy="there are: " + (", ".join(sorted(self._names)) or "none with a name"))  # fmt: skip
            if len(slots) > 1:
                raise InvalidArgument("slots %s are all named %r" % (" and ".join(map(str, slots)), name),
                                      code="BAD_ARGUMENT", remedy="run() takes arguments by slot")  # fmt: skip
            if slots[0] in values:
                raise InvalidArgument("%s (slot %d) is given twice" % (name, slots[0]), code="BAD_ARGUMENT")
            values[slots[0]] = value
        return values

    def _prepare(self, values: Mapping[int, Any]) -> Tuple[Dict[int, Any], List[int]]:
        """The values, checked, with arrays made contiguous; and the slots of arrays too large for a message."""
        ready: Dict[int, Any] = {}
        large = []
        for slot, value in values.items():
            parameter = self._parameters.get(slot)
            if parameter is None:
                value = self._integer(slot, value)
            elif isinstance(value, (BufferLike, At)):
                check_buffer(parameter, value)
            elif isinstance(value, ShardsLike):
                check_shards(parameter, value)
            elif isinstance(value, AtShards):
                parameter.check_devices(tuple(place.buffer.device for place in value.places))
            else:
                value = as_array(parameter, value)
                if value.nbytes > INLINE:
                    large.append(slot)
            ready[slot] = value
        return ready, large

    def _integer(self, slot: int, value: Any) -> int:
        """A variable's value; within its range? that the server says."""
        row = self._variables.get(slot)
        if row is None:
            raise InvalidArgument("the program has no slot %r" % (slot,), code="UNKNOWN_ARGUMENT")
        return integer64(value, "argument %d%s" % (slot, " (%s)" % row.name if row.name else ""))


def check_buffer(parameter: Parameter, value: Any) -> None:
    buffer, offset = (value.buffer, integer(value.offset, "an offset")) if isinstance(value, At) else (value, 0)
    if buffer.typed and buffer.dtype is not parameter.dtype or buffer.typed and offset == 0:
        parameter.check("buffer", buffer.dtype, buffer.shape, "BUFFER_SIZE_MISMATCH")
    if not 0 <= offset <= buffer.nbytes:
        raise OutOfRange("%s begins at byte %d of a buffer of %d" % (parameter, offset, buffer.nbytes))
    if parameter.devices != (buffer.device,):
        parameter.check_devices((buffer.device,))


def check_shards(parameter: Parameter, value: ShardsLike) -> None:
    parameter.check("shards", value.dtype, value.shape, "BUFFER_SIZE_MISMATCH")
    if len(parameter.devices) == 1:
        raise InvalidArgument("%s is on one device, and takes one buffer" % parameter, code="BAD_ARGUMENT")
    if value.axis != parameter.axis:
        raise InvalidArgument("%s is %s, the shards are %s" % (parameter, _split(parameter.axis), _split(value.axis)),
                              code="UNSUPPORTED_SHARD")  # fmt: skip
    parameter.check_devices(value.devices)


def _split(axis: Optional[int]) -> str:
    return "whole on each device" if axis is None else "split along axis %d" % axis


def as_array(parameter: Parameter, value: Any) -> np.ndarray:
    """An array of the parameter's dtype and shape."""
    if (type(value) is np.ndarray and value.dtype == parameter.dtype.numpy and value.shape == parameter.shape
            and value.flags.c_contiguous and sys.byteorder == "little"):  # fmt: skip
        return value
    array = arrays.host_array(value, parameter.dtype)
    if array.dtype != parameter.dtype.numpy:
        raise DTypeError("%s is %s, the array %s" % (parameter, parameter.dtype.name, array.dtype),
                         code="BUFFER_DTYPE_MISMATCH", remedy=_AS_DTYPE["array"])  # fmt: skip
    parameter.check("array", parameter.dtype, array.shape, "SHAPE_MISMATCH")
    return array
