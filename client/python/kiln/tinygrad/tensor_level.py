"""Level T: the whole graph of a realize goes to the server as one program.

tinygrad's callify has given every tensor its buffer: what arrives is CALL(SINK of
AFTER(PARAM, STORE(PARAM, value)), buffers…). create_linear() writes that body as a
Kiln graph and answers with a schedule of one step, CALL(CUSTOM_FUNCTION, buffers…),
which run_call() executes by hash. What cannot be written goes to tinygrad's own
scheduler, and is counted.
"""

from __future__ import annotations

import hashlib
from typing import Any, Callable, Dict, List, Optional, Tuple

import tinygrad.engine.realize as realize
from tinygrad.helpers import CAPTURING
from tinygrad.uop.ops import Ops, UOp

import kiln
from kiln.tinygrad.aliases import shared_storages
from kiln.tinygrad.bodies import Body, written_slots
from kiln.tinygrad.calls import with_memory_of_its_own, without_precompiled
from kiln.tinygrad.devices import devices_of, is_kiln
from kiln.tinygrad.refusals import refusal
from kiln.tinygrad.stats import count_fallback
from kiln.tinygrad.words import NotExpressible

PREFIX = "kiln:"
HOST = ("NPY", "PYTHON", "CPU")
FILES = ("DISK", "TINYFS")

_bodies: Dict[str, Body] = {}
_inlined: Dict[bytes, Tuple[UOp, Tuple[UOp, ...]]] = {}
_writes: Dict[bytes, List[int]] = {}


def is_prepared(call: UOp) -> bool:
    """Whether a CALL of a schedule is one of ours."""
    ast = call.src[0]
    return ast.op is Ops.CUSTOM_FUNCTION and isinstance(ast.arg, str) and ast.arg.startswith(PREFIX)


def body_of(call: UOp) -> Body:
    return _bodies[call.src[0].arg]


def check_arguments(call: UOp) -> None:
    """NotExpressible unless every argument is on KILN, or on the host to be sent along, or in a file to be read."""
    written = writes_of(call.src[0])
    for i, argument in enumerate(call.src[1:]):
        for device in devices_of(argument):
            kind = device.split(":")[0]
            if kind not in ("KILN", *HOST) and (kind not in FILES or i in written):
                raise NotExpressible("a tensor on %s" % kind)
    if any(u.op is Ops.COPY and str(u.arg).startswith(FILES) for u in call.src[0].toposort()):
        raise NotExpressible("a copy to a file")


def writes_of(sink: UOp) -> List[int]:
    """The arguments that a body writes; found once, since every realize asks."""
    if sink.key not in _writes:
        _writes[sink.key] = sorted(written_slots(sink))
    return _writes[sink.key]


def without_calls(call: UOp) -> UOp:
    """The call with precompiled functions put into its body; found once for each body."""
    body, *arguments = call.src
    if body.key not in _inlined:
        _inlined[body.key] = with_memory_of_its_own(without_precompiled(body), len(arguments))
    inlined, memory = _inlined[body.key]
    return call if inlined is body else call.replace(src=(inlined, *arguments, *memory))


def prepare(call: UOp) -> str:
    """The name under which the call's body is known, compiled."""
    shared = shared_storages(call.src[1:], writes_of(call.src[0]))
    # What a body says of its arguments depends on them only where they share a buffer.
    views = tuple(argument.key for argument in call.src[1:]) if shared else ()
    key = PREFIX + hashlib.sha256(call.src[0].key + b"".join(views)).hexdigest()
    if key not in _bodies:
        check_arguments(call)
        body = Body(call.src[0], call.src[1:])
        body.compile()
        _bodies[key] = body
    return key


def make_create_linear(original: Callable[..., Any]) -> Callable[[UOp], Tuple[UOp, Dict[str, int]]]:
    """tinygrad's create_linear_with_vars, for KILN."""

    def create_linear(big_sink: UOp) -> Tuple[UOp, Dict[str, int]]:
        if not any(is_kiln(device) for argument in big_sink.src[1:] for device in devices_of(argument)):
            return original(big_sink)
        try:
            call = without_calls(big_sink)
            key = prepare(call)
        except NotExpressible as reason:
            return one_level_down(original, big_sink, str(reason))
        except kiln.KilnError as error:
            return one_level_down(original, big_sink, refusal(error))
        linear = UOp(Ops.LINEAR, src=(UOp.custom_function(key).call(*call.src[1:]),))
        values = bound_values(big_sink)
        if len(realize.capturing) and CAPTURING:
            realize.capturing[0].add_linear(linear, values)
            return UOp(Ops.LINEAR, src=()), values
        return linear, values

    return create_linear


def one_level_down(original: Callable[..., Any], big_sink: UOp, reason: str) -> Tuple[UOp, Dict[str, int]]:
    """tinygrad's own schedule: counted, unless it is nothing but copies from device to device."""
    captured = realize.capturing[0] if len(realize.capturing) and CAPTURING else None
    linear, values = original(big_sink)
    calls = linear.src if captured is None else captured._linears[-1].src
    if any(call.src[0].op is not Ops.COPY for call in calls):
        count_fallback(reason)
    return linear, values


def bound_values(call: UOp) -> Dict[str, int]:
    values: Dict[str, int] = {}
    for argument in call.src[1:]:
        if argument.is_bound_var:
            variable, value = argument.unbind()
            if values.setdefault(variable.expr, value) != value:
                raise RuntimeError("bind mismatch on %s, %d != %d" % (variable.expr, values[variable.expr], value))
    return values


def run_call(context: Any, call: UOp) -> List[Optional[float]]:
    """Executes one CALL of a prepared body, with the buffers and variables of this time."""
    buffers = iter(realize.resolve_params(call, context.input_uops))
    arguments = [context.var_vals[a.src[0].expr] if a.is_bound_var else next(buffers).buffer for a in call.src[1:]]
    return [body_of(call).run(arguments, context.wait)]


def outs_and_ins(call: UOp) -> Tuple[Tuple[int, ...], Tuple[int, ...]]:
    """Which arguments a CALL of ours writes and which it reads, as tinygrad counts: without variables."""
    body = body_of(call)
    numbers = [i for i, argument in enumerate(call.src[1:]) if not argument.is_bound_var]
    return (tuple(n for n, i in enumerate(numbers) if i in body.written),
            tuple(n for n, i in enumerate(numbers) if i in body.read))  # fmt: skip
