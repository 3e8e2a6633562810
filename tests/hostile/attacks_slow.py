"""Connections that begin and do not end: requests in halves, answers that nobody takes."""

from __future__ import annotations

import socket
import struct

from attack import attack, within
from attacks_wire import CONTINUATION, DATA, HEADERS, PING, PREFACE, SETTINGS, frame
from kiln.v1 import buffer_service_pb2

ACK, END_STREAM, END_HEADERS = 1, 1, 4
MIB = 1 << 20
NO_WINDOW = struct.pack(">HI", 4, 0)


def _literal(name, value):
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def _request(path, stream, flags=0):
    """The headers of a call of gRPC, in HPACK without a table."""
    block = b"\x83\x86" + b"".join(_literal(*each) for each in (
        (b":path", path), (b":authority", b"x"), (b"te", b"trailers"), (b"content-type", b"application/grpc")))  # fmt: skip
    return frame(HEADERS, block, END_HEADERS | flags, stream)


def _message(data, length=None):
    return b"\0" + struct.pack(">I", len(data) if length is None else length) + data


def _send(connection, data):
    """How many of the bytes the other side took before it hung up, or stopped reading for a second."""
    connection.settimeout(1)
    sent = 0
    try:
        while sent < len(data):
            sent += connection.send(data[sent : sent + MIB])
    except OSError:
        pass
    return sent


def _until_heard(connection):
    """Until the server has read all that was sent: it answers to a ping in its turn."""
    connection.settimeout(10)
    connection.sendall(frame(PING, b"heard it"))
    answer, wanted = b"", frame(PING, b"heard it", ACK)
    while wanted not in answer:
        part = connection.recv(1 << 16)
        assert part, "it hung up: %r" % answer[-100:]
        answer += part


@attack
def answers_without_a_window(target):
    """Answers to a window of nothing wait, bounded, and go with their connection."""
    with target.connect() as connection:
        requests = b"".join(_request(b"/grpc.health.v1.Health/Check", 2 * i + 1) + frame(DATA, _message(b""), END_STREAM, 2 * i + 1)
                            for i in range(200))  # fmt: skip
        _send(connection, PREFACE + frame(SETTINGS, NO_WINDOW) + requests)
        _until_heard(connection)
        within(10, target.healthy)


@attack
def answers_to_pings_that_are_not_read(target):
    """Who does not read the answers to pings and settings is not owed them without end."""
    with target.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        _send(connection, PREFACE + frame(SETTINGS) + (frame(PING, b"12345678") + frame(SETTINGS)) * 200_000)
        within(10, target.healthy)


@attack
def requests_in_halves(target):
    """A message of four gigabytes that was announced is not waited for with memory."""
    before = target.usage().resident
    with target.connect() as connection:
        _send(connection, PREFACE + frame(SETTINGS) + b"".join(
            _request(b"/kiln.v1.KernelService/Compile", 2 * i + 1) + frame(DATA, _message(b"\x0a", 0xFFFFFFF0), 0, 2 * i + 1)
            for i in range(100)))  # fmt: skip
        _until_heard(connection)
        within(10, target.healthy)
        assert target.usage().resident - before < 256 * MIB


@attack
def requests_without_an_end(target):
    """Calls whose client says nothing more hold up nobody, and end with its connection."""
    with target.connect() as connection:
        _send(connection, PREFACE + frame(SETTINGS)
              + b"".join(_request(b"/kiln.v1.KernelService/Execute", 2 * i + 1) for i in range(100)))  # fmt: skip
        _until_heard(connection)
        within(10, target.healthy)


@attack
def uploads_that_stop(target):
    """An upload that stops gives its buffer back when its connection ends."""
    before = target.device_memory()
    handle = target.allocate(64)
    header = buffer_service_pb2.WriteRequest()
    header.header.buffer.handle, header.header.bytes = handle, 64
    with target.connect() as connection:
        _send(connection, PREFACE + frame(SETTINGS) + b"".join(
            _request(b"/kiln.v1.BufferService/Write", 2 * i + 1)
            + frame(DATA, _message(header.SerializeToString()), 0, 2 * i + 1) for i in range(50)))  # fmt: skip
        _until_heard(connection)
        within(10, target.healthy)
    target.free(handle)
    assert target.gives_back_to(before)


@attack
def prefaces_byte_by_byte(target):
    """However slowly it comes, a preface is one, and a request behind it is answered."""
    with target.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in PREFACE + frame(SETTINGS) + _request(b"/grpc.health.v1.Health/Check", 1) + frame(DATA, _message(b""), END_STREAM, 1):
            connection.sendall(bytes([byte]))
        connection.settimeout(10)
        answer = b""
        while b"\0\0\0\0\2\x08\1" not in answer:  # a message of two bytes: SERVING
            part = connection.recv(1 << 16)
            assert part, answer
            answer += part


@attack(hole="Host memory: endless headers")
def headers_without_an_end(target):
    """A block of headers has a bound, and its connection ends there."""
    with target.connect() as connection:
        _send(connection, PREFACE + frame(SETTINGS) + frame(HEADERS, b"\x83\x86", 0, 1))
        block = frame(CONTINUATION, _literal(b"x", b"y" * 100) * 150, 0, 1)
        data = block * (64 * MIB // len(block))
        assert _send(connection, data) < len(data), "64 MiB of headers were taken"
