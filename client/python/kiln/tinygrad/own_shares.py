"""What each device of a tuple does with its own shards: tinygrad's rules (schedule/multi.py), and two of ours.

tinygrad resolves UNSHARDs by pushing each op beneath them. Where that would move
elements across the borders of shards it raises; here the whole is brought to each
device, which then takes its view. And copies of what is sharded are left as they are:
they are collectives of Kiln's, which tinygrad would make of sums and paddings.
"""

from __future__ import annotations

from typing import Any

import tinygrad.schedule.multi as rules
from tinygrad.uop.ops import Ops, PatternMatcher, UOp, graph_rewrite

from kiln.tinygrad.aliases import each_store
from kiln.tinygrad.views import placed, views_down_to_storage
from kiln.tinygrad.words import NotExpressible

_VIEWS = {
    Ops.RESHAPE: rules.reshape_multi, Ops.EXPAND: rules.expand_multi, Ops.PAD: rules.pad_multi,
    Ops.SHRINK: rules.shrink_multi, Ops.PERMUTE: rules.permute_multi, Ops.FLIP: rules.flip_multi,
}  # fmt: skip


def _view(root: UOp, multi: UOp) -> Any:
    """tinygrad's rule for a view of shards; of what would cross their borders, a view of the whole on each device."""
    try:
        return _VIEWS[root.op](root, multi)
    except (RuntimeError, AssertionError):
        return root.replace(src=(multi.copy_to_device(multi.device), *root.src[1:]))


_TO_SHARES = PatternMatcher([
    (pattern, _view if rule in _VIEWS.values() else rule)
    for pattern, rule in rules.multi_pm.patterns
    if Ops.COPY not in pattern.op
])  # fmt: skip


def _inside_shares(store: UOp) -> UOp:
    """A STORE to a view of shards that crosses their borders, as one of all that was there, with the new in its place."""
    views, storage = views_down_to_storage(store.src[0])
    if storage.op is not Ops.UNSHARD or not views:
        return store
    try:
        if graph_rewrite(store.src[0], rules.multi_pm).op in (Ops.UNSHARD, Ops.AFTER):
            return store
    except (RuntimeError, AssertionError):
        pass
    value, old = store.src[1], store.src[0]
    for view in views:
        old = view.src[0]
    if value.shape != store.src[0].shape:
        value = value.expand(store.src[0].shape)
    return old.store(placed(value, old, views))


def as_shares(body: UOp) -> UOp:
    """The body with UNSHARDs only beneath COPYs, and at its roots. NotExpressible where tinygrad's rules raise."""
    try:
        return graph_rewrite(each_store(body, _inside_shares), _TO_SHARES, name="kiln: shares")
    except (RuntimeError, AssertionError) as error:
        raise NotExpressible("several devices: tinygrad's rules for shards: %s" % error) from None
