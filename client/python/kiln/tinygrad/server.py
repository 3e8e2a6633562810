"""The one server of this process, opened at first use.

Its address comes from connect() or KILN_ADDR. tinygrad's KILN, KILN:1, … share one
device of the server's, the first if connect() names none: every device of a program is
real to tinygrad, and the memory is one.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Dict, Optional

import kiln
from kiln.tinygrad import stats as counting

_client: Optional[kiln.Client] = None
_base: Dict[str, int] = {"calls": 0, "sent": 0, "received": 0}


def connect(address: Optional[str] = None, **options: Any) -> kiln.Client:
    """Makes `address` ("host:port"; default KILN_ADDR, then localhost:7437) the server of KILN devices.

    Options are those of kiln.connect: token, tls, timeout, …. Call it before the first
    tensor is made on KILN: buffers do not move from one server to another.
    """
    global _client
    if _client is not None:
        raise kiln.FailedPrecondition("KILN is connected to %s already" % _client.target,
                                      remedy="connect before the first tensor")  # fmt: skip
    _client = kiln.connect(address or os.environ.get("KILN_ADDR", "localhost:7437"), **options)
    return _client


def client() -> kiln.Client:
    """The connected client; connects if none is."""
    return _client if _client is not None else connect()


def device_name() -> str:
    """The server's name for all KILN devices; "" is its first."""
    return client().device


def _totals() -> Dict[str, int]:
    rows = client().traffic.values() if _client is not None else ()
    return {"calls": sum(row.calls for row in rows), "sent": sum(row.sent_bytes for row in rows),
            "received": sum(row.received_bytes for row in rows)}  # fmt: skip


def stats() -> counting.Stats:
    """What was sent since the last reset_stats(), as it is now."""
    now = _totals()
    return dataclasses.replace(
        counting.counters,
        round_trips=now["calls"] - _base["calls"],
        bytes_sent=now["sent"] - _base["sent"],
        bytes_received=now["received"] - _base["received"],
        fallbacks=counting.counters.fallbacks.copy(),
    )


def reset_stats() -> None:
    _base.update(_totals())
    counting.reset()
