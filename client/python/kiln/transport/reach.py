"""Whether a server can be reached: a call that waits for the connection, and any answer to it.

gRPC has a future for this. It polls from a thread that goes on for a moment after it, and that thread ends with
a traceback of its own where the channel is closed meanwhile, as it is where nobody answered.

A balancer that gives each call to the next of two servers would give the call after this one, which decides where a
client stays, to the same server each time, if all clients came one after the other. So half of them ask twice.
"""

from __future__ import annotations

import random
from typing import Any, Optional

import grpc

# Of the health service, which asks nobody who they are. A server that does not know it answers, too.
_CHECK = "/grpc.health.v1.Health/Check"
# So many times in a row a connection breaks; then it was the server, or a proxy, that said it is unavailable.
_BREAKS = 2


class Reach:
    """Of one channel. One thread at a time."""

    def __init__(self, channel: grpc.Channel):
        """ValueError if the channel is closed."""
        self._ask = channel.unary_unary(_CHECK)
        self._call: Optional[Any] = None
        self._broken = 0
        self._again = random.random() < 0.5

    def within(self, seconds: float) -> bool:
        """Whether somebody has answered. ValueError if the channel is closed."""
        if self._call is None:
            self._call = self._ask.future(b"", wait_for_ready=True)
        try:
            self._call.result(seconds)
        except grpc.FutureTimeoutError:
            return False
        except grpc.FutureCancelledError:
            raise ValueError("the channel is closed") from None
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                self._call, self._broken = None, self._broken + 1
                return self._broken >= _BREAKS
        if not self._again:
            return True
        self._call, self._again = None, False
        return self.within(seconds)

    def end(self) -> None:
        """Asks no more."""
        if self._call is not None:
            self._call.cancel()
