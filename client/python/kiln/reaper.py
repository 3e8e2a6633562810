"""Gives handles back that the garbage collector found, from a thread of its own.

A destructor may run in any thread, at any moment, under any lock: it may only put
the handle into a queue whose put() is reentrant. The thread frees what has gathered,
many handles in one call.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import Callable, List, Optional

_MOST = 1024  # handles in one Free


class Reaper:
    """`free` is called with lists of handles; what it raises is nobody's and dropped."""

    def __init__(self, free: Callable[[List[int]], None], finish: Callable[[], None]):
        self._queue: "queue.SimpleQueue[Optional[object]]" = queue.SimpleQueue()
        self._thread = threading.Thread(target=_run, args=(self._queue, free, finish), name="kiln-reaper", daemon=True)
        self._thread.start()

    def put(self, handle: int) -> None:
        """Safe in destructors."""
        self._queue.put(handle)

    def flush(self, timeout: Optional[float] = None) -> None:
        """Returns when all handles put so far have been given back."""
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
    running = True
    while running:
        batch = [items.get()]
        while len(batch) < _MOST:
            try:
                batch.append(items.get_nowait())
            except queue.Empty:
                break
        handles = [item for item in batch if isinstance(item, int)]
        if handles:
            try:
                free(handles)
            except Exception:  # the handles end with the session at the latest
                pass
        for item in batch:
            if isinstance(item, threading.Event):
                item.set()
        running = None not in batch
    try:
        finish()
    except Exception:
        pass
