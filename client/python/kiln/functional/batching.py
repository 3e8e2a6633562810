"""A graph of one example as a graph of many: every node that depends on an example gets an axis in front.

One rule an op. What does not depend on examples stays as it is, and is computed once.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from kiln import promotion
from kiln.dtypes import BY_NUMBER, DType, bool_, int64, uint8
from kiln.elementwise import add, astype, where
from kiln.movement import broadcast_to, moveaxis, reshape
from kiln.tensor import Tensor
from kiln.v1 import graph_pb2
from kiln.value import broadcast

_NAME = graph_pb2.Op.Name
# Ops whose result has the shape that their operands broadcast to.
_COMPARISONS = {graph_pb2.Op.Value(name) for name in ("CMPLT", "CMPGT", "CMPLE", "CMPGE", "CMPEQ", "CMPNE")}
_ELEMENTWISE = _COMPARISONS | {graph_pb2.Op.Value(name) for name in (
    "ADD SUB MUL FDIV FLOORDIV FLOORMOD MAX POW AND OR XOR SHL SHR THREEFRY WHERE "
    "NEG EXP2 LOG2 SIN SQRT RECIPROCAL TRUNC CAST DETACH CONTIGUOUS").split()}  # fmt: skip


class Row:
    """A node of the message: its `sizes` and dtype for one example, and what it is in the graph: `value`."""

    __slots__ = ("dtype", "sizes", "value", "many")

    def __init__(self, dtype: Optional[DType], sizes: Optional[Tuple[int, ...]], value: Tensor, many: bool):
        self.dtype, self.sizes, self.value, self.many = dtype, sizes, value, many


class Batch:
    """`size` examples, whose values stand for the parameters of some slots. apply() gives the results' rows."""

    def __init__(self, trace: Any, size: int, examples: Dict[int, Tensor]):
        self.trace, self.size, self.examples = trace, size, examples
        self._message = graph_pb2.Graph()
        self._rows: List[Row] = []

    def apply(self, message: graph_pb2.Graph) -> List[Row]:
        """NotImplementedError, which names the op, for what has no rule."""
        self._message = message
        for uop in message.nodes[:-1]:
            self._rows.append(self._row(uop))
        return [self._rows[source] for source in message.nodes[-1].src]

    def _row(self, uop: graph_pb2.UOp) -> Row:
        if uop.op == graph_pb2.PARAM and uop.buffer.slot in self.examples:
            value = self.examples[uop.buffer.slot]
            return Row(value.dtype, value.shape[1:], value, True)  # type: ignore[arg-type]
        sources = [self._rows[source] for source in uop.src]
        kind, sizes = self._kind(uop, sources), self._sizes(uop, sources)
        if not any(source.many for source in sources):
            copied = graph_pb2.UOp()
            copied.CopyFrom(uop)
            copied.src[:] = [source.value.node for source in sources]
            return Row(kind, sizes, self._tensor(self.trace._intern(copied), kind, sizes), False)
        rule = _RULES.get(uop.op)
        if rule is None or sizes is None:
            raise NotImplementedError("vmap has no rule for the op %s" % _NAME(uop.op))
        return Row(kind, sizes, rule(self, uop, sources, kind, sizes), True)

    def _tensor(self, node: int, kind: Optional[DType], sizes: Any) -> Tensor:
        return self.trace._tensor(self.trace, node, kind, sizes)

    def made(self, op: Any, sources: Sequence[int], kind: Any, sizes: Tuple[int, ...], **arg: Any) -> Tensor:
        """A node with the axis of examples in front."""
        return self._tensor(self.trace.node(op, sources, **arg), kind, (self.size, *sizes))

    def every(self, source: Row) -> Tensor:
        """A source with an axis of examples, if it has none."""
        return source.value if source.many else broadcast_to(source.value, (self.size, *source.value.shape))

    # -- what a node is for one example

    def _kind(self, uop: graph_pb2.UOp, sources: Sequence[Row]) -> Optional[DType]:
        if uop.op == graph_pb2.CONST:
            return BY_NUMBER[uop.constant.dtype]
        if uop.op == graph_pb2.PARAM:
            return BY_NUMBER[uop.buffer.dtype]
        if uop.op in (graph_pb2.CAST, graph_pb2.BITCAST):
            return BY_NUMBER[uop.cast_to]
        if uop.op in _COMPARISONS:
            return bool_
        if uop.op == graph_pb2.BINARY:
            return uint8
        return sources[1 if uop.op == graph_pb2.WHERE else 0].dtype if sources else None

    def _sizes(self, uop: graph_pb2.UOp, sources: Sequence[Row]) -> Optional[Tuple[int, ...]]:
        """None where only a rule would know."""
        if uop.op in _ELEMENTWISE and all(source.sizes is not None for source in sources):
            return broadcast("vmap", *(source.sizes for source in sources))  # type: ignore[arg-type, return-value]
        find = _SIZES.get(uop.op)
        return None if find is None else find(self, uop, sources)

    def numbers(self, node: int) -> Tuple[int, ...]:
        """What the STACK of a shape holds."""
        uop = self._message.nodes[node]
        return tuple(self._message.nodes[source].constant.i for source in uop.src)


