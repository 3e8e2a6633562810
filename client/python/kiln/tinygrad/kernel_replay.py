"""A captured TinyJit as one recording, at levels K and L: its kernels, and copies between KILN's devices."""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Optional, Tuple

from tinygrad.engine.jit import MultiGraphRunner
from tinygrad.engine.realize import estimate_uop, get_call_arg_uops, get_runtime, resolve_params, unwrap_multi
from tinygrad.renderer import Estimates
from tinygrad.uop.ops import Ops, UOp

import kiln
from kiln.tinygrad import server
from kiln.tinygrad.devices import devices_of, on_one_device
from kiln.tinygrad.recorder import Recorder, Replay
from kiln.tinygrad.stats import counters


@functools.cache
def copy_program(nbytes: int) -> kiln.Program:
    """Slot 0 = slot 1, as bytes."""
    graph = kiln.Graph()
    target, source = graph.param("target", (nbytes,), "uint8"), graph.param("source", (nbytes,), "uint8")
    graph.update(target, source)
    counters.compiles += 1
    return server.client().compile(graph)


def record(calls: List[UOp], input_uops: Tuple[UOp, ...]) -> Tuple[Replay, int]:
    """The calls in a row, and how many kernels they are."""
    recorder, kernels = Recorder(input_uops), 0
    for call in calls:
        ast, uops = call.src[0], get_call_arg_uops(call)
        for lane, (buffers, device_values) in enumerate(unwrap_multi(call, resolve_params(call, input_uops))):
            if ast.op is Ops.COPY:
                to, source = (recorder.memory(u, b, lane) for u, b in zip(uops, buffers))
                recorder.add(copy_program(buffers[0].nbytes), {0: to, 1: source})
                continue
            kernel = get_runtime(buffers[0].device, ast)
            values: Dict[int, Any] = {}
            for slot in kernel.slots:
                values[slot] = recorder.memory(uops[slot], buffers[slot], lane)
            for variable, slot in kernel.variables.items():
                values[slot] = device_values[variable] if variable in device_values else recorder.integer(variable)
            recorder.add(kernel.program, values)
            kernels += 1
    return recorder.finish(), kernels


class KernelGraph(MultiGraphRunner):
    """tinygrad's graph class for KILN at levels K and L."""

    def __init__(self, linear: UOp, input_uops: Tuple[UOp, ...] = ()):
        self.linear = linear.src[0]
        self.estimates = sum((estimate_uop(call) for call in self.linear.src), Estimates()).simplify()
        self._replay, self._kernels = record(list(self.linear.src), input_uops)

    def __call__(self, input_uops: Tuple[UOp, ...], var_vals: Dict[str, int], wait: bool = False) -> Optional[float]:
        seconds = self._replay.run(input_uops, var_vals, wait)
        counters.kernels += self._kernels
        return seconds

    @staticmethod
    def supports_uop(batch_devs: Any, new_call: UOp) -> bool:
        devices = [device.device for device in batch_devs]
        devices += [device for u in get_call_arg_uops(new_call) for device in devices_of(u)]
        return new_call.src[0].op in (Ops.PROGRAM, Ops.COPY) and on_one_device(devices)
