"""Calls whose deadline only the server watches.

A client of gRPC's that says a deadline keeps it itself: its call ends in time whatever the server does, and says nothing of
whether the server went on. So these say their deadline on the wire alone, and wait for the server's answer for as long as
it takes.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Optional

from half_messages import (ACK, DATA, END_HEADERS, FRAME, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, WINDOW, frame,
                           headers)  # fmt: skip

END_STREAM = 1
# Of the only stream.
STREAM = 1


def _header(name: str, value: str) -> bytes:
    """One that the other side need not remember; neither part may be longer than 126 bytes."""
    return b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


class Asked:
    """One call, which is on its way."""

    def __init__(self, port: int, path: str, message: bytes, seconds: float, token: str = ""):
        assert len(message) < WINDOW - FRAME, "it would have to wait for the server"
        said = _header("grpc-timeout", "%dm" % round(1000 * seconds))
        said += _header("authorization", "Bearer " + token) if token else b""
        data = b"\0" + struct.pack(">I", len(message)) + message
        pieces = [data[at : at + FRAME] for at in range(0, len(data), FRAME)]
        self.begun = time.monotonic()
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.sendall(PREFACE + frame(SETTINGS) + frame(HEADERS, headers(path) + said, END_HEADERS, STREAM))
        for piece in pieces[:-1]:
            self._socket.sendall(frame(DATA, piece, 0, STREAM))
        self._socket.sendall(frame(DATA, pieces[-1], END_STREAM, STREAM))

    def close(self) -> None:
        self._socket.close()

    def seconds(self, most: float) -> Optional[float]:
        """From the asking until the server has ended the call; None if it has not after `most`."""
        while time.monotonic() < self.begun + most:
            head = self._read(9, most)
            if head is None:
                return None
            size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
            payload = self._read(size, most) if size else b""
            if payload is None:
                return None
            if kind in (SETTINGS, PING) and not flags & ACK:
                self._socket.sendall(frame(kind, payload if kind == PING else b"", ACK))
            if stream == STREAM and (kind == RST_STREAM or kind in (HEADERS, DATA) and flags & END_STREAM):
                return time.monotonic() - self.begun
        return None

    def _read(self, size: int, most: float) -> Optional[bytes]:
        data = b""
        while len(data) < size:
            self._socket.settimeout(max(0.001, self.begun + most - time.monotonic()))
            try:
                more = self._socket.recv(size - len(data))
            except socket.timeout:
                return None
            assert more, "the connection ended, and with it the call"
            data += more
        return data
