"""The one server of this process, opened at first use.

Its address comes from connect() or KILN_ADDR. tinygrad's KILN:i is the server's device
i, counted among those of its first one's kind, or the one that connect() or KILN_DEVICES
says it is. Where there are fewer, they are counted again from the first: on a server with
one device all KILN devices are that one, each shard a buffer of its own.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Dict, Iterable, Optional, Sequence, Tuple

import kiln
from kiln.tinygrad import stats as counting
from kiln.tinygrad.devices import is_kiln

_client: Optional[kiln.Client] = None
_devices: Tuple[str, ...] = ()
_options: Dict[str, bool] = {}
_base: Dict[str, int] = {"calls": 0, "sent": 0, "received": 0}


def connect(address: Optional[str] = None, *, device: str = "", devices: Sequence[str] = (),
            no_contraction: Optional[bool] = None, **options: Any) -> kiln.Client:
    """Makes `address` ("host:port"; default KILN_ADDR, then localhost:7437) the server of KILN devices.

    device          the server's device that all KILN devices are
    devices         the server's devices that KILN, KILN:1, … are; counted again from the first; default
                    KILN_DEVICES, their names with commas between
    no_contraction  whether a * b + c is two roundings everywhere; default KILN_NO_CONTRACTION

    All else is as for kiln.connect: token, tls, timeout, …. Call it before the first
    tensor is made on KILN: buffers do not move from one server to another.
    """
    global _client, _devices, _options
    if _client is not None:
        raise kiln.FailedPrecondition("KILN is connected to %s already" % _client.target,
                                      remedy="connect before the first tensor")  # fmt: skip
    named = tuple(devices) or ((device,) if device else ()) or devices_of_environment()
    found = kiln.connect(address or os.environ.get("KILN_ADDR", "localhost:7437"), device=named[0] if named else "", **options)
    try:
        _devices = named_devices(found, named)
    except BaseException:
        found.close()
        raise
    if no_contraction is None:
        no_contraction = os.environ.get("KILN_NO_CONTRACTION", "0") not in ("", "0")
    _options = {"no_contraction": True} if no_contraction else {}
    _client = found
    return _client


def devices_of_environment() -> Tuple[str, ...]:
    return tuple(name.strip() for name in os.environ.get("KILN_DEVICES", "").split(",") if name.strip())


def named_devices(found: kiln.Client, wanted: Sequence[str]) -> Tuple[str, ...]:
    """The server's devices that KILN devices are; NotFound for one that it does not have."""
    there = [row.name for row in found.devices()]
    for name in wanted:
        if name not in there:
            raise kiln.NotFound("the server at %s has no device %s" % (found.target, name), code="UNKNOWN_DEVICE",
                                remedy="it has " + ", ".join(there))  # fmt: skip
    kind = there[0].split(":")[0]
    return tuple(wanted) or tuple(name for name in there if name.split(":")[0] == kind)


def client() -> kiln.Client:
    """The connected client; connects if none is."""
    return _client if _client is not None else connect()


def device_name(device: str) -> str:
    """The server's name for one of tinygrad's KILN devices."""
    client()
    number = int(device.split(":")[1]) if ":" in device else 0
    return _devices[number % len(_devices)]


def device_names(devices: Iterable[str]) -> Tuple[str, ...]:
    """The server's names for what KILN devices there are among tinygrad's; each once."""
    return tuple(dict.fromkeys(device_name(device) for device in devices if is_kiln(device)))


def compile(graph: Any, device: str) -> kiln.Program:
    """A program for a device of the server's, as everything here is compiled."""
    counting.counters.compiles += 1
    return client().compile(graph, device=device, **_options)


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
