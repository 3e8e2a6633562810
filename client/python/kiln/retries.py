"""Which failed calls are made again, and when.

A server that is asked for too much refuses at once, and says when to come again
(`error.retry_after`). If all its clients came at that moment it would be asked for too much
again; and if each came as often as it likes, the tries would be a load of their own. So a
client waits a little longer than it was told, by chance; and has a budget: for ten calls it
may make one again, and a few at first. When most calls fail, most failures are raised at once.

Never made again is what may have had an effect, unless it would have the same once more.
client/cpp/transport/retries.h does the same for C++.
"""

from __future__ import annotations

import random
import threading
from typing import Optional

from kiln.errors import KilnError, NoServer, ResourceExhausted, Unavailable

ATTEMPTS = 3  # of one call, the first among them
FIRST_WAIT = 0.05  # seconds, where the server says no time; twice as long each further time
MOST_WAIT = 2.0  # who is told to wait longer hears of it instead
PER_CALL = 0.1  # tries that a call earns
MOST = 10.0  # that are saved up; they are there at first

# What looks, and what finds a second time what it made the first.
IDEMPOTENT = frozenset((
    "BufferService.Describe", "BufferService.ListTensors", "DebugService.Explain", "DebugService.ListPrograms",
    "DebugService.Trace", "DeviceService.Describe", "DeviceService.List", "GRPCInferenceService.ModelMetadata",
    "GRPCInferenceService.ModelReady", "GRPCInferenceService.RepositoryIndex", "KernelService.Compile",
    "KernelService.Gradient", "KernelService.RecordSequence", "SessionService.Renew", "SessionService.Usage"))  # fmt: skip


class Retries:
    """Of one client. Threads: any."""

    def __init__(self, seed: Optional[int] = None):
        self._chance = random.Random(seed)
        self._budget = MOST
        self._lock = threading.Lock()

    def earn(self) -> None:
        """A call begins."""
        with self._lock:
            self._budget = min(MOST, self._budget + PER_CALL)

    def wait(self, name: str, error: KilnError, attempt: int, left: Optional[float] = None) -> Optional[float]:
        """Seconds to wait before the call is made again whose `attempt`th attempt (from 1 on) failed so; None: it is not.

        `left` are the seconds to its deadline. Takes from the budget.
        """
        asked = _asked(name, error)
        if attempt >= ATTEMPTS or asked is None or asked > MOST_WAIT:
            return None
        with self._lock:
            if self._budget < 1:
                return None
            chance = self._chance.random()
            seconds = asked * (1 + chance / 2) if asked else min(MOST_WAIT, FIRST_WAIT * 2 ** (attempt - 1)) * chance
            if left is not None and seconds >= left:
                return None
            self._budget -= 1
        return seconds


def _asked(name: str, error: KilnError) -> Optional[float]:
    """What the server asks for, 0 where it says no time; None: it may have begun, or will not end otherwise."""
    if isinstance(error, ResourceExhausted):
        return error.retry_after
    if not isinstance(error, Unavailable):
        return None
    # A server that stops, or is not there, has not begun it; another may follow it at its address.
    if error.code == "SHUTTING_DOWN" or isinstance(error, NoServer):
        return 0.0
    return 0.0 if error.code is None and name in IDEMPOTENT else None
