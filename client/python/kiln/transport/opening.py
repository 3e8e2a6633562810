"""From an address to a connection that can be used: the server answers, speaks our protocol, and has our device.

A generator, for both kinds of connection (kiln/waiting.py).
"""

from __future__ import annotations

import functools
import logging
import time
from typing import Any, Callable, List, NamedTuple, Optional, Sequence

from kiln.errors import KilnError, NotFound, Unavailable, WrongVersion
from kiln.stream import FEATURE as STREAM
from kiln.transport import wire
from kiln.transport.addresses import ANSWERING
from kiln.transport.elsewhere import several
from kiln.transport.shared_memory import offered
from kiln.v1 import device_service_pb2
from kiln.waiting import Waits


log = logging.getLogger("kiln")

# Seconds for the server behind a balancer, which is near it.
DIRECTLY = 2.0


class Opening(NamedTuple):
    """What connect() was asked for."""

    make: Callable[[str], Any]  # a connection to an address, not opened
    lease: int
    timeout: Optional[float]  # seconds for one address
    stream: bool
    shared_memory: bool
    may_follow: Callable[[str], bool]  # to an address that a server has told


def first(how: Opening, addresses: Sequence[str]) -> Waits[Any]:
    """A connection to the first address that answers, which may go on to the others. What it raises is of one, or
    NoServer of all; where each refuses connections, as soon as for one."""
    failed: List[KilnError] = []
    begun = time.monotonic()
    for address in addresses:
        try:
            connection = yield from _open(how.make(address), how, begun)
        except Unavailable as error:
            failed.append(error)
            continue
        connection.targets, connection.reach = tuple(addresses), functools.partial(first, how)
        if how.shared_memory:
            connection.shared_memory = offered(
                connection.target, connection.call, connection.begin, connection.server.features)  # fmt: skip
        return connection
    raise several(failed)


def _open(connection: Any, how: Opening, since: Optional[float] = None, follow: bool = True) -> Waits[Any]:
    """`connection` once it is known that the server will do; or another one, to the server that is behind its address."""
    timeout = ANSWERING if how.timeout is None else how.timeout
    direct = None
    try:
        yield connection.wait_until_ready(how.timeout, since)
        server = yield connection.call("DeviceService.List", device_service_pb2.ListDevicesRequest(), timeout)
        check_version(server, connection.target)
        check_device(server, connection.target, connection.device)
        connection.server, connection.devices = server, [row.name for row in server.devices]
        if follow:
            direct = yield from _directly(connection, how)
        if direct is None:
            yield connection.open_session(server.features, how.lease, timeout)
            connection.pipeline.open = how.stream and STREAM in server.features and connection.session.token is not None
            return connection
        yield connection.close()
        return direct
    except BaseException:
        for one in (connection, direct):
            if one is not None:
                yield one.close()
        raise


def _directly(connection: Any, how: Opening) -> Waits[Any]:
    """Where `connection` goes to one of several servers by way of a balancer, one to that very server: what is made is in
    its memory. None where there is no balancer, or no other way: then the balancer must keep us at one server."""
    address = connection.server.address
    if not address or address == connection.target or not how.may_follow(address):
        return None
    timeout = DIRECTLY if how.timeout is None else min(DIRECTLY, how.timeout / 2)
    try:
        direct = yield from _open(how.make(address), how._replace(timeout=timeout), follow=False)
    except KilnError as error:
        log.info("%s leads to %s, which cannot be reached itself: %s", connection.target, address, error.message)
        return None
    if direct.server.address != address:
        log.warning("%s leads to %s, where another server is, which calls itself \"%s\"",
                    connection.target, address, direct.server.address)  # fmt: skip
        yield direct.close()
        return None
    log.info("%s leads to %s: connected there", connection.target, address)
    return direct


def check_version(server: device_service_pb2.ListDevicesResponse, target: str) -> None:
    if not server.protocol_min <= wire.PROTOCOL <= server.protocol_max:
        raise WrongVersion("the server at %s speaks protocol %d to %d; this library speaks %d" %
                           (target, server.protocol_min, server.protocol_max, wire.PROTOCOL),
                           remedy="install the kiln package of the server's release")  # fmt: skip


def check_device(server: device_service_pb2.ListDevicesResponse, target: str, device: str) -> None:
    if device and device not in [row.name for row in server.devices]:
        raise NotFound("the server at %s has no device %s" % (target, device), code="UNKNOWN_DEVICE",
                       remedy="it has " + ", ".join(row.name for row in server.devices))  # fmt: skip
