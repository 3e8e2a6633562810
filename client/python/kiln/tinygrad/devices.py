"""Which of tinygrad's devices are KILN's, and which of the server's those are."""

from __future__ import annotations

from typing import Any, Iterable, Tuple

from tinygrad.uop.ops import UOp

from kiln.tinygrad import server


def is_kiln(device: Any) -> bool:
    return isinstance(device, str) and device.split(":")[0] == "KILN"


def devices_of(u: UOp) -> Tuple[str, ...]:
    return u.device if isinstance(u.device, tuple) else () if u.device is None else (u.device,)


def on_one_device(devices: Iterable[str]) -> bool:
    """Whether all are KILN's and one device of the server's."""
    names = set()
    for device in devices:
        if not is_kiln(device):
            return False
        names.add(server.device_name(int((*device.split(":"), "0")[1])))
    return len(names) <= 1
