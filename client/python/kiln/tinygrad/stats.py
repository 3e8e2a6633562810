"""What went to the server, counted: so that nobody mistakes a fallback for a pass.

    kiln.tinygrad.reset_stats()
    model(x).realize()
    print(kiln.tinygrad.stats())
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Counter


@dataclasses.dataclass
class Stats:
    """Counts since the last reset_stats()."""

    graphs: int = 0  # tensor graphs run (level T)
    kernels: int = 0  # kernels that tinygrad split and Kiln ran (levels K and L)
    compiles: int = 0  # programs asked for, each once a process
    round_trips: int = 0  # calls the server answered
    bytes_sent: int = 0
    bytes_received: int = 0
    # Tensor graphs that went the way of tinygrad's own scheduler, by reason.
    fallbacks: Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def __str__(self) -> str:
        reasons = "; ".join("%d: %s" % (count, reason) for reason, count in self.fallbacks.most_common())
        return "kiln: %d graphs, %d kernels, %d compiles, %d round trips, %d B out, %d B in, fallbacks %s" % (
            self.graphs, self.kernels, self.compiles, self.round_trips, self.bytes_sent, self.bytes_received,
            reasons or "0")  # fmt: skip


counters = Stats()


def reset() -> None:
    fresh = Stats()
    for field in dataclasses.fields(Stats):
        setattr(counters, field.name, getattr(fresh, field.name))


def count_fallback(reason: str) -> None:
    counters.fallbacks[reason] += 1
