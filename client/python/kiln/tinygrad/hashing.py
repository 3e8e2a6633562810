"""Tensor.keccak() and, with it, Tensor.hash(): written once for each shape.

A hash is some thousand rounds of 30 operations. To write them takes tinygrad seconds, and
the device a fraction of one; so they are a FUNCTION's body, kept from call to call.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Tuple

from tinygrad import Tensor
from tinygrad.dtype import DType
from tinygrad.uop.ops import UOp

from kiln.tinygrad.devices import all_kiln, devices_of


def make_keccak(original: Callable[..., Any]) -> Callable[..., Tensor]:
    """tinygrad's keccak, for KILN."""

    @functools.cache
    def written(shape: Tuple[int, ...], kind: DType, device: str, cfg: Any) -> UOp:
        return UOp.maketuple(original(UOp.param(0, kind, shape, device), cfg))

    def keccak(self: Tensor, cfg: Any = "sha3_256") -> Tensor:
        devices = devices_of(self.uop) if isinstance(self, Tensor) else ()
        numbers = all(isinstance(size, int) and size > 0 for size in self.shape)
        if len(devices) != 1 or not all_kiln(devices) or not numbers:
            return original(self, cfg)
        return Tensor(written(self.shape, self.dtype, devices[0], cfg).call(self.uop, name="keccak").gettuple(0))

    return keccak
