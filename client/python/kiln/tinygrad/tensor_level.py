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
from kiln.tinygrad.shards import Piece, gather
from kiln.tinygrad.stats import count_fallback, counters

PREFIX = "kiln:"
HOST = ("NPY", "PYTHON", "CPU")


@dataclasses.dataclass
class Prepared:
    """A body that was written, and compiled at its first call."""

    graph: Any
    outs: Tuple[int, ...]  # arguments, counted without variables
    ins: Tuple[int, ...]
    pieces: List[Piece]  # what each slot of the graph is
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
        for device in argument.device if isinstance(argument.device, tuple) else (argument.device,):
            kind = str(device).split(":")[0]
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


def effects_of(body: UOp) -> UOp:
    """The body with STOREs for roots: results nobody asks for by value.

    What lies on the host stays a value, AFTER(PARAM, …): it was sent, and comes back.
    """
    roots: List[UOp] = []
    for root in body.src:
        chain: List[UOp] = []
        state = root
        while state.op is Ops.AFTER and is_kiln(state.device):
            chain[:0] = state.src[1:]
            state = state.src[0]
        roots += chain if chain and all(u.op is Ops.STORE for u in chain) else [root]
    return UOp(Ops.SINK, src=tuple(dict.fromkeys(roots)))


def has_many(body: UOp) -> bool:
    return any(isinstance(u.device, tuple) for u in body.toposort() if u.op in (Ops.PARAM, Ops.COPY, Ops.MSTACK))


def prepare(call: UOp) -> Tuple[str, Prepared]:
    body = call.src[0]
    key = PREFIX + body.key.hex()
    found = _prepared.get(key)
    if found is None:
        single, pieces = (gather(body) if has_many(body) else
                          (body, [Piece(i, None) for i in range(len(call.src) - 1)]))
        writer = Writer()
        root = writer.write(effects_of(single))
        if root != len(writer.graph.nodes) - 1:
            raise NotExpressible("an empty graph")
        written = written_slots(body)
        read = {u.arg.slot for u in body.toposort(enter_calls=False) if u.op is Ops.PARAM}
        numbers = [i for i, a in enumerate(call.src[1:]) if not a.is_bound_var]
        found = _prepared[key] = Prepared(
            graph=writer.graph,
            outs=tuple(n for n, i in enumerate(numbers) if i in written),
            ins=tuple(n for n, i in enumerate(numbers) if i in read),
            pieces=pieces,
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
    resolved = iter(realize.resolve_params(call, context.input_uops))
    arguments = [a if a.is_bound_var else next(resolved).buffer for a in call.src[1:]]
    rows = {row.slot: row for row in program.signature.parameters}
    variables = {row.slot for row in program.signature.variables}
    values: Dict[int, Any] = {}
    host: Dict[int, memoryview] = {}
    for slot, piece in enumerate(prepared.pieces):
        argument = arguments[piece.argument]
        if slot in variables:
            values[slot] = context.var_vals[argument.src[0].expr]
        elif slot in rows:
            buffer = argument if piece.device is None else argument.bufs[piece.device]
            buffer.ensure_allocated()
            if is_kiln(buffer.device):
                values[slot] = kiln.At(buffer._buf.buffer, buffer._buf.offset)
                continue
            data = buffer.as_memoryview(allow_zero_copy=True)
            values[slot] = np.frombuffer(data, kiln.dtype(rows[slot].dtype).numpy).reshape(tuple(rows[slot].shape))
            if rows[slot].written:
                host[slot] = data
    run = program.run(values, out="buffers", timing=context.wait)
    counters.graphs += 1
    for row, result in zip(program.signature.results, run.results):
        slot = program.signature.parameters[row.aliases].slot if row.HasField("aliases") else -1
        if slot in host:
            host[slot].cast("B")[:] = kiln.arrays.byte_view(result)
    return [run.timing.device_us * 1e-6 if context.wait else None]
