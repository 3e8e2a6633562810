"""Arguments that are views of one buffer.

tinygrad may pass a buffer and a part of it, or the same bytes in two dtypes, as two
arguments. A program of Kiln's may not write one and read the other as if they were
strangers: it is told of one PARAM, the buffer, and of its views.
"""

from __future__ import annotations

from typing import Callable, Dict, List, Sequence, Tuple

from tinygrad.uop.ops import GroupOp, Ops, UOp

from kiln.tinygrad.views import placed, views_down_to_storage
from kiln.tinygrad.words import NotExpressible


def storage_of(u: UOp) -> UOp:
    """The BUFFER, or the JIT's PARAM, that an argument is a view of."""
    while u.op not in (Ops.BUFFER, Ops.PARAM) and u.src:
        u = u.src[0]
    return u


def shared_storages(arguments: Sequence[UOp], written: Sequence[int]) -> List[UOp]:
    """Buffers that are written and that several different arguments show."""
    views: Dict[UOp, set] = {}
    for argument in arguments:
        if not argument.is_bound_var:
            views.setdefault(storage_of(argument), set()).add(argument)
    targets = {storage_of(arguments[i]) for i in written}
    return [storage for storage, seen in views.items() if len(seen) > 1 and storage in targets]


def view_in(argument: UOp, storage: UOp, whole: UOp) -> UOp:
    """An argument's chain of views, over the PARAM that is the whole buffer."""
    if argument is storage:
        return whole
    return argument.replace(src=(view_in(argument.src[0], storage, whole), *argument.src[1:]))


def store_through(store: UOp) -> UOp:
    """A STORE whose target is no BITCAST: the value is cast instead."""
    target, value, *gate = store.src
    shapes = []
    while target.op is Ops.RESHAPE:
        shapes.append(target.src[0].shape)
        target = target.src[0]
    inner = target
    while inner.op in GroupOp.Movement or inner.op is Ops.AFTER:
        inner = inner.src[0]
    if inner.op is not Ops.BITCAST:
        return store
    if target is not inner or gate:
        raise NotExpressible("a store to a part of a buffer in another dtype")
    value = value.cast(target.dtype)
    if value.shape != store.src[0].shape:
        value = value.expand(store.src[0].shape)
    for shape in shapes:
        value = value.reshape(shape)
    return target.src[0].store(value.bitcast(target.src[0].dtype))


def store_to_whole(store: UOp) -> UOp:
    """A STORE to a view that Kiln stores to: one through a PAD goes to the whole, with the rest as it was."""
    views, _ = views_down_to_storage(store.src[0])
    if not any(view.op is Ops.PAD for view in views):
        return store
    state = views[-1].src[0]
    value = store.src[1]
    if value.shape != store.src[0].shape:
        value = value.expand(store.src[0].shape)
    return state.store(placed(value, state, views))


def each_store(body: UOp, change: Callable[[UOp], UOp]) -> UOp:
    stores = {u: change(u) for u in body.toposort(enter_calls=False) if u.op is Ops.STORE}
    return body.substitute({old: new for old, new in stores.items() if old is not new}, walk=True)


def without_aliases(body: UOp, arguments: Sequence[UOp], written: Sequence[int]) -> Tuple[UOp, List[UOp]]:
    """The body and its arguments, with one argument for each buffer that is written."""
    body = each_store(body, store_to_whole)
    shared = shared_storages(arguments, written)
    if not shared:
        return body, list(arguments)
    arguments = list(arguments)
    slot_of: Dict[UOp, int] = {}
    for storage in shared:
        if storage not in arguments:
            arguments.append(storage)
        slot_of[storage] = arguments.index(storage)
    params: Dict[UOp, UOp] = {}
    for u in body.toposort(enter_calls=False):
        if u.op is Ops.PARAM and storage_of(arguments[u.arg.slot]) in slot_of and not arguments[u.arg.slot].is_bound_var:
            storage = storage_of(arguments[u.arg.slot])
            if isinstance(storage.device, tuple):
                raise NotExpressible("views of a sharded buffer")
            whole = UOp.param(slot_of[storage], storage.dtype, storage.shape, storage.device)
            params[u] = view_in(arguments[u.arg.slot], storage, whole)
    body = body.substitute(params, walk=True)
    return each_store(body, store_through), arguments
