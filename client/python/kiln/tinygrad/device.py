"""tinygrad's device KILN."""

from __future__ import annotations

from tinygrad.device import Compiled

from kiln.tinygrad.linear_level import KilnProgram, KilnRenderer
from kiln.tinygrad.memory import KilnAllocator


class KilnDevice(Compiled):
    def __init__(self, device: str):
        self.device_id = int(device.split(":")[1]) if ":" in device else 0
        super().__init__(device, KilnAllocator(self), [KilnRenderer], KilnProgram)
