"""How a client says who it is, and how it knows the server: TLS, certificates, tokens.

What connect() is not told, the environment says: KILN_TLS_CA, KILN_TLS_CERTIFICATE, KILN_TLS_KEY, KILN_TOKEN
and KILN_TOKEN_FILE.
"""

from __future__ import annotations

import os
import re
import threading
import time
from typing import Any, Optional, Sequence, Tuple, Union

import grpc

from kiln.errors import InvalidArgument
from kiln.transport import wire

# True or "system" for the system's roots, a file name of PEM roots, or credentials made by grpc.
TLS = Union[bool, str, grpc.ChannelCredentials]
Metadata = Tuple[Tuple[str, Any], ...]

SYSTEM = "system"
# How long a token's file is believed unchanged, in seconds.
BELIEVED = 1.0
# What does not leave this machine, as an address is written.
_HERE = re.compile(r"(dns:(///)?|ipv4:|ipv6:)?(localhost|127(\.\d{1,3}){3}|\[::1\]):\d+|unix:.*", re.DOTALL)
# What a server may tell to be its own address.
_PLAIN = re.compile(r"([A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*|\[[0-9A-Fa-f:.]+\]):\d{1,5}")


def stays_here(target: str) -> bool:
    """As it is written: what a name resolves to is the network's business."""
    return _HERE.fullmatch(target) is not None


class Credentials:
    """Of one client. Threads: any."""

    def __init__(self, target: str, token: Optional[str] = None, token_file: Optional[str] = None,
                 tls: Optional[TLS] = None, certificate: Optional[str] = None, key: Optional[str] = None,
                 insecure: bool = False, metadata: Sequence[Tuple[str, str]] = ()):
        if token is None and token_file is None:
            token, token_file = os.environ.get("KILN_TOKEN"), os.environ.get("KILN_TOKEN_FILE")
        if certificate is None and key is None:
            certificate, key = os.environ.get("KILN_TLS_CERTIFICATE"), os.environ.get("KILN_TLS_KEY")
        if tls is None:
            tls = os.environ.get("KILN_TLS_CA") or False
        self._metadata: Metadata = tuple(metadata)
        self._token_file = token_file or None
        self._lock = threading.Lock()
        self._looked = 0.0
        self._value = self._with("" if self._token_file else token or "")
        self._channel = _channel_credentials(tls, certificate, key)
        says_who = bool(token or self._token_file) or any(name == "authorization" for name, _ in metadata)
        self._readable = says_who and self._channel is None
        self._secret = self._readable and not insecure
        self.check(target)
        if self._token_file:
            if not os.access(self._token_file, os.R_OK):
                raise InvalidArgument("cannot read the token's file, %s" % self._token_file)
            self.metadata()

    @property
    def tls(self) -> bool:
        return self._channel is not None

    def check(self, target: str) -> None:
        """InvalidArgument where a token must not go."""
        if self._secret and not stays_here(target):
            raise InvalidArgument("the token would travel to %s where others can read it" % target,
                                  remedy="give connect() tls=True, or the file of those who sign the server's "
                                         "certificate; or insecure=True, where something else encrypts")  # fmt: skip

    def may_follow(self, address: str) -> bool:
        """Whether a client may go to an address that a server has told it: one of host:port, and none where the token would
        be read on its way. That something else encrypts holds for the way that the user has chosen, and for no other."""
        return _PLAIN.fullmatch(address) is not None and not (self._readable and not stays_here(address))

    def channel(self, target: str, kind: Any = grpc, lease: int = 0) -> Any:
        """A channel of grpc, or of grpc.aio; `lease` is that of a session that is renewed on it."""
        options = wire.options_of(lease)
        if self._channel is None:
            return kind.insecure_channel(target, options)
        return kind.secure_channel(target, self._channel, options)

    def metadata(self, anew: bool = False) -> Metadata:
        """What goes with every call. The same object while it is the same. `anew`: the token's file is read now,
        whatever is known of it."""
        if self._token_file is None:
            return self._value
        with self._lock:
            now = time.monotonic()
            if anew or not self._looked or now - self._looked >= BELIEVED:
                self._looked = now
                self._read(self._token_file)
            return self._value

    def _read(self, path: str) -> None:
        try:
            with open(path) as file:
                token = file.read().strip()
        except OSError:  # in the middle of a change: the token before counts for a while
            return
        if token and self._with(token) != self._value:
            self._value = self._with(token)

    def _with(self, token: str) -> Metadata:
        return ((("authorization", "Bearer " + token),) if token else ()) + self._metadata


def _channel_credentials(tls: TLS, certificate: Optional[str], key: Optional[str]) -> Optional[grpc.ChannelCredentials]:
    if bool(certificate) != bool(key):
        raise InvalidArgument("a client's certificate and its key go together")
    if isinstance(tls, grpc.ChannelCredentials):
        return tls
    if not tls:
        if certificate:
            raise InvalidArgument("a certificate is shown on an encrypted connection",
                                  remedy="give connect() tls=True, or the file of those who sign the server's")  # fmt: skip
        return None
    roots = None if tls is True or tls == SYSTEM else _bytes(tls)
    return grpc.ssl_channel_credentials(roots, _bytes(key) if key else None, _bytes(certificate) if certificate else None)


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidArgument("cannot read %s: %s" % (path, error.strerror)) from None
