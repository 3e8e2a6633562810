"""A captured TinyJit as one recording, at levels K and L: its kernels, and copies between KILN's devices."""

from __future__ import annotations

import functools
from typing import Any, Dict, Optional, Sequence, Tuple, Union

import tinygrad.engine.realize as realize
from tinygrad.engine.jit import MultiGraphRunner
from tinygrad.engine.realize import get_call_arg_uops, get_runtime, resolve_params, unwrap_multi
from tinygrad.renderer import Estimates
from tinygrad.uop.ops import Ops, UOp

import kiln
from kiln.tinygrad import server
from kiln.tinygrad.devices import devices_of, all_kiln
from kiln.tinygrad.recorder import Recorders, Replay, Transfer, place_of
from kiln.tinygrad.stats import count_fallback, counters
from kiln.tinygrad.words import NotExpressible


@functools.cache
def copy_program(nbytes: int, device: str) -> kiln.Program:
    """Slot 0 = slot 1, as bytes."""
    graph = kiln.Graph()
    target, source = graph.param("target", (nbytes,), "uint8"), graph.param("source", (nbytes,), "uint8")
    graph.update(target, source)
    return server.compile(graph, device)


def add_kernels(recorders: Recorders, call: UOp, input_uops: Tuple[UOp, ...]) -> int:
    """Adds a call of a kernel or a copy, on each of its devices; how many kernels that is."""
    ast, uops, kernels = call.src[0], get_call_arg_uops(call), 0
    for lane, (buffers, device_values) in enumerate(unwrap_multi(call, resolve_params(call, input_uops))):
        if ast.op is Ops.COPY:
            count = buffers[0].nbytes
            to, source = (server.device_name(buffer.device) for buffer in buffers)
            if to != source:
                recorders.transfer(*(place_of(input_uops, u, b, lane) for u, b in zip(uops, buffers)), count)
                continue
            recorder = recorders.on(to)
            recorder.add(copy_program(count, to), {i: recorder.memory(uops[i], buffers[i], lane) for i in (0, 1)})
            continue
        kernel = get_runtime(buffers[0].device, ast)
        recorder = recorders.on(kernel.program.device)
        values: Dict[int, Any] = {}
        for slot in kernel.slots:
            values[slot] = recorder.memory(uops[slot], buffers[slot], lane)
        for variable, slot in kernel.variables.items():
            values[slot] = device_values[variable] if variable in device_values else recorder.integer(variable)
        recorder.add(kernel.program, values)
        kernels += 1
    return kernels


class KernelGraph(MultiGraphRunner):
    """tinygrad's graph class for KILN at levels K and L."""

    def __init__(self, linear: UOp, input_uops: Tuple[UOp, ...] = ()):
        self.linear = linear.src[0]
        self.estimates = sum((realize.estimate_uop(call) for call in self.linear.src), Estimates()).simplify()
        self._graphs = self._kernels = 0
        self._replay: Optional[Sequence[Union[Replay, Transfer]]] = None
        self._prepare(input_uops)

    def _prepare(self, input_uops: Tuple[UOp, ...]) -> None:
        """Records the calls. What cannot be recorded runs call by call, and is counted."""
        recorders = Recorders(input_uops)
        try:
            for call in self.linear.src:
                self._add(recorders, call, input_uops)
            self._replay = recorders.finish()
        except NotExpressible as reason:
            count_fallback(str(reason))
        except (kiln.InvalidArgument, kiln.NotFound, kiln.Unimplemented) as error:
            count_fallback("jit: server: %s" % error.code)

    def _add(self, recorders: Recorders, call: UOp, input_uops: Tuple[UOp, ...]) -> None:
        self._kernels += add_kernels(recorders, call, input_uops)

    def __call__(self, input_uops: Tuple[UOp, ...], var_vals: Dict[str, int], wait: bool = False) -> Optional[float]:
        if self._replay is None:
            context = realize.ExecContext(var_vals, input_uops, wait=wait)
            times = [seconds for call in self.linear.src for seconds in realize.pm_exec.rewrite(call, context)]
            return sum(seconds or 0.0 for seconds in times) if wait else None
        seconds = sum(part.run(input_uops, var_vals, wait) for part in self._replay)
        counters.graphs += self._graphs
        counters.kernels += self._kernels
        return seconds if wait else None

    @staticmethod
    def supports_uop(batch_devs: Any, new_call: UOp) -> bool:
        devices = [device.device for device in batch_devs]
        devices += [device for u in get_call_arg_uops(new_call) for device in devices_of(u)]
        return new_call.src[0].op in (Ops.PROGRAM, Ops.COPY) and all_kiln(devices)
