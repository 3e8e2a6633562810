"""What may be seen of a server that is disturbed: the bytes of each buffer, and which failure may follow which fault.

The rule for bytes: what was answered has happened, once, and stays. What was asked for and not answered has happened
or not, and may yet: a request can lie in a socket after its client has given up. So a buffer that one of these would
have written is `doubtful` from then on: it may be read, which brings one of what it can be, and freed, no more.

The rule for failures: a call may fail with a code that its fault has in ALLOWED, from the moment the fault begins
until the first call of the same client that succeeds although it began after the fault was over. That is no time that
a slow machine could run out of; that it comes at all is Book.recovered()'s to say.
"""

from __future__ import annotations

import collections
import threading
import time
from typing import Callable, Counter, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Tuple

import numpy as np

# A connection that ends under a call. gRPC has several ways to say so.
LOST = ("UNAVAILABLE", "CANCELLED", "INTERNAL", "UNKNOWN")

# Fault -> codes, stable ones of the protocol or, where the server could say none, gRPC's. Anything else fails the run.
ALLOWED: Dict[str, Tuple[str, ...]] = {
    "cut": LOST,
    "cut_midway": LOST,
    "hole": LOST,
    "delay": (),
    "kill_worker": ("COMPILER_FAULT",),
    "kill_zygote": ("COMPILER_FAULT",),
    "stop_worker": (),
    "kill_executor": ("EXECUTOR_LOST",),
    "stop_executor": (),
    "fill_disk": (),
    "clock_ahead": ("NOT_AUTHENTICATED",),
    "clock_back": (),
    "reload_tenants": (),
    "bad_tenants": (),
    "reload_tls": (),
    "bad_tls": (),
    "rotate_token": ("NOT_AUTHENTICATED",),
    "expire_token": ("NOT_AUTHENTICATED",),
    "client_dies": (),
    "stop_server": (),
    "kill_server": LOST,
}

# What a server that has begun anew says of what it never had.
FORGOTTEN = ("UNKNOWN_HANDLE", "SESSION_EXPIRED", "HANDLE_FREED")
# Of doubtful bytes: why the call that was writing them ended.
STOPPED = ("CALL_CANCELLED", "EXECUTOR_LOST")


class Wrong(AssertionError):
    """What must not happen."""


class Held:
    """A buffer, as its client knows it."""

    def __init__(self, handle: int, values: np.ndarray):
        self.handle, self.values = handle, values
        self._others: List[np.ndarray] = []  # what it may have become
        self._mixed = False  # each byte for itself

    @property
    def doubtful(self) -> bool:
        return bool(self._others)

    def wrote(self, values: np.ndarray) -> None:
        """An answered call did."""
        assert not self.doubtful
        self.values = values

    def doubt(self, values: np.ndarray, mixed: bool = False) -> None:
        """A call that would have written `values` was not answered; with `mixed`, it may have written a part."""
        self._others.append(values)
        self._mixed = self._mixed or mixed

    def explains(self, data: np.ndarray) -> bool:
        """Whether a Read may bring `data`."""
        candidates = [self.values, *self._others]
        if self._mixed:
            flat = [np.ascontiguousarray(each).view(np.uint8).ravel() for each in candidates]
            came = np.ascontiguousarray(data).view(np.uint8).ravel()
            return len(came) == len(flat[0]) and bool(np.all(np.any([came == each for each in flat], axis=0)))
        return any(np.array_equal(each, data) for each in candidates)

    def check(self, data: np.ndarray) -> None:
        if not self.explains(data):
            at = int(np.argmax(np.ravel(data) != np.ravel(self.values))) if data.shape == self.values.shape else -1
            raise Wrong("buffer %x has %s at [%d], not %s%s" % (
                self.handle, np.ravel(data)[at : at + 4], at, np.ravel(self.values)[at : at + 4],
                " nor what %d unanswered calls would have made of it" % len(self._others) if self._others else ""))  # fmt: skip


class Injection:
    """One fault, once. `healed` is None while it lasts; `tenants` is None where all may notice."""

    def __init__(self, fault: str, began: float, tenants: Optional[FrozenSet[str]]):
        self.fault, self.began, self.tenants = fault, began, tenants
        self.healed: Optional[float] = None
        self.recovered: Optional[float] = None  # seconds after that
        self.failed: Counter[str] = collections.Counter()

    def excuses(self, tenant: str, code: str, ended: float, last_good: float) -> bool:
        """A call of `tenant` that failed with `code` at `ended`, whose client's last good call began at `last_good`."""
        return (code in ALLOWED[self.fault] and (self.tenants is None or tenant in self.tenants)
                and self.began <= ended and (self.healed is None or last_good <= self.healed))  # fmt: skip


class Row(NamedTuple):
    fault: str
    times: int
    failed: Counter[str]
    recovered: float  # the longest


class Book:
    """All that was injected. Threads: any."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._lock, self._clock = threading.Lock(), clock
        self._rows: List[Injection] = []

    def begin(self, fault: str, tenants: Optional[Iterable[str]] = None) -> Injection:
        made = Injection(fault, self._clock(), None if tenants is None else frozenset(tenants))
        with self._lock:
            self._rows.append(made)
        return made

    def heal(self, injection: Injection) -> None:
        injection.healed = self._clock()

    def excuse(self, tenant: str, code: str, last_good: float) -> Optional[Injection]:
        """The latest fault that excuses a call that fails now, which counts it; None: nothing does."""
        now = self._clock()
        with self._lock:
            for injection in reversed(self._rows):
                if injection.excuses(tenant, code, now, last_good):
                    injection.failed[code] += 1
                    return injection
        return None

    def recovered(self, injection: Injection, last_good: Iterable[float]) -> bool:
        """Whether each client's last good call began after the fault was over."""
        assert injection.healed is not None
        if not all(began > injection.healed for began in last_good):
            return False
        injection.recovered = self._clock() - injection.healed
        return True

    def table(self) -> List[Row]:
        with self._lock:
            rows = []
            for fault in ALLOWED:
                mine = [injection for injection in self._rows if injection.fault == fault]
                if mine:
                    failed = sum((injection.failed for injection in mine), collections.Counter())
                    rows.append(Row(fault, len(mine), failed, max(injection.recovered or 0.0 for injection in mine)))
            return rows


class Quotas:
    """What a tenant has of what is held, as the server shows it from time to time: never more than it may have, or had
    when a limit was lowered."""

    def __init__(self) -> None:
        self._before: Dict[Tuple[str, str], Tuple[int, int]] = {}

    def saw(self, tenant: str, quota: str, limit: int, used: int) -> None:
        old_limit, old_used = self._before.get((tenant, quota), (limit, 0))
        self._before[tenant, quota] = (limit, used)
        may = max(limit, old_limit if old_limit != limit else 0, old_used)
        if limit and old_limit and used > may:
            raise Wrong("tenant %s has %d of %s, and may have %d" % (tenant, used, quota, may))

    def forget(self) -> None:
        """A server that has begun anew."""
        self._before.clear()
