"""A captured TinyJit at level T as one program: one round trip a step.

tinygrad's JIT hands consecutive calls that a device's graph class takes to it, and
from then on runs that graph. Here the calls' bodies are put one behind the other:
where a later one reads what an earlier one wrote, it reads that state, AFTER(PARAM,
STORE), and the whole is compiled as any other body. Where that cannot be (two arguments
are different views of one buffer that some call writes, or shards), the calls' own
programs are recorded in a row, which is one round trip as well, and takes kernels too.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Tuple

from tinygrad.engine.realize import resolve_params
from tinygrad.uop.ops import Ops, UOp

import kiln
from kiln.tinygrad.aliases import shared_storages
from kiln.tinygrad.bodies import Body, effects_of, has_many
from kiln.tinygrad.devices import devices_of, is_kiln
from kiln.tinygrad.kernel_replay import KernelGraph
from kiln.tinygrad.recorder import Recorders
from kiln.tinygrad.refusals import refusal
from kiln.tinygrad.tensor_level import body_of, is_prepared
from kiln.tinygrad.words import NotExpressible


def name_of(argument: UOp) -> Any:
    """What makes two arguments one: the variable's name, or the view."""
    return argument.src[0].expr if argument.is_bound_var else argument


def written_in(calls: List[UOp]) -> List[int]:
    """Which of all calls' arguments, counted on, are written."""
    found, first = [], 0
    for call in calls:
        found += [first + i for i in body_of(call).written]
        first += len(call.src) - 1
    return found


def merged(calls: List[UOp]) -> Tuple[UOp, List[UOp]]:
    """One body for calls in a row, and its arguments."""
    if not all(map(is_prepared, calls)):
        raise NotExpressible("jit: kernels of tinygrad's own")
    everything = [argument for call in calls for argument in call.src[1:]]
    if shared_storages(everything, written_in(calls)):
        raise NotExpressible("jit: views of a buffer that is written")
    # On one device of the server's, shards are gathered by each body, for itself.
    if any(has_many(body_of(call).sink) and not body_of(call).spread for call in calls):
        raise NotExpressible("jit: several devices")
    arguments: List[UOp] = []
    slots: Dict[Any, int] = {}
    states: Dict[int, UOp] = {}  # what a slot holds after the calls so far
    roots: List[UOp] = []
    for call in calls:
        body = body_of(call).sink
        own: Dict[UOp, UOp] = {}
        slot_of: Dict[int, int] = {}
        for u in body.toposort(enter_calls=False):
            if u.op is not Ops.PARAM:
                continue
            argument = call.src[1 + u.arg.slot]
            slot = slots.setdefault(name_of(argument), len(arguments))
            if slot == len(arguments):
                arguments.append(argument)
            slot_of[u.arg.slot] = slot
            own[u] = states.setdefault(slot, argument.param_like(slot) if argument.is_bound_var else
                                       u.replace(arg=dataclasses.replace(u.arg, slot=slot)))  # fmt: skip
        effects = effects_of(body)
        if any(root.op is not Ops.STORE for root in effects.src):
            raise NotExpressible("jit: a result on the host, or a kernel of a client's own")
        stores: Dict[int, List[UOp]] = {}
        # FUNCTIONs have slots of their own: substitute() does not enter them.
        for root, new in zip(effects.src, effects.substitute(own, walk=True).src):
            stores.setdefault(slot_of[root.src[0].buf_uop.arg.slot], []).append(new)
            roots.append(new)
        for slot, written in stores.items():
            states[slot] = states[slot].after(*written)
    return UOp(Ops.SINK, src=tuple(roots)), arguments


def add_body(recorders: Recorders, call: UOp, input_uops: Tuple[UOp, ...]) -> None:
    """Adds a call's own program; NotExpressible for what lies on the host."""
    body, uops = body_of(call), call.src[1:]
    if body.spread:
        raise NotExpressible("jit: a program for several devices among others")
    program, recorder = body.compile(), recorders.on(body.device)
    buffers = iter(resolve_params(call, input_uops))
    values: Dict[int, Any] = {}
    for taken in body.each([name_of(u) if u.is_bound_var else next(buffers).buffer for u in uops]):
        if taken.row is None:
            values[taken.slot] = recorder.integer(taken.value)
        elif not is_kiln(taken.value.device):
            raise NotExpressible("jit: memory on the host")
        elif taken.row.bytes == 0:  # nowhere
            values[taken.slot] = kiln.Memory(0)
        else:
            values[taken.slot] = recorder.memory(uops[taken.argument], taken.value, taken.device)
    recorder.add(program, values)


class KilnGraph(KernelGraph):
    """tinygrad's graph class for KILN at level T: of prepared graphs, and of what fell back to kernels."""

    def _prepare(self, input_uops: Tuple[UOp, ...]) -> None:
        self._body: Optional[Body] = None
        try:
            sink, self._arguments = merged(list(self.linear.src))
            body = Body(sink, self._arguments)
            body.compile()
            self._merged = self.linear.src[0].replace(src=(self.linear.src[0].src[0], *self._arguments))
            self._body = body
        except NotExpressible:
            super()._prepare(input_uops)
        except kiln.KilnError as error:
            refusal(error)
            super()._prepare(input_uops)

    def _add(self, recorders: Recorders, call: UOp, input_uops: Tuple[UOp, ...]) -> None:
        if not is_prepared(call):
            return super()._add(recorders, call, input_uops)
        add_body(recorders, call, input_uops)
        self._graphs += 1

    def __call__(self, input_uops: Tuple[UOp, ...], var_vals: Dict[str, int], wait: bool = False) -> Optional[float]:
        if self._body is None:
            return super().__call__(input_uops, var_vals, wait)
        buffers = iter(resolve_params(self._merged, input_uops))
        arguments = [var_vals[name_of(a)] if a.is_bound_var else next(buffers).buffer for a in self._arguments]
        return self._body.run(arguments, wait)

    @staticmethod
    def supports_uop(batch_devs: Any, new_call: UOp) -> bool:
        if not is_prepared(new_call):
            return KernelGraph.supports_uop(batch_devs, new_call)
        return all(is_kiln(device) for argument in new_call.src[1:] for device in devices_of(argument))
