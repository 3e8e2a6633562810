"""Graphs over several of the server's devices, as Kiln's own graphs on tuples of devices.

tinygrad says what each device of a tuple does with what it has; Kiln says what becomes
of whole tensors, each device having an equal share of one axis. So what the devices of
a tuple have of a value is said to be rows of one tensor, one row a device, split along
that first axis. UNSHARDs are resolved first (own_shares.py). Then a value is

    Rows     (n, …): row k is what device k has
    Whole    (…): the same on each device
    Joined   (…): shards along an axis, which is split
    a UOp    on one device, or on none: constants, sizes, variables

and what moves is a collective:

    ALLREDUCE of Rows                    REDUCE of the first axis: Whole
    COPY of Joined to the tuple          all of it to each: Whole
    COPY from one device to a tuple      likewise; if shares of it are all that is read, these
    COPY to one device                   of Joined: its parts one behind the other

gather() (shards.py) does the same where all devices of a tuple are one of the server's.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, List, Optional, Tuple

from tinygrad.uop.ops import AxisType, GroupOp, Ops, UOp

from kiln.tinygrad import server
from kiln.tinygrad.calls import without_functions
from kiln.tinygrad.devices import all_kiln, devices_of
from kiln.tinygrad.own_shares import as_shares
from kiln.tinygrad.spread_writer import EACH, ONE, OWN, WHOLE
from kiln.tinygrad.words import NotExpressible


@dataclasses.dataclass(frozen=True)
class Rows:
    u: UOp
    devices: Tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Whole:
    u: UOp
    devices: Tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Joined:
    u: UOp
    devices: Tuple[str, ...]


def device_ranges(u: UOp) -> List[UOp]:
    return [r for r in u.ranges if r.arg[-1] is AxisType.DEVICE]


def moved(u: UOp, source: int, target: int) -> UOp:
    """With one axis in another place."""
    order = list(range(len(u.shape)))
    order.insert(target, order.pop(source))
    return u.permute(tuple(order))


def whole_on_each(u: UOp, devices: Tuple[str, ...]) -> Whole:
    """The collective: a value on one device, or split over several, to all of `devices`."""
    return Whole(UOp(Ops.COPY, src=(u,), arg=devices, tag=WHOLE), devices)


def is_share(u: UOp, axis: int, count: int) -> bool:
    """Whether a SHRINK takes of this axis each device's share, and of others all."""
    size = u.src[0].shape[axis]
    if size % count or u.shape[axis] != size // count:
        return False
    for i, (offset, length) in enumerate(u.marg):
        if i != axis and (offset != 0 or length != u.src[0].shape[i]):
            return False
    offset = u.marg[axis][0]
    number = device_ranges(offset)[0]
    at = [offset.substitute({number: number.const_like(k)}).ssimplify() for k in range(count)]
    return at == [k * (size // count) for k in range(count)]


class Values(Dict[UOp, Any]):
    def __missing__(self, u: UOp) -> Any:
        raise NotExpressible("several devices: %s with another size on each" % u.op.name)


class Spreader:
    """Rewrites one body."""

    def __init__(self) -> None:
        self._value = Values()

    def body(self, sink: UOp) -> UOp:
        sink = as_shares(without_functions(sink))
        self._tuples = {len(devices): devices for u in sink.toposort() if len(devices := devices_of(u)) > 1}
        for u in sink.toposort(enter_calls=False):
            value = None if u.op is Ops.SINK else _MAKERS.get(u.op, Spreader._plain)(self, u)
            if value is not None:
                self._value[u] = value
        roots = []
        for root in sink.src:
            value = self._value[root.src[0] if root.op is Ops.UNSHARD else root]
            roots.append(value if isinstance(value, UOp) else value.u)
        return UOp(Ops.SINK, src=tuple(roots))

    # -- values

    def _rows(self, u: UOp) -> Rows:
        """What each device has of a value on several."""
        value = self._value[u]
        if isinstance(value, Whole):
            return Rows(value.u._mop(Ops.EXPAND, (len(value.devices),)), value.devices)
        if not isinstance(value, Rows):
            raise NotExpressible("several devices: %s of a value on one" % u.op.name)
        return value

    def _whole(self, value: Any) -> Any:
        """As one tensor: of Rows, what each device has for itself."""
        if not isinstance(value, Rows):
            return value
        return Whole(value.u.index(UOp.const(0)).replace(tag=OWN), value.devices)

    def _operand(self, u: UOp, devices: Optional[Tuple[str, ...]], rank: int) -> UOp:
        """A source of an elementwise op whose value on a device has this rank."""
        value = self._value[u]
        if isinstance(value, Joined):
            raise NotExpressible("several devices: a value that is sharded in two ways")
        if isinstance(value, UOp):
            if value.device is not None and devices is not None:
                raise NotExpressible("several devices: a value on one of them")
            numbers = device_ranges(value)
            if not numbers:
                return value
            # The device's number, as a value.
            if value.shape:
                raise NotExpressible("several devices: a tensor of their numbers")
            count = int(numbers[0].vmax) + 1
            each = UOp(Ops.STACK, src=tuple(number_of(value, numbers[0], k) for k in range(count)))
            return each.reshape((count, *(1,) * rank))
        if devices is not None and value.devices != devices:
            raise NotExpressible("several devices: two tuples of them in one op")
        if isinstance(value, Whole):
            return value.u
        shape = value.u.shape
        return value.u.reshape((shape[0], *(1,) * (rank + 1 - len(shape)), *shape[1:]))

    # -- ops

    def _plain(self, u: UOp) -> Any:
        values = [self._value[s] for s in u.src]
        spread = [v for v in values if not isinstance(v, UOp)]
        if not spread:
            return u.replace(src=tuple(values))
        if u.op in GroupOp.ALU or u.op in (Ops.CAST, Ops.BITCAST, Ops.CONTIGUOUS):
            devices = spread[0].devices
            made = u.replace(src=tuple(self._operand(s, devices, len(u.shape)) for s in u.src))
            numbered = any(isinstance(v, UOp) and device_ranges(v) for v in values)
            rows = numbered or any(isinstance(v, Rows) for v in spread)
            return Rows(made, devices) if rows else Whole(made, devices)
        raise NotExpressible("several devices: %s" % u.op.name)

    def _param(self, u: UOp) -> Any:
        devices = u.arg.device
        if not isinstance(devices, tuple):
            return u
        if u.arg.axis is not None:
            raise NotExpressible("a PARAM with a shard axis")
        return Rows(UOp.param(u.arg.slot, u.dtype, (len(devices), *u.shape), devices), devices)

    def _unshard(self, u: UOp) -> Joined:
        if len(u.arg) != 1 or u.src[1].op is not Ops.RANGE:
            raise NotExpressible("several devices: shards along several axes")
        rows, axis = self._rows(u.src[0]), u.arg[0]
        shape = u.src[0].shape
        joined = (*shape[:axis], len(rows.devices) * shape[axis], *shape[axis + 1 :])
        return Joined(moved(rows.u, 0, axis).reshape(joined), rows.devices)

    def _copy(self, u: UOp) -> Any:
        value, target = self._value[u.src[0]], u.arg
        if isinstance(value, UOp) and value.device is None:
            return value
        if isinstance(target, str):
            value = self._whole(value)
            return UOp(Ops.COPY, src=(value if isinstance(value, UOp) else value.u,), arg=target)
        if isinstance(value, UOp):
            return whole_on_each(value, target)
        if isinstance(value, Joined) or value.devices != target:
            return whole_on_each(self._whole(value).u, target)
        return value

    def _allreduce(self, u: UOp) -> Any:
        op, target = u.arg
        source = u.src[0]
        if source.op is Ops.PAD and op is Ops.ADD and any(device_ranges(s) for s in source.src[1:]):
            # Each device's part at its place, and zeros: tinygrad's way to have all of it everywhere.
            axis = next(i for i, sizes in enumerate(source.marg) if isinstance(sizes[0], UOp) and device_ranges(sizes[0]))
            rows = self._rows(source.src[0])
            value = whole_on_each(moved(rows.u, 0, axis).reshape(source.shape), rows.devices)
        else:
            rows = self._rows(source)
            value = Whole(UOp(Ops.REDUCE, src=(rows.u,), arg=(op, 1)), rows.devices)
        return value if value.devices == target else whole_on_each(value.u, target)

    def _reduce(self, u: UOp) -> Any:
        value = self._value[u.src[0]]
        if isinstance(value, (UOp, Whole)):
            return self._unary(u, value)
        if len(u.src) > 1:
            raise NotExpressible("several devices: REDUCE over RANGEs")
        return Rows(u.replace(src=(moved(self._rows(u.src[0]).u, 0, u.arg[1]),)), value.devices)

    def _unary(self, u: UOp, value: Any) -> Any:
        """Of a value that is one tensor."""
        if any(not isinstance(self._value[s], UOp) for s in u.src[1:]):
            raise NotExpressible("several devices: %s by a value on several" % u.op.name)
        rest = [self._value[s] for s in u.src[1:]]
        if isinstance(value, UOp):
            return u.replace(src=(value, *rest))
        return Whole(u.replace(src=(value.u, *rest)), value.devices)

    def _movement(self, u: UOp) -> Any:
        value = self._value[u.src[0]]
        if any(device_ranges(s) for s in u.src[1:]):
            # No value by itself: an ALLREDUCE reads the PAD's source.
            return None if u.op is Ops.PAD else self._share(u, value)
        if isinstance(value, (UOp, Whole)):
            return self._unary(u, value)
        rows, marg = self._rows(u.src[0]), u.marg
        x, count = rows.u, len(rows.devices)
        if u.op is Ops.RESHAPE:
            x = x.reshape((count, *marg))
        elif u.op is Ops.EXPAND:
            x = moved(x._mop(Ops.EXPAND, marg), len(marg), 0)
        elif u.op is Ops.PERMUTE:
            x = x.permute((0, *(axis + 1 for axis in marg)))
        elif u.op is Ops.FLIP:
            x = x._mop(Ops.FLIP, (False, *marg))
        else:
            x = x._mop(u.op, ((0, count), *marg))
        return Rows(x, rows.devices)

    def _share(self, u: UOp, value: Any) -> Any:
        """SHRINK to what belongs to each device."""
        source = u.src[0]
        copied = self._value[source.src[0]] if source.op is Ops.COPY and isinstance(source.arg, tuple) else None
        axis = next((a for a, (offset, _) in enumerate(u.marg) if isinstance(offset, UOp) and device_ranges(offset)), None)
        if u.op is not Ops.SHRINK or axis is None:
            raise NotExpressible("several devices: another %s on each" % u.op.name)
        # What has no device is made on all that there are.
        devices = source.device or self._tuples.get(int(device_ranges(u.marg[axis][0])[0].vmax) + 1)
        if not isinstance(devices, tuple) or not is_share(u, axis, len(devices)):
            raise NotExpressible("several devices: another part on each")
        if isinstance(copied, UOp) and copied.device is not None:
            whole = copied  # no more of it has to travel
        else:
            whole = self._whole(value)
            whole = whole if isinstance(whole, UOp) else whole.u
        shape = whole.shape
        split = whole.reshape((*shape[:axis], len(devices), shape[axis] // len(devices), *shape[axis + 1 :]))
        rows = moved(split, axis, 0)
        return Rows(rows if whole.device is None else UOp(Ops.COPY, src=(rows,), arg=devices), devices)

    def _index(self, u: UOp) -> Any:
        value = self._value[u.src[0]]
        if isinstance(value, (UOp, Whole)):
            return self._unary(u, value)
        indices = [self._value[s] for s in u.src[1:]]
        if any(not isinstance(i, UOp) or device_ranges(i) or i.device is not None for i in indices):
            raise NotExpressible("several devices: INDEX by a value on several")
        rows = self._rows(u.src[0])
        found = u.replace(src=(moved(rows.u, 0, len(indices)), *indices))
        return Rows(moved(found, sum(len(i.shape) for i in indices), 0), rows.devices)

    def _stack(self, u: UOp) -> Any:
        values = [self._value[s] for s in u.src]
        if all(isinstance(v, UOp) for v in values):
            return u.replace(src=tuple(values))
        devices = next(v.devices for v in values if not isinstance(v, UOp))
        if any(isinstance(v, Joined) or (isinstance(v, UOp) and (v.device is not None or device_ranges(v))) for v in values):
            raise NotExpressible("several devices: STACK")
        if not any(isinstance(v, Rows) for v in values):
            return Whole(u.replace(src=tuple(v if isinstance(v, UOp) else v.u for v in values)), devices)
        count = (len(devices),)
        each = [v.u if isinstance(v, Rows) else (v if isinstance(v, UOp) else v.u)._mop(Ops.EXPAND, count) for v in values]
        return Rows(moved(u.replace(src=tuple(each)), 1, 0), devices)

    def _mselect(self, u: UOp) -> UOp:
        x = self._rows(u.src[0]).u
        row = x._mop(Ops.SHRINK, ((u.arg, 1), *((0, size) for size in x.shape[1:]))).replace(tag=ONE)
        return row.reshape(x.shape[1:])

    def _mstack(self, u: UOp) -> Any:
        values = [self._value[s] for s in u.src]
        if all(isinstance(v, UOp) and v.device is None for v in values) and len(set(values)) == 1:
            return values[0]
        if not all(isinstance(v, UOp) and isinstance(v.device, str) for v in values):
            raise NotExpressible("several devices: MSTACK of values on several")
        return Rows(UOp(Ops.STACK, src=tuple(values), tag=EACH), u.device)

    # -- effects

    def _store(self, u: UOp) -> UOp:
        values = [self._value[s] for s in u.src]
        if isinstance(values[0], UOp):
            if not all(isinstance(v, UOp) for v in values):
                raise NotExpressible("several devices: a store of a value on several to one")
            return u.replace(src=tuple(values))
        target = self._rows(u.src[0])
        rank = len(u.src[0].shape)
        return u.replace(src=(target.u, *(self._operand(s, target.devices, rank) for s in u.src[1:])))

    def _after(self, u: UOp) -> Any:
        if u.is_bound_var:
            return self._plain(u)
        value = self._value[u.src[0]]
        effects = [self._value[s] for s in u.src[1:]]
        effects = [e if isinstance(e, UOp) else e.u for e in effects]
        if isinstance(value, UOp):
            return value.after(*effects)
        return dataclasses.replace(value, u=value.u.after(*effects))


def number_of(value: UOp, number: UOp, device: int) -> UOp:
    return value.substitute({number: number.const_like(device)}).simplify()


def _refuse(_: Spreader, u: UOp) -> Any:
    raise NotExpressible("several devices: %s" % u.op.name)


_MAKERS: Dict[Ops, Callable[[Spreader, UOp], Any]] = {
    **{op: Spreader._movement for op in GroupOp.Movement},
    Ops.PARAM: Spreader._param,
    Ops.UNSHARD: Spreader._unshard,
    Ops.COPY: Spreader._copy,
    Ops.ALLREDUCE: Spreader._allreduce,
    Ops.REDUCE: Spreader._reduce,
    Ops.INDEX: Spreader._index,
    Ops.STACK: Spreader._stack,
    Ops.MSELECT: Spreader._mselect,
    Ops.MSTACK: Spreader._mstack,
    Ops.CALL: _refuse,
    Ops.STORE: Spreader._store,
    Ops.AFTER: Spreader._after,
}


def spread(body: UOp) -> UOp:
    """The body for Kiln's tuples of devices; NotExpressible where it cannot be said."""
    for u in body.toposort(enter_calls=False):
        devices = devices_of(u) if u.op in (Ops.PARAM, Ops.COPY, Ops.MSTACK, Ops.ALLREDUCE) else ()
        if len(devices) > 1 and (not all_kiln(devices) or len(server.device_names(devices)) != len(devices)):
            raise NotExpressible("several devices, some of them one of the server's")
    return Spreader().body(body)
