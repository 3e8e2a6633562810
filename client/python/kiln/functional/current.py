"""The client that is meant where none is named: the one that connected last and is still open.

One for the process: a client is used from many threads. What has an array at hand uses the array's. The
current client needs no variable that keeps it; one before it goes when nothing else does.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, List

from kiln.errors import FailedPrecondition

if TYPE_CHECKING:
    from kiln.client import Client

DEFAULT = "localhost:7437"

_lock = threading.Lock()
_connected: "List[weakref.ref[Any]]" = []
_kept: Any = None  # the last of them


def address() -> str:
    """Where connect() goes without an address: KILN_ADDR, or this machine."""
    return os.environ.get("KILN_ADDR") or DEFAULT


def announce(client: Any) -> None:
    """Makes a client that has just connected the current one."""
    global _kept
    with _lock:
        _connected[:] = [other for other in _connected if other() is not None]
        _connected.append(weakref.ref(client))
        _kept = client


def current() -> "Client":
    """The client that connected last and is open. FailedPrecondition if there is none."""
    global _kept
    with _lock:
        while _connected:
            client = _connected[-1]()
            if client is not None and not client.closed:
                _kept = client
                return client
            _connected.pop()
        _kept = None
    raise FailedPrecondition("no client is connected", remedy="kiln.connect() to a server, or kiln.local() for one of your own")
