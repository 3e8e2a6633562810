"""Tensors and arrays on several devices.

    graph = kiln.Graph()
    x = graph.param("x", (64, 8), devices=("CPU:0", "CPU:1"), axis=0)   # a share of rows each
    w = graph.param("w", (8, 4), devices=("CPU:0", "CPU:1"), axis=None) # whole on each
    graph.output(x @ w, kiln.sum(x, 0))       # split like x; whole on each, added up
    xs = client.shards(array, ("CPU:0", "CPU:1"))
    y, total = client.compile(graph)(xs, client.shards(weights, ("CPU:0", "CPU:1"), axis=None), out="buffers")
    y.shards[1].device, y.numpy()

What an op does to a split axis follows from the op; a reduction over it is a collective.
Moves are asked for: copy, shard, replicate, all_reduce. A parameter that is whole on n
devices is n rows of an array of one more axis, and so is an argument for it.

`spread` makes a graph for one device one for several: data-parallel training in a line.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np

from kiln import arrays
from kiln.dtypes import weakint
from kiln.errors import GraphError, ShapeError
from kiln.handles import OnDevice
from kiln.movement import broadcast_to, moveaxis
from kiln.v1 import graph_pb2
from kiln.value import Value, axis_of, emit
from kiln.waiting import Waits, blocking

Devices = Union[str, Sequence[str]]

_OPS = {"sum": graph_pb2.ADD, "prod": graph_pb2.MUL, "max": graph_pb2.MAX}


def names_of(function: str, devices: Devices) -> Tuple[str, ...]:
    names = (devices,) if isinstance(devices, str) else tuple(devices)
    if not names or len(set(names)) != len(names):
        raise GraphError("%s: %r are not different devices" % (function, devices), code="BAD_ARGUMENT")
    return names


def equal_shares(function: str, size: Any, parts: int) -> None:
    if isinstance(size, int) and size % parts:
        raise ShapeError("%s: %d rows are not %d equal shares" % (function, size, parts), code="UNSUPPORTED_SHARD",
                         remedy="pad the axis")  # fmt: skip


def copy(x: Value, devices: Devices) -> Any:
    """On one device, whole; on several, a share of the first axis each."""
    names = names_of("copy", devices)
    if len(names) > 1:
        if not x.shape:
            raise ShapeError("copy: a tensor of shape () has no axis to split", code="UNSUPPORTED_SHARD")
        equal_shares("copy", x.shape[0], len(names))
    return emit("COPY", [x], x.dtype, x.shape, load=graph_pb2.LoadArg(device=names))


def shard(x: Value, devices: Devices, axis: int = 0) -> Any:
    """A share of `axis` on each device."""
    at = axis_of("shard", axis, len(x.shape))
    return moveaxis(copy(moveaxis(x, at, 0), devices), 0, at)


def replicate(x: Value, devices: Devices) -> Any:
    """Whole on each device."""
    names = names_of("replicate", devices)
    rows = copy(broadcast_to(x, (len(names), *x.shape)), names)
    return replicated(rows) if len(names) > 1 else rows[0]


def replicated(rows: Value) -> Any:
    """Of equal rows, one on each device: the row, whole on each."""
    return emit("REPLICATED", [rows], rows.dtype, rows.shape[1:], index=0)


def all_reduce(x: Value, parts: int, op: str = "sum") -> Any:
    """The shares of a first axis that is split over `parts` devices, combined, on each of them."""
    if op not in _OPS:
        raise GraphError('all_reduce: op "%s"' % op, code="BAD_ARGUMENT", remedy="one of " + ", ".join(_OPS))
    if not x.shape or not isinstance(x.shape[0], int):
        raise ShapeError("all_reduce: no first axis of a known size in %s" % (x.shape,), code="UNSUPPORTED_SHARD")
    equal_shares("all_reduce", x.shape[0], parts)
    shape = (x.shape[0] // parts, *x.shape[1:])
    return emit("ALLREDUCE", [x], x.dtype, shape, all_reduce=graph_pb2.AllReduceArg(op=_OPS[op]))


def spread(graph: Any, devices: Devices, split: Sequence[Any] = ()) -> graph_pb2.Graph:
    """A graph for one device on several: parameters in `split` (slots or names) in equal shares of their
    first axis, all others whole on each. GraphError for one that is not there."""
    message = graph if isinstance(graph, graph_pb2.Graph) else graph.build()
    names, missing = names_of("spread", devices), set(split)
    made, number = graph_pb2.Graph(dialect=message.dialect), []
    for uop in message.nodes:
        if uop.op in (graph_pb2.FUNCTION, graph_pb2.CALL):
            raise GraphError("spread: a graph with calls in it", code="BAD_ARGUMENT")
        node = graph_pb2.UOp()
        node.CopyFrom(uop)
        node.src[:] = [number[source] for source in uop.src]
        whole = False
        if uop.op == graph_pb2.PARAM and uop.buffer.addrspace != graph_pb2.ALU:
            node.buffer.device[:] = names
            named = {uop.buffer.slot, uop.buffer.name} & set(split)
            missing -= named
            whole = not named and len(names) > 1
        if whole:
            rows = graph_pb2.ConstArg(dtype=weakint.number, i=len(names))
            made.nodes.add(op=graph_pb2.CONST, constant=rows)
            shape = made.nodes[number[uop.src[0]]]
            sizes = shape.src if shape.op == graph_pb2.STACK else [number[uop.src[0]]]
            made.nodes.add(op=graph_pb2.STACK, src=[len(made.nodes) - 1, *sizes])
            node.src[:] = [len(made.nodes) - 1]
        made.nodes.append(node)
        if whole:
            made.nodes.add(op=graph_pb2.REPLICATED, src=[len(made.nodes) - 1], index=0)
        number.append(len(made.nodes) - 1)
    if missing:
        raise GraphError("spread: no parameter %s" % ", ".join(map(repr, missing)), code="BAD_ARGUMENT")
    return made


class ShardsLike(OnDevice):
    """An array on several devices: `shards`, one a device, split along `axis`; with None, whole on each.

    `shape`, `dtype` and `nbytes` are the whole's. What kiln.aio's shards share.
    """

    def __init__(self, shards: Sequence[Any], axis: Optional[int]):
        self.shards, self.axis = list(shards), axis
        if len({(shard.dtype, shard.shape) for shard in self.shards}) != 1:
            raise ShapeError("shards are of one dtype and shape, not %s" %
                             (", ".join("%s %s" % (shard.dtype.name, shard.shape) for shard in self.shards) or "none"))  # fmt: skip
        self.dtype = self.shards[0].dtype
        shape = list(self.shards[0].shape)
        if axis is not None:
            axis = self.axis = axis_of("shards", axis, len(shape))
        if axis is not None:
            shape[axis] *= len(self.shards)
        self.shape: arrays.Shape = tuple(shape)
        self.nbytes = arrays.count_of(self.shape) * self.dtype.itemsize

    @property
    def devices(self) -> Tuple[str, ...]:
        """Where each shard is, in their order."""
        return tuple(shard.device for shard in self.shards)

    def _read(self) -> Waits[np.ndarray]:
        parts: List[np.ndarray] = []
        for shard in self.shards[: 1 if self.axis is None else None]:
            parts.append((yield shard.numpy()))
        return parts[0] if self.axis is None else np.concatenate(parts, self.axis)

    def __repr__(self) -> str:
        return "<Shards %s %s on %s, axis %s>" % (self.dtype.name, self.shape, ", ".join(self.devices), self.axis)


class Shards(ShardsLike):
    """Made by Client.shards and by programs. Threads: any."""

    def numpy(self) -> np.ndarray:
        """A new array of the whole."""
        return blocking(self._read())

    def copy(self) -> "Shards":
        """A new array of the same content, on the same devices."""
        return Shards([shard.copy() for shard in self.shards], self.axis)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        return arrays.of_device(self.numpy, dtype, copy)

    def free(self) -> None:
        """Frees the buffer on each device. Twice is once."""
        for shard in self.shards:
            shard.free()


def shares(value: Any, devices: Devices, axis: Optional[int]) -> List[Tuple[str, np.ndarray]]:
    """Each device's name and what it has of an array: an equal share of the first axis or, with None, one
    row of as many as there are devices."""
    names, array = names_of("shards", devices), arrays.host_array(value, None)
    if axis is None:
        return [(name, array[None]) for name in names]
    if axis != 0 or array.ndim == 0:
        raise ShapeError("shards: arrays are split along their first axis, this one is %s" % (array.shape,),
                         code="UNSUPPORTED_SHARD")  # fmt: skip
    equal_shares("shards", array.shape[0], len(names))
    return list(zip(names, np.split(array, len(names))))
