"""Messages that are no messages, and connections that are no HTTP/2."""

from __future__ import annotations

import os
import random
import struct

from attack import DTYPES, answered, attack, doubled, refused, within
from kiln.transport import wire
from kiln.v1 import kernel_service_pb2

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

UNARY = sorted(name for name, method in wire.METHODS.items() if not method.streams_in and not method.streams_out)


def frame(kind, payload=b"", flags=0, stream=0, length=None):
    size = len(payload) if length is None else length
    return struct.pack(">I", size)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def varint(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, kind, payload):
    return varint(number << 3 | kind) + payload


def length_delimited(number, payload):
    return field(number, 2, varint(len(payload)) + payload)


def _message(name, data, promise):
    def run(target):
        for method in UNARY:
            answered(target.raw(method, data))

    run.__doc__ = promise
    attack(run, name="message_" + name)


for _name, _data, _promise in (
    ("of_nothing", b"", "An empty message is one with defaults."),
    ("of_zeros", b"\0" * 4096, "Field 0 is none."),
    ("of_ones", b"\xff" * 4096, "A number without an end is none."),
    ("cut_in_a_length", b"\x0a\xff\xff\xff\xff\x07", "A length beyond the message is not believed."),
    ("cut_in_a_number", b"\x08\x80", "A number that is cut off is none."),
    ("with_groups", b"\x0b" * 20_000, "Groups upon groups are no recursion."),
    ("of_unknown_fields", field(5000, 0, b"\1") * 50_000, "Unknown fields are counted."),
    ("of_strings_that_are_not_utf8", length_delimited(2, b"\xff\xfe\0\xc0\x80"), "A string is UTF-8, or refused."),
    ("of_wrong_kinds", field(1, 5, b"\0\0\0\0") + field(2, 1, b"\0" * 8), "A field of another kind is unknown."),
    ("of_messages_in_messages", b"", "Nesting has an end."),
):
    if _name.startswith("of_messages_in"):
        for _ in range(300):
            _data = length_delimited(1, _data)
    _message(_name, _data, _promise)


@attack
def message_damaged_at_random(target):
    """A damaged request is answered: 1,000 of them, each with some bytes changed."""
    seed = random.Random(7)
    request = kernel_service_pb2.ExecuteRequest(graph=doubled(), device="CPU:0", want_timing=True)
    argument = request.arguments.add(slot=0)
    argument.tensor.dtype, argument.tensor.data = DTYPES["float32"], b"\0" * 32
    argument.tensor.shape.append(8)
    good = request.SerializeToString()
    for _ in range(1000):
        data = bytearray(good)
        for _ in range(seed.randrange(1, 6)):
            data[seed.randrange(len(data))] = seed.randrange(256)
        answered(target.raw("KernelService.Execute", bytes(data)))


@attack
def message_cut_at_each_byte(target):
    """A request that ends too early is answered."""
    good = kernel_service_pb2.CompileRequest(graph=doubled(), device="CPU:0").SerializeToString()
    for size in range(len(good)):
        answered(target.raw("KernelService.Compile", good[:size]))


@attack
def message_of_random_bytes(target):
    """Noise is answered, whatever the RPC."""
    seed = random.Random(11)
    for method in UNARY:
        for size in (1, 7, 100, 5000):
            answered(target.raw(method, bytes(seed.randrange(256) for _ in range(size))))


@attack
def message_too_long(target):
    """A message longer than the server takes is refused before it is kept."""
    refused(target.raw("KernelService.Compile", b"\0" * (200 << 20)),
            "RESOURCE_EXHAUSTED", "GRAPH_TOO_LARGE", "MALFORMED_MESSAGE")  # fmt: skip


@attack
def method_that_is_none(target):
    """A method that is not there is UNIMPLEMENTED."""
    for path in ("/kiln.v1.KernelService/Nothing", "/", "/kiln.v1.KernelService/", "/../etc/passwd", "/" + "a" * 4000):
        stub = target.channel.unary_unary(path)
        assert target.outcome(lambda stub=stub: stub(b"", timeout=10)).code == "UNIMPLEMENTED"


def _bytes_sent(name, data, promise):
    def run(target):
        with target.connect() as connection:
            try:
                connection.sendall(data)
                connection.shutdown(1)
                while connection.recv(1 << 16):
                    pass
            except OSError:  # it hung up: as good
                pass

    run.__doc__ = promise
    attack(run, name="connection_" + name)


