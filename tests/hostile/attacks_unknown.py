"""What somebody whom a server with tenants does not know gets out of it, and can make it keep, before it says no."""

from __future__ import annotations

import os
import threading

from attack import answered, attack, refused, within
from kiln.transport import wire

REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
LIST_SERVICES = b"\x3a\x01*"
WATCH, CHECK = "/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/Check"
# As server/services/health.h has it.
WATCHES_OF_ADDRESS = 256
# Of gRPC's own, which come and go.
MORE_THREADS = 24
# What nobody is known by.
STRANGERS = ([], [("authorization", "Bearer secret-c")], [("authorization", "Basic c2VjcmV0LWE=")])


def _reflect(target, channel, metadata):
    stub = channel.stream_stream(REFLECTION)
    return target.outcome(lambda: list(stub(iter([LIST_SERVICES]), timeout=20, metadata=metadata)))


@attack(tenants=True)
def unknown_asks_for_services(target):
    """Reflection shows a stranger nothing, and a tenant what it is for."""
    channel = target.new_channel()
    for metadata in STRANGERS:
        refused(_reflect(target, channel, metadata), "NOT_AUTHENTICATED")
    shown = _reflect(target, channel, [("authorization", "Bearer " + target.token)])
    assert shown and b"kiln.v1.KernelService" in shown.answer[0], shown.error
    channel.close()


def _reflect_by_the_hundred(target, code):
    before = target.usage().threads
    channel, end = target.new_channel(), threading.Event()

    def silent():
        yield LIST_SERVICES
        end.wait()

    calls = [channel.stream_stream(REFLECTION)(silent(), timeout=60) for _ in range(200)]
    try:
        for call in calls:
            first = target.outcome(lambda c=call: next(c))
            assert first.code == code, first.error
        now = target.usage().threads
        assert now - before <= MORE_THREADS, "threads went from %d to %d" % (before, now)
        assert within(10, target.healthy)
    finally:
        end.set()
        for call in calls:
            call.cancel()
        channel.close()


@attack
def unknown_reflects_by_the_hundred_on_an_open_server(target):
    """Streams of reflection that say nothing keep no threads."""
    _reflect_by_the_hundred(target, "OK")


@attack(tenants=True)
def unknown_reflects_by_the_hundred(target):
    """With tenants they end at once."""
    _reflect_by_the_hundred(target, "NOT_AUTHENTICATED")


def _watch_by_the_thousand(target):
    """Of 1,000 watches of the server's health, an address has 256; the others are told so, and whoever only asks is
    answered."""
    channels = [target.new_channel() for _ in range(4)]
    calls = []
    try:
        open_now = 0
        for i in range(1000):
            calls.append(channels[i % 4].unary_stream(WATCH)(b"", timeout=60))
            first = target.outcome(lambda c=calls[-1]: next(c))
            open_now += bool(first)
            if not first:
                assert first.code == "OUT_OF_MEMORY" and first.error.limit == "health watches", first.error
        assert 0 < open_now <= WATCHES_OF_ADDRESS, "%d watches are open" % open_now
        asked = target.outcome(lambda: channels[0].unary_unary(CHECK)(b"", timeout=10))
        assert asked.answer == b"\x08\x01", asked.error  # SERVING
        assert within(10, target.healthy)
    finally:
        for call in calls:
            call.cancel()
        for channel in channels:
            channel.close()


attack(_watch_by_the_thousand, name="unknown_watches_health_by_the_thousand", tenants=True)
attack(_watch_by_the_thousand, name="unknown_watches_health_of_an_open_server")


@attack(tenants=True)
def unknown_asks_for_health_by_a_long_name(target):
    """Who is not known has no long names kept or looked for."""
    channel = target.new_channel()
    for size in (300, 1 << 16, 8 << 20):
        name = b"x" * size
        length = b""
        while size >= 0x80:
            length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
        request = b"\x0a" + length + bytes([size]) + name
        for call in (lambda r=request: channel.unary_unary(CHECK)(r, timeout=20),
                     lambda r=request: next(channel.unary_stream(WATCH)(r, timeout=20))):  # fmt: skip
            error = refused(target.outcome(call), "BAD_ARGUMENT", "GRAPH_TOO_LARGE")
            assert len(error.message) < 1024, error
    channel.close()


# -- Metadata: whoever is not known sends as much as anybody


def _with_metadata(name, make, codes, promise):
    def run(target):
        channel = target.new_channel()
        before = target.usage().resident
        for path in (wire.METHODS["DeviceService.List"].path, CHECK):
            stub = channel.unary_unary(path)
            for _ in range(20):
                outcome = target.outcome(lambda: within(15, lambda s=stub: s(b"", timeout=10, metadata=make())))
                assert outcome.code in codes, outcome.error or "it was taken"
                assert not outcome or path == CHECK, "a stranger was served"
        assert target.usage().resident - before < 64 << 20
        assert within(10, target.healthy)
        channel.close()

    run.__doc__ = promise
    attack(run, name="unknown_sends_metadata_" + name, tenants=True)


# Health answers whoever asks what is not too much; for the rest gRPC ends the call, or the connection.
_NO = ("NOT_AUTHENTICATED", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "OK")
_ENDED = ("RESOURCE_EXHAUSTED", "UNAVAILABLE", "INTERNAL")
for _name, _make, _codes, _promise in (
    ("of_a_few_keys", lambda: [("x-key-%d" % i, "y") for i in range(20)], ("NOT_AUTHENTICATED", "OK"), "Keys make nobody known."),
    ("of_ten_thousand_keys", lambda: [("x-key-%d" % i, "y") for i in range(10_000)], _ENDED, "The bound to all keys together is everybody's,"),
    ("of_one_key_ten_thousand_times", lambda: [("x", "y")] * 10_000, _ENDED, "also if they are the same,"),
    ("of_a_large_value", lambda: [("x", "y" * (1 << 20))], _ENDED, "to a value,"),
    ("of_large_sessions", lambda: [("kiln-session-bin", os.urandom(1 << 18))] * 4, _ENDED, "to what names a session,"),
    ("of_a_large_token", lambda: [("authorization", "Bearer " + "x" * (1 << 20))], _ENDED, "and to a token."),
    ("of_a_token_that_fits", lambda: [("authorization", "Bearer " + "x" * 6000)], _NO, "A long token is none."),
    ("of_a_hundred_tokens", lambda: [("authorization", "Bearer x%d" % i) for i in range(100)], _NO, "Nor are a hundred,"),
    ("of_dots", lambda: [("authorization", "Bearer " + "." * 6000)], _NO, "nor is one of dots,"),
    ("of_deep_claims", lambda: [("authorization", "Bearer " + "e30." + "W1tb" * 1400 + ".eA")], _NO, "nor one whose claims are lists in lists."),
):  # fmt: skip
    _with_metadata(_name, _make, _codes, _promise)


@attack(tenants=True)
def unknown_begins_streams_by_the_hundred(target):
    """Streams of a stranger end at once, whatever they would send."""
    channel = target.new_channel()
    stub = channel.stream_stream(wire.METHODS["KernelService.Submit"].path)
    for call in [stub(iter(()), timeout=20) for _ in range(200)]:
        refused(target.outcome(lambda c=call: list(c)), "NOT_AUTHENTICATED")
    answered(target.call("DeviceService.List"))
    channel.close()
