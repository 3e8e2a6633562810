"""tinygrad's device KILN."""

from __future__ import annotations

from tinygrad.device import Compiled

from kiln.tinygrad import levels
from kiln.tinygrad.linear_level import KilnProgram, KilnRenderer
from kiln.tinygrad.memory import KilnAllocator


class KilnDevice(Compiled):
    def __init__(self, device: str):
        self.device_id = int(device.split(":")[1]) if ":" in device else 0
        # tinygrad's JIT needs the devices first.
        if levels.wanted() == "T":
            from kiln.tinygrad.replay import KilnGraph as graph
        else:
            from kiln.tinygrad.kernel_replay import KernelGraph as graph
        super().__init__(device, KilnAllocator(self), [KilnRenderer], KilnProgram, graph)