for _name, _data, _promise in (
    ("of_noise", bytes(range(256)) * 64, "What is no HTTP/2 is hung up on."),
    ("of_http1", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1 is hung up on."),
    ("of_tls", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500, "So is TLS, where the port has none."),
    ("of_a_preface_alone", PREFACE, "A connection that says no more ends with its client."),
    ("with_a_frame_too_long", PREFACE + frame(SETTINGS) + frame(DATA, b"x", 0, 1, length=0xFFFFFF), "A length is bounded."),
    ("with_settings_of_odd_length", PREFACE + frame(SETTINGS, b"\0" * 7), "Settings are six bytes each."),
    ("with_settings_at_their_ends", PREFACE + frame(SETTINGS, struct.pack(">HIHI", 4, 0xFFFFFFFF, 5, 0)), "A window has an end."),
    ("with_a_window_that_overflows", PREFACE + frame(SETTINGS) + frame(WINDOW_UPDATE, b"\x7f\xff\xff\xff") * 4, "A window does not go round."),
    ("with_data_of_no_stream", PREFACE + frame(SETTINGS) + frame(DATA, b"x" * 100, 0, 77), "Data belong to a stream."),
    ("with_headers_of_noise", PREFACE + frame(SETTINGS) + frame(HEADERS, bytes(range(255, 0, -1)), 5, 1), "HPACK that is none ends it."),
    ("with_a_table_of_four_gigabytes", PREFACE + frame(SETTINGS, struct.pack(">HI", 1, 0xFFFFFFFF)) + frame(HEADERS, b"\x3f\xe1\xff\xff\xff\x0f", 5, 1), "HPACK's table is bounded."),
    ("with_a_push", PREFACE + frame(SETTINGS) + frame(PUSH, b"\0\0\0\2", 4, 1), "Clients push nothing."),
    ("with_pings", PREFACE + frame(SETTINGS) + frame(PING, b"12345678") * 20_000, "Pings by the thousand end a connection, or are answered."),
    ("with_resets", PREFACE + frame(SETTINGS) + b"".join(frame(HEADERS, b"\x83\x86\x44\x01/\x41\x01x", 4, 2 * i + 1) + frame(RST_STREAM, b"\0\0\0\x08", 0, 2 * i + 1) for i in range(20_000)), "Streams that are opened and reset by the thousand leave nothing."),
    ("with_empty_frames", PREFACE + frame(SETTINGS) + frame(HEADERS, b"\x83\x86\x44\x01/\x41\x01x", 0, 1) + frame(CONTINUATION, b"", 0, 1) * 10_000, "Empty frames come to an end."),
    ("with_priorities", PREFACE + frame(SETTINGS) + b"".join(frame(PRIORITY, struct.pack(">IB", 2 * i + 3, 7), 0, 2 * i + 1) for i in range(10_000)), "Priorities keep nothing."),
    ("that_says_good_bye", PREFACE + frame(SETTINGS) + frame(GOAWAY, b"\0" * 8) * 100, "A GOAWAY may come often."),
):  # fmt: skip
    _bytes_sent(_name, _data, _promise)


@attack
def connections_half_open(target):
    """Who connects and says nothing holds a descriptor until it goes."""
    held = [target.connect() for _ in range(40)]
    within(10, target.healthy)
    for connection in held:
        connection.close()


@attack
def connections_that_send_a_byte(target):
    """Half a preface is kept for no one else."""
    held = [target.connect() for _ in range(40)]
    for connection in held:
        connection.sendall(PREFACE[:7])
    within(10, target.healthy)
    for connection in held:
        connection.close()


@attack
def metadata_by_the_hundred(target):
    """Metadata are bounded."""
    stub = wire.stub(target.channel, "DeviceService.List")
    request = wire.METHODS["DeviceService.List"].request()
    for metadata in ([("k%d" % i, "v" * 100) for i in range(200)], [("big", "v" * 100_000)], [("bin-bin", os.urandom(4000))],
                     [("kiln-session-bin", os.urandom(5000))], [("authorization", "Bearer " + "x" * 7000)]):  # fmt: skip
        outcome = target.outcome(lambda m=metadata: stub(request, timeout=20, metadata=m))
        # gRPC itself may end the connection.
        assert outcome.code not in ("INTERNAL_FAULT", "INTERNAL", "UNKNOWN"), outcome.error


@attack
def streams_by_the_hundred(target):
    """Streams that say nothing hold little, and go with their channel."""
    channel = target.new_channel()
    stub = wire.stub(channel, "KernelService.Submit")
    calls = [stub(iter(()), timeout=20) for _ in range(100)]
    within(10, target.healthy)
    for call in calls:
        call.cancel()
    channel.close()
