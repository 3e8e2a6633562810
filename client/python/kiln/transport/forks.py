"""A process that forks while it is connected.

The child has gRPC's state but none of its threads, and its sockets and epoll set are the
parent's own: a call in the child waits for ever, and to end one there, or to begin a new channel,
takes the parent's connection with it. So what the child inherits is put out of use: nothing is
sent, freed or destroyed, and who uses it is told. A child that connects by itself needs a gRPC
that was told beforehand to get out of the way of forks (GRPC_ENABLE_FORK_SUPPORT=1); without
that, connect() says so. Processes that are spawned are not concerned, nor is what they run.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

from grpc._cython import cygrpc

from kiln.errors import FailedPrecondition

# Connections that have not been closed.
_open: "weakref.WeakSet[Any]" = weakref.WeakSet()


class _State:
    inherited = False  # connections of the parent's
    epoch: Any = None  # gRPC's count, before that fork, of forks that it has made way for
    now: Any = None  # the same before the last fork


def opened(connection: Any) -> None:
    _open.add(connection)


def closed(connection: Any) -> None:
    _open.discard(connection)


def check() -> None:
    """FailedPrecondition where no connection can be made."""
    # Asked late: what gRPC does in a child may come after our own.
    if _State.inherited and _epoch() == _State.epoch:
        raise FailedPrecondition("this process was forked from one that was connected, and gRPC does not survive that",
                                 remedy=REMEDY)  # fmt: skip


REMEDY = ('begin processes with multiprocessing\'s "spawn" or "forkserver" and connect in each; '
          "or set GRPC_ENABLE_FORK_SUPPORT=1 before Python starts")  # fmt: skip


def error(target: str) -> FailedPrecondition:
    """What use of an inherited connection is answered with."""
    return FailedPrecondition("the client of %s belongs to the process from which this one was forked" % target,
                              remedy="connect in each process. " + REMEDY[0].upper() + REMEDY[1:])  # fmt: skip


def _epoch() -> Any:
    return getattr(cygrpc, "get_fork_epoch", lambda: None)()


def _before() -> None:
    _State.now = _epoch()


def _in_child() -> None:
    for connection in list(_open):
        _State.inherited, _State.epoch = True, _State.now
        connection.abandon()
        # Its end would be the parent's connection's, also where the interpreter ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        _open.discard(connection)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)
