"""What was found once, up to a number; the oldest go. On the client that it is of, so that it goes with it."""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, Iterator


class Kept:
    """Threads: any; two that want the same at once may both make it."""

    def __init__(self, most: int):
        self._most, self._lock = most, threading.Lock()
        self._rows: Dict[Any, Any] = {}
        self.get: Callable[[Any], Any] = self._rows.get

    def put(self, key: Any, value: Any) -> Any:
        with self._lock:
            while len(self._rows) >= self._most:
                del self._rows[next(iter(self._rows))]
            self._rows[key] = value
        return value

    def drop(self, unwanted: Callable[[Any], bool]) -> None:
        """Those whose key is unwanted."""
        with self._lock:
            for key in [key for key in self._rows if unwanted(key)]:
                del self._rows[key]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._rows.values()))


def of_client(client: Any, what: str, most: int) -> Kept:
    """A client's, by name."""
    found = client._kept.get(what)
    return client._kept.setdefault(what, Kept(most)) if found is None else found
