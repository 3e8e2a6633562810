"""Gives handles back that the garbage collector found, from a thread of its own.

A destructor may run in any thread, at any moment, under any lock: it may only put
the handle into a queue whose put() is reentrant. The thread frees what has gathered,
many handles in one call. What a call that failed did not free is kept and tried again.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Any, Callable, Collection, List, Optional, Set

import grpc

from kiln.errors import KilnError
from kiln.session import is_of_session
from kiln.waiting import Waits

MOST = 1024  # handles in one Free
TIMEOUT = 10.0  # seconds for one Free
AGAIN = 5.0  # seconds until a Free that failed is tried again, if no other handle comes before


def _gone(error: KilnError, handles: Collection[int]) -> Collection[int]:
    """Which of `handles` the server does not have, if that is why a Free of them failed.

    It frees all or none, and names the first that it does not know. A session that is
    gone has taken all of them with it.
    """
    if error.status is not grpc.StatusCode.NOT_FOUND:
        return ()
    if is_of_session(error):
        return handles
    return (error.handle,) if error.handle in handles else ()


def give_back(handles: Collection[int], live: Set[int], free: Callable[[Collection[int]], Any]) -> Waits[None]:
    """Calls `free` until the server has none of `handles` that are in `live`, and they are no longer; KilnError."""
    while mine := live.intersection(handles):
        ended: Collection[int] = mine
        try:
            yield free(mine)
        except KilnError as error:
            ended = _gone(error, mine)
            if not ended:
                raise
        live.difference_update(ended)


class Reaper:
    """`free` is called with lists of handles, and again with those of a call that raised."""

    def __init__(self, free: Callable[[List[int]], None], finish: Callable[[], None]):
        self._queue: "queue.SimpleQueue[Optional[object]]" = queue.SimpleQueue()
        self._thread = threading.Thread(target=_run, args=(self._queue, free, finish), name="kiln-reaper", daemon=True)
        self._thread.start()

    def put(self, handle: int) -> None:
        """Safe in destructors."""
        self._queue.put(handle)

    def flush(self, timeout: Optional[float] = None) -> None:
        """Returns when all handles put so far have been given back, or a Free of them has failed."""
        done = threading.Event()
        self._queue.put(done)
        deadline = None if timeout is None else time.monotonic() + timeout
        # The thread may end without having seen the event.
        while self._thread.is_alive() and not done.wait(0.1):
            if deadline is not None and time.monotonic() > deadline:
                return

    def stop(self) -> None:
        """Asks the thread to free what is left, call `finish`, and end. Safe in destructors."""
        self._queue.put(None)

    def join(self, timeout: Optional[float] = None) -> None:
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)


def _run(items: "queue.SimpleQueue[Optional[object]]", free: Callable[[List[int]], None],
         finish: Callable[[], None]) -> None:
    kept: List[int] = []
    while True:
        batch = _gather(items, AGAIN if kept else None)
        if None in batch:
            break
        kept = _free_all(free, kept + [item for item in batch if isinstance(item, int)])
        for item in batch:
            if isinstance(item, threading.Event):
                item.set()
    try:
        finish()
    except Exception:  # what is left ends with the session at the latest
        pass


def _gather(items: "queue.SimpleQueue[Optional[object]]", timeout: Optional[float]) -> List[Optional[object]]:
    """What is in the queue, once something is or `timeout` is over."""
    batch: List[Optional[object]] = []
    try:
        batch.append(items.get(timeout=timeout))
        while len(batch) < MOST:
            batch.append(items.get_nowait())
    except queue.Empty:
        pass
    return batch


def _free_all(free: Callable[[List[int]], None], handles: List[int]) -> List[int]:
    """Those that a call which failed has left."""
    for start in range(0, len(handles), MOST):
        try:
            free(handles[start : start + MOST])
        except Exception:  # whatever it is, it may pass
            return handles[start:]
    return []
