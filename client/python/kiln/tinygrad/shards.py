"""Graphs over several devices, said for one.

Where one server device holds the memory of a tuple of KILN devices, no collective has
to move anything: each shard is a buffer of its own, and the graph is computed on the
whole. gather() writes such a body anew. A UOp's value is one, if all devices see the
same, or Many, one for each device:

    BUFFERs of n devices  n PARAMs
    RANGE(n, DEVICE)      each device's number
    UNSHARD(x, r)         the pieces that x has on the devices, joined along the axis
    COPY to a tuple       the value itself, everywhere
    ALLREDUCE             the sum over the devices; of shards, such a sum in each shard's place
    MSTACK, MSELECT       each device's value; the value on one device
    CALL of a kernel      one on each device, of its own shards
    STORE to UNSHARD      n STOREs of the value's parts; if to a view of it, of the old
                          value with the new one in the view's place
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from tinygrad.uop.ops import AxisType, GroupOp, Ops, UOp

from kiln.tinygrad.calls import is_kernel_call, without_functions
from kiln.tinygrad.devices import devices_of
from kiln.tinygrad.views import beneath, placed, views_down_to_storage
from kiln.tinygrad.words import NotExpressible


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


def _each(value: Value) -> Tuple[UOp, ...]:
    return value.each if isinstance(value, Many) else (value,)


def _of(several: Sequence[UOp], device: int) -> UOp:
    return several[device] if len(several) > 1 else several[0]


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
        sink = without_functions(sink)
        for u in sink.toposort(enter_calls=False):
            if u.op is not Ops.SINK:
                self._value[u] = _MAKERS.get(u.op, Gatherer._plain)(self, u)
        for root in sink.src:
            value = self._value[root]
            roots += self._shards.get(root) or (value.each if isinstance(value, Many) else (value,))
        return UOp(Ops.SINK, src=tuple(roots))

    def _plain(self, u: UOp) -> Value:
        sources = [self._value[s] for s in u.src]
        many = next((len(s.each) for s in sources if isinstance(s, Many)), None)
        if many is None:
            return u.replace(src=tuple(sources))
        each = [u.replace(src=tuple(on(s, k) for s in sources)) for k in range(many)]
        # Arithmetic with a device's number is a number.
        return Many(tuple(v.simplify() if v.op in GroupOp.ALU and not v.shape and v.device is None else v for v in each))

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

    def _buffer(self, u: UOp) -> Value:
        if not u.is_variable:
            raise NotExpressible("memory of a function's own")
        return self._plain(u)

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
        source, (op, _) = u.src[0], u.arg
        count = len(source.device)
        total = functools.reduce(lambda a, b: UOp(op, src=(a, b)), [self._part(source, k, count) for k in range(count)])
        return total if source.axis is None else joined([total] * count, source.axis)

    def _mselect(self, u: UOp) -> Value:
        return on(self._value[u.src[0]], u.arg)

    def _mstack(self, u: UOp) -> Value:
        return Many(tuple(on(self._value[s], 0) for s in u.src))

    def _call(self, u: UOp) -> Value:
        kernel, *arguments = u.src
        if not is_kernel_call(u) or any(r.op is Ops.RANGE and r.arg[-1] is AxisType.DEVICE for r in kernel.toposort()):
            raise NotExpressible("a CALL that differs between devices")
        count = max(len(devices_of(a)) for a in arguments)
        return Many(tuple(u.replace(src=(kernel, *(self._part(a, k, count) for a in arguments))) for k in range(count)))

    def _part(self, u: UOp, device: int, count: int) -> UOp:
        """What a device has of a value."""
        if u in self._shards:
            return self._shards[u][device]
        value = self._value[u]
        return on(value, device) if u.axis is None else part(value, u.axis, device, count)

    def _views(self, u: UOp) -> Tuple[List[UOp], UOp]:
        """As views_down_to_storage(), with sizes and offsets in the new body's words."""
        views, storage = views_down_to_storage(u)
        if storage.op is not Ops.UNSHARD:
            return views, storage
        if any(isinstance(self._value[s], Many) for view in views for s in view.src[1:]):
            raise NotExpressible("another view of shards on each device")
        return [view.replace(src=(view.src[0], *(self._value[s] for s in view.src[1:]))) for view in views], storage

    def _store(self, u: UOp) -> Any:
        target, value = u.src
        views, storage = self._views(target)
        if storage.op is not Ops.UNSHARD:
            return self._plain(u)
        shards, axis = self._shards[beneath(target)], storage.arg[0]
        old = joined(shards, axis)
        # What is replicated is a value of each device's, all of them the same.
        new = [placed(on(self._value[value], k), old, views) for k in range(len(shards))]
        return Many(tuple(shard.store(part(new[k], axis, k, len(shards))) for k, shard in enumerate(shards)))

    def _after(self, u: UOp) -> Any:
        if u.is_bound_var:
            return self._plain(u)
        views, storage = self._views(u.src[0])
        # Each dependency's effects, by device.
        effects = [self._shards.get(s) or _each(self._value[s]) for s in map(beneath, u.src[1:])]
        if storage.op is not Ops.UNSHARD:
            state = self._value[u.src[0]]
            if not isinstance(state, Many):
                return state.after(*(e for several in effects for e in several))
            return Many(tuple(own.after(*(_of(e, k) for e in effects)) for k, own in enumerate(state.each)))
        before = self._shards[beneath(u.src[0])]
        shards = self._shards[u] = tuple(own.after(*(_of(e, k) for e in effects)) for k, own in enumerate(before))
        whole = joined(shards, storage.arg[0])
        for view in reversed(views):
            whole = view.replace(src=(whole, *view.src[1:]))
        return whole


_MAKERS: Dict[Ops, Callable[[Gatherer, UOp], Any]] = {
    Ops.PARAM: Gatherer._param,
    Ops.BUFFER: Gatherer._buffer,
    Ops.RANGE: Gatherer._range,
    Ops.UNSHARD: Gatherer._unshard,
    Ops.COPY: Gatherer._copy,
    Ops.ALLREDUCE: Gatherer._allreduce,
    Ops.MSELECT: Gatherer._mselect,
    Ops.MSTACK: Gatherer._mstack,
    Ops.CALL: Gatherer._call,
    Ops.STORE: Gatherer._store,
    Ops.AFTER: Gatherer._after,
}


def gather(body: UOp) -> Tuple[UOp, List[Piece]]:
    """The body for one device, and what its slots are. NotExpressible where it cannot be said."""
    gatherer = Gatherer()
    return gatherer.body(body), gatherer.pieces
