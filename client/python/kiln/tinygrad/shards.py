"""Graphs over several devices, said for one.

Where one server device holds the memory of a tuple of KILN devices, no collective has
to move anything: each shard is a buffer of its own, and the graph is computed on the
whole. gather() writes such a body anew. A UOp's value is one, if all devices see the
same, or Many, one for each device:

    BUFFERs of n devices  n PARAMs
    RANGE(n, DEVICE)      each device's number
    UNSHARD(x, r)         the pieces that x has on the devices, joined along the axis
    COPY to a tuple       the value itself, everywhere
    ALLREDUCE             the sum over the devices
    MSTACK, MSELECT       each device's value; the value on one device
    STORE to UNSHARD      n STOREs of the value's parts; if to a view of it, of the old
                          value with the new one in the view's place
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from tinygrad.uop.ops import AxisType, GroupOp, Ops, UOp

from kiln.tinygrad.graphs import NotExpressible
from kiln.tinygrad.views import placed, views_down_to_storage


class Piece(NamedTuple):
    """What a slot of the new body is: an argument of the call, and which device's buffer of it."""

    argument: int
    device: Optional[int]


@dataclasses.dataclass(frozen=True)
class Many:
    """A value for each device."""

    each: Tuple[UOp, ...]


Value = Union[UOp, Many]


def on(value: Value, device: int) -> UOp:
    return value.each[device] if isinstance(value, Many) else value


def joined(pieces: Sequence[UOp], axis: int) -> UOp:
    """Tensors of one shape, one behind the other along an axis."""
    shape = pieces[0].shape
    order = list(range(1, len(shape) + 1))
    order.insert(axis, 0)
    whole = (*shape[:axis], len(pieces) * shape[axis], *shape[axis + 1 :])
    return UOp(Ops.STACK, src=tuple(pieces)).permute(tuple(order)).reshape(whole)


def part(whole: UOp, axis: int, index: int, count: int) -> UOp:
    """One of `count` equal parts along an axis."""
    size = whole.shape[axis] // count
    begin = [0] * len(whole.shape)
    begin[axis] = index * size
    sizes = [size if i == axis else s for i, s in enumerate(whole.shape)]
    return whole.shrink(tuple((b, b + s) for b, s in zip(begin, sizes)))


def inlined(sink: UOp) -> UOp:
    """Without FUNCTIONs: their bodies, with the arguments in place of PARAMs."""
    while True:
        calls = [u for u in sink.toposort(enter_calls=False) if u.op is Ops.GETTUPLE and u.src[0].op is Ops.FUNCTION]
        if not calls:
            return sink
        made = {}
        for u in calls:
            body, *arguments = u.src[0].src
            value = body.src[u.arg]
            params = {p: arguments[p.arg.slot] for p in value.toposort(enter_calls=False)
                      if p.op is Ops.PARAM and p.arg.slot >= 0}  # fmt: skip
            made[u] = value.substitute(params, walk=True)
        sink = sink.substitute(made, walk=True)


