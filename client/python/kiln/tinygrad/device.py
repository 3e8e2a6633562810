"""tinygrad's device KILN."""

from __future__ import annotations

from tinygrad.device import Compiled

from kiln.tinygrad import levels, server
from kiln.tinygrad.linear_level import KilnProgram, KilnRenderer
from kiln.tinygrad.memory import KilnAllocator, failures


class KilnDevice(Compiled):
    def __init__(self, device: str):
        # tinygrad's JIT needs the devices first.
        if levels.wanted() == "T":
            from kiln.tinygrad.replay import KilnGraph as graph
        else:
            from kiln.tinygrad.kernel_replay import KernelGraph as graph
        self.server_device = server.device_name(device)
        super().__init__(device, KilnAllocator(self), [KilnRenderer], KilnProgram, graph)

    def synchronize(self) -> None:
        """Returns when all that was handed over is done; raises the first failure that nobody has been told.

        That is so of all KILN devices at once: their work goes by one stream.
        """
        with failures:
            server.client().fence()
