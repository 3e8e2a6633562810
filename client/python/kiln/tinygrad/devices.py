"""Which of tinygrad's devices are KILN's."""

from __future__ import annotations

from typing import Any, Iterable, Tuple

from tinygrad.uop.ops import UOp


def is_kiln(device: Any) -> bool:
    return isinstance(device, str) and device.split(":")[0] == "KILN"


def devices_of(u: UOp) -> Tuple[str, ...]:
    return u.device if isinstance(u.device, tuple) else () if u.device is None else (u.device,)


def all_kiln(devices: Iterable[Any]) -> bool:
    return all(is_kiln(device) for device in devices)
