"""The session that owns a client's buffers on the server.

Its lease is renewed by a thread of its own. A client that is killed renews no more:
when the lease runs out, the server frees what the client had.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Optional, Sequence, Tuple

import grpc

from kiln.transport import wire
from kiln.errors import KilnError
from kiln.v1 import session_service_pb2

# The metadata of a call that is made under a session: its token.
HEADER = "kiln-session-bin"

# What DeviceService.List calls a server's sessions.
FEATURE = "sessions"

# Long enough for a process that is stopped for a moment or does not let Python's threads run.
LEASE = 30
Metadata = Tuple[Tuple[str, Any], ...]


def is_of_session(error: KilnError) -> bool:
    """Whether a call failed because the server does not know the session it was made under."""
    return error.field == HEADER


def token_in(metadata: Sequence[Tuple[str, Any]]) -> Optional[bytes]:
    """Of the session that calls with this metadata are made under."""
    return dict(metadata).get(HEADER)


class Session:
    """What to send with every call: `metadata`. Of no session until open() has found one.

    `lost` is called, by the thread that renews, when the session and all it owned are gone.
    """

    def __init__(self, channel: grpc.Channel, metadata: Callable[..., Metadata], lost: Callable[[], None]):
        """`metadata` gives what calls of no session are sent with, as it is now (Credentials.metadata)."""
        self._channel, self._plain, self._lost = channel, metadata, lost
        self._mine: Metadata = ()  # what a session adds to it
        self._made: Tuple[Metadata, Metadata, Metadata] = ((), (), ())  # of which two, and their sum
        self.token: Optional[bytes] = None
        self.granted = LEASE  # seconds
        self._lease = LEASE
        self._ended = False
        self._due = threading.Event()  # renewal is, before its time
        self._opening = threading.Lock()

    @property
    def metadata(self) -> Metadata:
        plain, mine, both = self._plain(), self._mine, self._made
        if both[0] is plain and both[1] is mine:
            return both[2]
        self._made = (plain, mine, plain + mine)
        return self._made[2]

    def under(self, token: Optional[bytes], anew: bool = False) -> Metadata:
        """As `metadata`, of this session, or of none. `anew`: whatever is believed of a token's file."""
        return self._plain(anew) + (((HEADER, token),) if token is not None else ())

    def open(self, features: Sequence[str], lease: int, timeout: Optional[float] = None) -> None:
        """Opens one where the server has them; grpc.RpcError."""
        if lease <= 0 or FEATURE not in features:
            return
        self._lease = lease
        try:
            granted = self._open(lease, timeout)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                return
            raise
        threading.Thread(target=self._keep, args=(lease, granted), name="kiln-session", daemon=True).start()

    def _open(self, lease: int, timeout: Optional[float]) -> int:
        request = session_service_pb2.OpenSessionRequest(lease_seconds=lease)
        answer = self._call("SessionService.Open", request, timeout)
        if self.token is not None:
            self._lost()
        self._mine = ((HEADER, answer.token),)
        self.token = answer.token
        self.granted = answer.lease_seconds
        return answer.lease_seconds

    def _call(self, name: str, request: Any, timeout: Optional[float]) -> Any:
        return wire.stub(self._channel, name)(request, timeout=timeout, metadata=self._plain())

    def heed(self, error: KilnError) -> KilnError:
        """`error` itself; if it says that the session is gone, the next call is soon made under a new one."""
        if is_of_session(error):
            self._due.set()
        return error

    def _keep(self, lease: int, granted: int) -> None:
        while True:
            # One call that is lost leaves time for a second.
            self._due.wait(granted / 3)
            self._due.clear()
            if self._ended:
                return
            try:
                granted = self._renew(lease, granted)
            except grpc.RpcError:  # a server that does not answer may come back
                pass
            except ValueError:  # the channel is closed
                return

    def _renew(self, lease: int, granted: int) -> int:
        """The length of the lease from now on."""
        renewal = session_service_pb2.RenewSessionRequest(token=self.token)
        try:
            self._call("SessionService.Renew", renewal, granted / 3)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            return self._reopen(renewal.token, lease, granted)
        return granted

    def _reopen(self, gone: Optional[bytes], lease: int, granted: int) -> int:
        """The server has forgotten session `gone`, and freed our buffers; what is made from now on gets a new one."""
        with self._opening:
            if self._ended or self.token != gone:
                return self.granted
            return self._open(lease, granted / 3)

    def replace(self, gone: Optional[bytes]) -> None:
        """Opens a new session in the place of `gone`, unless there is one already; grpc.RpcError."""
        self._reopen(gone, self._lease, self.granted)

    def stop(self) -> None:
        """Renews no more. Safe in destructors."""
        self._ended = True
        self._due.set()

    def close(self, timeout: float = 10) -> None:
        """Ends the session, which frees what it owns; grpc.RpcError."""
        self.stop()
        if self.token is not None:
            self._call("SessionService.Close", session_service_pb2.CloseSessionRequest(token=self.token), timeout)