def _bitcast_sizes(batch: Batch, uop: graph_pb2.UOp, sources: Sequence[Row]) -> Any:
    was, now, sizes = sources[0].dtype, BY_NUMBER[uop.cast_to], sources[0].sizes
    if was is None or sizes is None or not sizes:
        return sizes
    return (*sizes[:-1], sizes[-1] * was.itemsize // now.itemsize)


_SIZES: Dict[Any, Callable[..., Any]] = {
    graph_pb2.CONST: lambda batch, uop, sources: (),
    graph_pb2.PARAM: lambda batch, uop, sources: batch.numbers(uop.src[0]),
    graph_pb2.BINARY: lambda batch, uop, sources: (len(uop.data),),
    graph_pb2.BITCAST: _bitcast_sizes,
    graph_pb2.STACK: lambda batch, uop, sources: (len(sources), *(sources[0].sizes if sources else ())),
    graph_pb2.RESHAPE: lambda batch, uop, sources: batch.numbers(uop.src[1]),
    graph_pb2.EXPAND: lambda batch, uop, sources: batch.numbers(uop.src[1]),
    graph_pb2.PAD: lambda batch, uop, sources: batch.numbers(uop.src[2]),
    graph_pb2.SHRINK: lambda batch, uop, sources: batch.numbers(uop.src[2]),
    graph_pb2.FLIP: lambda batch, uop, sources: sources[0].sizes,
    graph_pb2.PERMUTE: lambda batch, uop, sources: tuple(sources[0].sizes[axis] for axis in uop.axes.axis),
    graph_pb2.REDUCE: lambda batch, uop, sources: tuple(
        1 if axis in uop.reduce.axis else size for axis, size in enumerate(sources[0].sizes)),
    graph_pb2.INDEX: lambda batch, uop, sources: (
        (*sources[1].sizes, *sources[0].sizes[1:]) if len(sources) == 2 else None),
}  # fmt: skip


# -- rules: (batch, node, sources, dtype, sizes for one example) -> the value for all


def _elementwise(batch: Batch, uop: Any, sources: Sequence[Row], kind: Any, sizes: Tuple[int, ...]) -> Tensor:
    given = []
    for source in sources:
        value = source.value
        if source.many:
            own = tuple(value.shape[1:])
            value = reshape(value, (batch.size, *(1,) * (len(sizes) - len(own)), *own))
        given.append(value.node)
    arg = {"cast_to": uop.cast_to} if uop.op == graph_pb2.CAST else {}
    return batch.made(uop.op, given, kind, sizes, **arg)


def _reshape(batch: Batch, uop: Any, sources: Sequence[Row], kind: Any, sizes: Tuple[int, ...]) -> Tensor:
    return batch.made(uop.op, [sources[0].value.node, batch.trace.shape_node((batch.size, *sizes))], kind, sizes)


def _box(batch: Batch, uop: Any, sources: Sequence[Row], kind: Any, sizes: Tuple[int, ...]) -> Tensor:
    begin = batch.trace.shape_node((0, *batch.numbers(uop.src[1])))
    arg = {"pad": uop.pad} if uop.op == graph_pb2.PAD else {}
    return batch.made(uop.op, [sources[0].value.node, begin, batch.trace.shape_node((batch.size, *sizes))], kind, sizes, **arg)


def _flip(batch: Batch, uop: Any, sources: Sequence[Row], kind: Any, sizes: Tuple[int, ...]) -> Tensor:
    return batch.made(uop.op, [sources[0].value.node], kind, sizes, flip=graph_pb2.FlipArg(axis=[False, *uop.flip.axis]))


def _permute(batch: Batch, uop: Any, sources: Sequence[Row], kind: Any, sizes: Tuple[int, ...]) -> Tensor:
    order = [0, *(axis + 1 for axis in uop.axes.axis)]
    return batch.made(uop.op, [sources[0].value.node], kind, sizes, axes=graph_pb2.AxesArg(axis=order))


def _reduce(batch: Batch, uop: Any, sources: Sequence[Row], kind: Any, sizes: Tuple[int, ...]) -> Tensor:
    arg = graph_pb2.ReduceArg(op=uop.reduce.op, axis=[axis + 1 for axis in uop.reduce.axis])
    return batch.made(uop.op, [sources[0].value.node], kind, sizes, reduce=arg)


def _bitcast(batch: Batch, uop: Any, sources: Sequence[Row], kind: Any, sizes: Tuple[int, ...]) -> Tensor:
    return batch.made(uop.op, [sources[0].value.node], kind, sizes, cast_to=uop.cast_to)


def _stack(batch: Batch, uop: Any, sources: Sequence[Row], kind: Any, sizes: Tuple[int, ...]) -> Tensor:
    node = batch.trace.node(uop.op, [batch.every(source).node for source in sources])
    return moveaxis(batch.trace.tensor(node, kind, (len(sources), batch.size, *sizes[1:])), 0, 1)


def _index(batch: Batch, uop: Any, sources: Sequence[Row], kind: Any, sizes: Tuple[int, ...]) -> Tensor:
    x, places = sources
    rest = sizes[len(places.sizes or ()) :]
    if not places.many:  # the same of each example: its axis goes along with the others
        front = moveaxis(x.value, 0, 1)
        node = batch.trace.node(uop.op, [front.node, places.value.node])
        return moveaxis(batch.trace.tensor(node, kind, (*places.value.shape, batch.size, *rest)), -1 - len(rest), 0)
    table, ids = x.value, places.value
    if x.many:  # one table of all, in which a place outside of an example's own is outside of it
        rows: Any = table.shape[1]
        table = reshape(table, (batch.size * rows, *rest))
        ids = astype(ids, int64)
        first = reshape(batch.trace.arange(batch.size, int64) * rows, (batch.size, *(1,) * (ids.ndim - 1)))
        ids = where((ids >= 0) & (ids < rows), add(ids, first), promotion.limits(int64)[0] // 2)
    flat = reshape(ids, (ids.size,))
    node = batch.trace.node(uop.op, [table.node, flat.node])
    return reshape(batch.trace.tensor(node, kind, (*flat.shape, *rest)), (batch.size, *sizes))


_RULES: Dict[Any, Callable[..., Tensor]] = {
    **{op: _elementwise for op in _ELEMENTWISE},
    graph_pb2.RESHAPE: _reshape,
    graph_pb2.EXPAND: _reshape,
    graph_pb2.PAD: _box,
    graph_pb2.SHRINK: _box,
    graph_pb2.FLIP: _flip,
    graph_pb2.PERMUTE: _permute,
    graph_pb2.REDUCE: _reduce,
    graph_pb2.BITCAST: _bitcast,
    graph_pb2.STACK: _stack,
    graph_pb2.INDEX: _index,
}
