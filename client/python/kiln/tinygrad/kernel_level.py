"""Level K: tinygrad splits a graph into kernels, Kiln optimizes and lowers each.

What the server does not take is optimized and linearized by tinygrad, as on level L, and counted.

to_program() stands where tinygrad would optimize, lower and render: it writes the
kernel's own graph (SINK of STOREs over RANGEs) and returns a PROGRAM whose binary is
that graph. From there on a kernel runs as on level L.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Set

from tinygrad.codegen.gpudims import pm_device_to_var
from tinygrad.dtype import AddrSpace
from tinygrad.uop.ops import KernelInfo, Ops, ProgramInfo, UOp, graph_rewrite

import kiln
from kiln.tinygrad import estimates, server
from kiln.tinygrad.aliases import storage_of
from kiln.tinygrad.calls import as_kernel
from kiln.tinygrad.graphs import Writer
from kiln.tinygrad.linear_level import KilnRenderer, program_of, slot_of_variables
from kiln.tinygrad.refusals import refusal
from kiln.tinygrad.stats import count_fallback
from kiln.tinygrad.words import NotExpressible

_written: Dict[bytes, UOp] = {}


def kernel_program(ast: UOp, renderer: KilnRenderer) -> UOp:
    """A PROGRAM as tinygrad's own lowering makes them, of a kernel that was not lowered."""
    # Which of several devices a kernel runs on comes with each launch.
    kernel = as_kernel(graph_rewrite(ast, pm_device_to_var))
    uops = list(kernel.toposort())
    params = sorted({u for u in uops if u.op is Ops.PARAM and u.addrspace is not AddrSpace.ALU}, key=lambda u: u.arg.slot)
    slot_of, variables = slot_of_variables(uops)
    writer = Writer(slot_of)
    writer.write(kernel)
    stores = [u for u in uops if u.op is Ops.STORE]
    outs: Set[int] = {storage_of(u.src[0]).arg.slot for u in stores if storage_of(u.src[0]).op is Ops.PARAM}
    # What is stored to may be read as well, by one and the same UOp.
    read = {s for u in uops for s in u.src[u.op is Ops.STORE :] if s.op is Ops.INDEX}
    ins = {storage_of(u).arg.slot for u in read if storage_of(u).op is Ops.PARAM}
    info = ProgramInfo(
        name=ast.arg.name if isinstance(ast.arg, KernelInfo) else "kernel",
        vars=tuple(variables),
        globals=tuple(u.arg.slot for u in params),
        outs=tuple(sorted(outs)),
        ins=tuple(sorted(ins)),
        target=renderer.target,
    )
    data = writer.graph.SerializeToString()
    # The kernel itself must not be inside: tinygrad replaces it by this PROGRAM, everywhere.
    sink = UOp(Ops.SINK, src=tuple(variables), arg=KernelInfo(name=info.name, estimates=estimates.of_kernel(kernel)))
    linear = UOp(Ops.LINEAR, src=tuple(params))
    source = UOp(Ops.SOURCE, arg=ast.key.hex())
    return UOp(Ops.PROGRAM, src=(sink, linear, source, UOp(Ops.BINARY, arg=data)), arg=info)


def make_to_program(original: Callable[..., UOp]) -> Callable[..., UOp]:
    """tinygrad's to_program, for KILN at level K."""

    def to_program(ast: UOp, renderer: Any) -> UOp:
        if not isinstance(renderer, KilnRenderer) or ast.op is not Ops.SINK:
            return original(ast, renderer)
        found = _written.get(ast.key)
        if found is None:
            try:
                found = kernel_program(ast, renderer)
                # What the server refuses is known before it is asked to run it.
                program_of(found.src[-1].arg, server.device_name("KILN"))
            except NotExpressible as reason:
                count_fallback("kernel: %s" % reason)
                found = original(ast, renderer)
            except kiln.KilnError as error:
                count_fallback("kernel: %s" % refusal(error))
                found = original(ast, renderer)
            _written[ast.key] = found
        return found

    return to_program
