"""Views of storage, read the other way round: what a store to a view makes of the whole."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from tinygrad.uop.ops import GroupOp, Ops, UOp
from kiln.tinygrad.words import NotExpressible



def beneath(u: UOp) -> UOp:
    """What movement ops show: storage, or a state of it."""
    while u.op in GroupOp.Movement:
        u = u.src[0]
    return u


def views_down_to_storage(u: UOp) -> Tuple[List[UOp], UOp]:
    """The movement ops above an UNSHARD or a PARAM, outermost first, and that; AFTERs do not count."""
    views = []
    while u.op in GroupOp.Movement or u.op is Ops.AFTER:
        if u.op is not Ops.AFTER:
            views.append(u)
        u = u.src[0]
    return views, u


def placed(value: UOp, old: UOp, views: Sequence[UOp]) -> UOp:
    """`old` with `value` where a chain of views, outermost first, shows it."""
    there = UOp.const(True).reshape((1,) * len(value.shape)).expand(value.shape) if value.shape else UOp.const(True)
    for view in views:
        shape = view.src[0].shape
        if view.op is Ops.RESHAPE:
            value, there = value.reshape(shape), there.reshape(shape)
        elif view.op is Ops.PERMUTE:
            back = tuple(view.marg.index(i) for i in range(len(shape)))
            value, there = value.permute(back), there.permute(back)
        elif view.op is Ops.FLIP:
            value, there = (x._mop(Ops.FLIP, view.marg) for x in (value, there))
        elif view.op is Ops.SHRINK:
            room = tuple((offset, size) for (offset, _), size in zip(view.marg, shape))
            value, there = value._mop(Ops.PAD, room), there._mop(Ops.PAD, room)
        elif view.op is Ops.PAD:
            inside = tuple((offset, offset + size) for (offset, _), size in zip(view.marg, shape))
            value, there = value.shrink(inside), there.shrink(inside)
        else:
            raise NotExpressible("a store through %s" % view.op.name)
    return there.where(value, old)