class Gatherer:
    """Rewrites one body; `pieces` then says what each slot of the new one is."""

    def __init__(self) -> None:
        self.pieces: List[Piece] = []
        self._slots: Dict[Piece, UOp] = {}
        self._value: Dict[UOp, Any] = {}
        # The storage behind UNSHARDs and AFTERs of them: each device's, as it is then.
        self._shards: Dict[UOp, Tuple[UOp, ...]] = {}

    def body(self, sink: UOp) -> UOp:
        roots: List[UOp] = []
        for u in inlined(sink).toposort(enter_calls=False):
            if u.op is not Ops.SINK:
                self._value[u] = _MAKERS.get(u.op, Gatherer._plain)(self, u)
        for root in inlined(sink).src:
            value = self._value[root]
            roots += self._shards.get(root) or (value.each if isinstance(value, Many) else (value,))
        return UOp(Ops.SINK, src=tuple(roots))

    def _plain(self, u: UOp) -> Value:
        sources = [self._value[s] for s in u.src]
        many = next((len(s.each) for s in sources if isinstance(s, Many)), None)
        if many is None:
            return u.replace(src=tuple(sources))
        return Many(tuple(u.replace(src=tuple(on(s, k) for s in sources)) for k in range(many)))

    def _slot(self, u: UOp, device: Optional[int]) -> UOp:
        piece = Piece(u.arg.slot, device)
        found = self._slots.get(piece)
        if found is None:
            place = u.arg.device[0] if isinstance(u.arg.device, tuple) else u.arg.device
            arg = dataclasses.replace(u.arg, slot=len(self.pieces), device=place, axis=None)
            found = self._slots[piece] = u.replace(src=tuple(self._value[s] for s in u.src), arg=arg)
            self.pieces.append(piece)
        return found

    def _param(self, u: UOp) -> Value:
        if not isinstance(u.arg.device, tuple):
            return self._slot(u, None)
        if u.arg.axis is not None:
            raise NotExpressible("a PARAM with a shard axis")
        return Many(tuple(self._slot(u, k) for k in range(len(u.arg.device))))

    def _range(self, u: UOp) -> Value:
        if u.arg[-1] is not AxisType.DEVICE:
            raise NotExpressible("a loop in a tensor graph")
        return Many(tuple(UOp.const(k) for k in range(int(u.vmax) + 1)))

    def _unshard(self, u: UOp) -> Value:
        value = self._value[u.src[0]]
        ranges = [self._value[r] for r in u.src[1:]]
        if len(u.arg) != 1 or u.src[1].op is not Ops.RANGE:
            raise NotExpressible("shards along several axes")
        count = len(ranges[0].each)
        pieces = tuple(on(value, k) for k in range(count))
        if views_down_to_storage(u.src[0])[1].op is Ops.PARAM:
            self._shards[u] = pieces
        return joined(pieces, u.arg[0])

    def _copy(self, u: UOp) -> Value:
        value = self._value[u.src[0]]
        return on(value, 0) if isinstance(u.arg, str) else value

    def _allreduce(self, u: UOp) -> Value:
        value, (op, _) = self._value[u.src[0]], u.arg
        return functools.reduce(lambda a, b: UOp(op, src=(a, b)), value.each) if isinstance(value, Many) else value

    def _mselect(self, u: UOp) -> Value:
        return on(self._value[u.src[0]], u.arg)

    def _mstack(self, u: UOp) -> Value:
        return Many(tuple(on(self._value[s], 0) for s in u.src))

    def _store(self, u: UOp) -> Any:
        target, value = u.src
        views, storage = views_down_to_storage(target)
        if storage.op is not Ops.UNSHARD:
            return self._plain(u)
        state = target
        while state.op in GroupOp.Movement:
            state = state.src[0]
        shards, axis = self._shards[state], storage.arg[0]
        # What is replicated is a value of each device's, all of them the same.
        new = [placed(on(self._value[value], k), self._value[state], views) for k in range(len(shards))]
        return Many(tuple(shard.store(part(new[k], axis, k, len(shards))) for k, shard in enumerate(shards)))

    def _after(self, u: UOp) -> Any:
        if u.is_bound_var:
            return self._plain(u)
        views, storage = views_down_to_storage(u.src[0])
        if storage.op is not Ops.UNSHARD:
            return self._plain(u)
        if views:
            raise NotExpressible("AFTER of a view of shards")
        dependencies = [self._value[s] for s in u.src[1:]]
        shards = tuple(
            shard.after(*(on(d, k) for d in dependencies)) for k, shard in enumerate(self._shards[u.src[0]])
        )
        self._shards[u] = shards
        return joined(shards, storage.arg[0])


_MAKERS: Dict[Ops, Callable[[Gatherer, UOp], Any]] = {
    Ops.PARAM: Gatherer._param,
    Ops.RANGE: Gatherer._range,
    Ops.UNSHARD: Gatherer._unshard,
    Ops.COPY: Gatherer._copy,
    Ops.ALLREDUCE: Gatherer._allreduce,
    Ops.MSELECT: Gatherer._mselect,
    Ops.MSTACK: Gatherer._mstack,
    Ops.STORE: Gatherer._store,
    Ops.AFTER: Gatherer._after,
}


def gather(body: UOp) -> Tuple[UOp, List[Piece]]:
    """The body for one device, and what its slots are. NotExpressible where it cannot be said."""
    gatherer = Gatherer()
    return gatherer.body(body), gatherer.pieces
