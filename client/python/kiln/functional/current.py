"""The client that is meant where none is named: the one that connected last and is still open.

One for the process: a client is used from many threads. What has an array at hand uses the array's.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, List

from kiln.errors import FailedPrecondition

DEFAULT = "localhost:7437"

_lock = threading.Lock()
_connected: "List[weakref.ref[Any]]" = []


def address() -> str:
    """Where connect() goes without an address: KILN_ADDR, or this machine."""
    return os.environ.get("KILN_ADDR") or DEFAULT


def announce(client: Any) -> None:
    """Makes a client that has just connected the current one."""
    with _lock:
        _connected.append(weakref.ref(client))


def current() -> Any:
    """The client that connected last and is open. FailedPrecondition if there is none."""
    with _lock:
        while _connected:
            client = _connected[-1]()
            if client is not None and not client.closed:
                return client
            _connected.pop()
    raise FailedPrecondition("no client is connected", remedy="kiln.connect() to a server, or kiln.local() for one of your own")
