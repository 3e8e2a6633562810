"""A client of HTTP/2 that begins requests and never ends them: as much of each as the server lets it send."""

from __future__ import annotations

import socket
import struct
from typing import Dict

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_HEADERS, ACK = 4, 1
INITIAL_WINDOW_SIZE = 4
FRAME = 16384
WINDOW = 65535


def frame(kind: int, payload: bytes = b"", flags: int = 0, stream: int = 0) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def headers(path: str) -> bytes:
    """Of a call of gRPC's, as HPACK's literals."""
    name = path.encode()
    return (b"\x83\x86\x44" + bytes([len(name)]) + name + b"\x41\x01x" + b"\x5f\x10application/grpc" +
            b"\x40\x02te\x08trailers")  # fmt: skip


class HalfSender:
    """One connection, with `streams` calls of `path` under way; each says that it sends `size` bytes."""

    def __init__(self, port: int, path: str, streams: int, size: int):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.connection_window = WINDOW
        self.initial_window = WINDOW
        self.windows: Dict[int, int] = {}
        self.left: Dict[int, int] = {}
        self.ended = False  # by the server
        self.reset = 0  # calls that the server has ended
        self._incoming = self._outgoing = b""
        self._write(PREFACE + frame(SETTINGS) + frame(WINDOW_UPDATE, struct.pack(">I", 1 << 20)))
        for i in range(streams):
            stream = 2 * i + 1
            self.windows[stream], self.left[stream] = WINDOW, size - 1  # the last byte never comes
            self._write(frame(HEADERS, headers(path), END_HEADERS, stream))
            self._send(stream, b"\0" + struct.pack(">I", size))
        self.socket.setblocking(False)

    def pump(self) -> int:
        """Sends what may be sent now, reads what came; how many bytes were sent of messages."""
        self._read()
        sent = 0
        for stream in list(self.left):
            while not self.ended and self._flush():
                room = min(self.left[stream], self.windows[stream], self.connection_window, FRAME)
                if room <= 0:
                    break
                self._send(stream, b"x" * room)
                self.left[stream] -= room
                sent += room
        return sent

    def held(self) -> int:
        """Calls that the server has not ended."""
        return 0 if self.ended else len(self.left)

    def close(self) -> None:
        self.socket.close()

    def _send(self, stream: int, data: bytes) -> None:
        self.windows[stream] -= len(data)
        self.connection_window -= len(data)
        self._write(frame(DATA, data, 0, stream))

    def _write(self, data: bytes) -> None:
        self._outgoing += data

    def _flush(self) -> bool:
        """Whether all that was written is on its way."""
        try:
            while self._outgoing:
                self._outgoing = self._outgoing[self.socket.send(self._outgoing) :]
        except BlockingIOError:
            return False
        except OSError:
            self.ended = True
        return not self.ended

    def _read(self) -> None:
        try:
            while True:
                more = self.socket.recv(1 << 16)
                if not more:
                    self.ended = True
                    break
                self._incoming += more
        except BlockingIOError:
            pass
        except OSError:
            self.ended = True
        while len(self._incoming) >= 9:
            length, kind, flags, stream = (int.from_bytes(self._incoming[:3], "big"), self._incoming[3], self._incoming[4],
                                           int.from_bytes(self._incoming[5:9], "big"))  # fmt: skip
            if len(self._incoming) < 9 + length:
                return
            payload, self._incoming = self._incoming[9 : 9 + length], self._incoming[9 + length :]
            self._take(kind, flags, stream, payload)

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[at : at + 6])
                if name == INITIAL_WINDOW_SIZE:
                    for each in self.windows:
                        self.windows[each] += value - self.initial_window
                    self.initial_window = value
            self._write(frame(SETTINGS, flags=ACK))
        elif kind == PING and not flags & ACK:
            self._write(frame(PING, payload, ACK))
        elif kind == WINDOW_UPDATE:
            more = struct.unpack(">I", payload)[0]
            if stream == 0:
                self.connection_window += more
            elif stream in self.windows:
                self.windows[stream] += more
        elif kind in (RST_STREAM, HEADERS) and stream in self.left:
            self.reset += kind == RST_STREAM
            del self.left[stream]
        elif kind == GOAWAY:
            self.ended = True
