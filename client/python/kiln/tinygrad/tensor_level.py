"""Level T: the whole graph of a realize goes to the server as one program.

tinygrad's callify has given every tensor its buffer: what arrives is CALL(SINK of
AFTER(PARAM, STORE(PARAM, value)), buffers…). create_linear() writes that body as a
Kiln graph and answers with a schedule of one step, CALL(CUSTOM_FUNCTION, buffers…),
which run_call() executes by hash; a captured TinyJit replays the same step with other
buffers. What cannot be written goes to tinygrad's own scheduler, and is counted.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import numpy as np
import tinygrad.engine.realize as realize
from tinygrad.dtype import AddrSpace
from tinygrad.helpers import CAPTURING
from tinygrad.uop.ops import Ops, UOp

import kiln
from kiln.tinygrad import server
from kiln.tinygrad.graphs import NotExpressible, Writer
from kiln.tinygrad.stats import count_fallback, counters

PREFIX = "kiln:"
HOST = ("NPY", "PYTHON", "CPU")


@dataclasses.dataclass
class Prepared:
    """A body that was written, and compiled at its first call."""

    graph: Any
    outs: Tuple[int, ...]  # arguments, counted without variables
    ins: Tuple[int, ...]
    slots: Dict[int, int]  # from argument number, counted with variables, to slot
    program: Optional[kiln.Program] = None


_prepared: Dict[str, Prepared] = {}


def prepared(key: str) -> Prepared:
    return _prepared[key]


def is_kiln(device: Any) -> bool:
    return isinstance(device, str) and device.split(":")[0] == "KILN"


def check_arguments(call: UOp) -> None:
    """NotExpressible unless every argument is on KILN, or on the host to be sent along."""
    on_kiln = False
    for argument in call.src[1:]:
        if argument.is_bound_var or argument.is_variable:
            continue
        if isinstance(argument.device, tuple):
            raise NotExpressible("several devices")
        kind = str(argument.device).split(":")[0]
        on_kiln = on_kiln or kind == "KILN"
        if kind != "KILN" and kind not in HOST:
            raise NotExpressible("a tensor on %s" % kind)
    if not on_kiln:
        raise NotExpressible("nothing on KILN")


def written_slots(body: UOp) -> Set[int]:
    """The PARAMs that the body's own STOREs go to."""
    found = set()
    for u in body.toposort(enter_calls=False):
        if u.op is Ops.STORE:
            target = u.src[0].buf_uop
            if target.op is Ops.PARAM:
                found.add(target.arg.slot)
    return found


def prepare(call: UOp) -> Tuple[str, Prepared]:
    body = call.src[0]
    key = PREFIX + body.key.hex()
    found = _prepared.get(key)
    if found is None:
        writer = Writer()
        root = writer.write(body)
        if root != len(writer.graph.nodes) - 1:
            raise NotExpressible("an empty graph")
        written = written_slots(body)
        read = {u.arg.slot for u in body.toposort(enter_calls=False) if u.op is Ops.PARAM}
        numbers = [i for i, a in enumerate(call.src[1:]) if not a.is_bound_var]
        found = _prepared[key] = Prepared(
            graph=writer.graph,
            outs=tuple(n for n, i in enumerate(numbers) if i in written),
            ins=tuple(n for n, i in enumerate(numbers) if i in read),
            slots={},
        )
    return key, found


def make_create_linear(original: Callable[..., Any]) -> Callable[[UOp], Tuple[UOp, Dict[str, int]]]:
    """tinygrad's create_linear_with_vars, for KILN."""

    def create_linear(big_sink: UOp) -> Tuple[UOp, Dict[str, int]]:
        if not any(is_kiln(d) for a in big_sink.src[1:] if a.device is not None
                   for d in (a.device if isinstance(a.device, tuple) else (a.device,))):  # fmt: skip
            return original(big_sink)
        try:
            check_arguments(big_sink)
            key, prepared = prepare(big_sink)
            compile_prepared(prepared)
        except NotExpressible as reason:
            count_fallback(str(reason))
            return original(big_sink)
        except kiln.Unimplemented as error:
            count_fallback("the server: %s" % (error.code or error))
            return original(big_sink)
        linear = UOp(Ops.LINEAR, src=(UOp.custom_function(key).call(*big_sink.src[1:]),))
        values = bound_values(big_sink)
        if len(realize.capturing) and CAPTURING:
            realize.capturing[0].add_linear(linear, values)
            return UOp(Ops.LINEAR, src=()), values
        return linear, values

    return create_linear


def bound_values(call: UOp) -> Dict[str, int]:
    values: Dict[str, int] = {}
    for argument in call.src[1:]:
        if argument.is_bound_var:
            variable, value = argument.unbind()
            if values.setdefault(variable.expr, value) != value:
                raise RuntimeError("%s is bound to %d and to %d" % (variable.expr, values[variable.expr], value))
    return values


def compile_prepared(prepared: Prepared) -> kiln.Program:
    if prepared.program is None:
        counters.compiles += 1
        prepared.program = server.client().compile(prepared.graph)
    return prepared.program


def run_call(context: Any, call: UOp, ast: UOp) -> List[Optional[float]]:
    """Executes one CALL of a prepared body, with the buffers and variables of this time."""
    prepared = _prepared[ast.arg]
    program = compile_prepared(prepared)
    buffers = iter(realize.resolve_params(call, context.input_uops))
    parameters = {row.slot: row for row in program.signature.parameters}
    variables = {row.slot for row in program.signature.variables}
    values: Dict[int, Any] = {}
    host: Dict[int, memoryview] = {}
    for slot, argument in enumerate(call.src[1:]):
        if argument.is_bound_var:
            if slot in variables:
                values[slot] = context.var_vals[argument.src[0].expr]
            continue
        buffer = next(buffers).buffer
        row = parameters.get(slot)
        if row is None:
            continue
        if is_kiln(buffer.device):
            memory = buffer.ensure_allocated()._buf
            values[slot] = kiln.At(memory.buffer, memory.offset)
        else:
            data = buffer.ensure_allocated().as_memoryview(allow_zero_copy=True)
            values[slot] = np.frombuffer(data, kiln.dtype(row.dtype).numpy).reshape(tuple(row.shape))
            if row.written:
                host[slot] = data
    run = program.run(values, out="buffers", timing=context.wait)
    counters.graphs += 1
    for row, result in zip(program.signature.results, run.results):
        slot = program.signature.parameters[row.aliases].slot if row.HasField("aliases") else -1
        if slot in host:
            host[slot].cast("B")[:] = kiln.arrays.byte_view(result)
    return [run.timing.device_us * 1e-6 if context.wait else None]
