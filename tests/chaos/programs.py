"""Programs of integers, each with what numpy makes of the same numbers. int32 wraps around in both."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np
import world  # noqa: F401: finds the package

import kiln

SIZE = 1024


def numbers(seed: int, size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(seed).integers(-(1 << 31), 1 << 31, size, np.int64).astype(np.int32)


class Affine:
    """x * a + b, in new memory."""

    def __init__(self, a: int, b: int):
        self.a, self.b = a, b

    def graph(self) -> Any:
        graph = kiln.Graph()
        x = graph.param("x", (SIZE,), "int32")
        graph.output(x * self.a + self.b)
        return graph

    def of(self, x: np.ndarray) -> np.ndarray:
        return x * np.int32(self.a) + np.int32(self.b)


class Gather:
    """x += y * a, in place."""

    def __init__(self, a: int):
        self.a = a

    def graph(self) -> Any:
        graph = kiln.Graph()
        x, y = graph.param("x", (SIZE,), "int32"), graph.param("y", (SIZE,), "int32")
        graph.update(x, x + y * self.a)
        return graph

    def of(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return x + y * np.int32(self.a)


class Slow:
    """What takes the compiler a while: a chain of functions that each step depends on."""

    def __init__(self, a: int, steps: int = 200):
        self.a, self.steps = a, steps

    def graph(self) -> Any:
        graph = kiln.Graph()
        value = graph.param("x", (64,), "float64") + float(self.a)
        for _ in range(self.steps):
            value = kiln.sin(value)
        graph.output(value)
        return graph


def written(x: np.ndarray) -> bytes:
    return np.ascontiguousarray(x).tobytes()


def read(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.int32)


def pair(random: Any) -> Tuple[int, int]:
    """Constants that no program has had."""
    return random.randrange(3, 1 << 30), random.randrange(1, 1 << 30)
