"""Connections whose other end says nothing more: who waits on one is told, and no server is asked oftener than it allows."""

import asyncio
import pathlib
import sys
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import streams_test
import grpc
import grpc.aio
from proxy import Proxy
from streams_test import WAIT, X, FakeModels

import kiln
import kiln.aio
from kiln.transport import wire

# The least time between pings, with nothing in between, for which a server of gRPC's ends no connection.
ALLOWED = 300_000


def soon():
    """Connections are asked soon, and must answer soon, in all of gRPC's releases; other pings, which measure, are none."""
    options = (*wire.CHANNEL_OPTIONS, ("grpc.http2.bdp_probe", 0), ("grpc.http2.ping_timeout_ms", 300))
    return mock.patch.multiple(wire, CHANNEL_OPTIONS=options, MAX_KEEPALIVE_TIME=0.3, MIN_KEEPALIVE_TIME=0.3,
                               KEEPALIVE_TIMEOUT=0.3)  # fmt: skip


class Silence(unittest.TestCase):
    def setUp(self):
        server = FakeModels(streams_test.silent)
        self.addCleanup(lambda: server.server.stop(None).wait())
        self.proxy = Proxy(server.port)
        self.addCleanup(self.proxy.close)

    def test_who_waits_without_a_timeout_is_told(self):
        with soon(), kiln.connect(self.proxy.address) as client:
            with client.model("m").stream() as stream:
                answer = stream.infer(X)
                self.proxy.delay = 3600
                self.assertIsInstance(answer.exception(WAIT), kiln.ConnectionLost)

    def test_who_waits_without_a_timeout_is_told_by_aio(self):
        async def main():
            async with await kiln.aio.connect(self.proxy.address) as client:
                async with (await client.model("m")).stream() as stream:
                    asked = asyncio.ensure_future(stream.infer(X))
                    await asyncio.sleep(0)
                    self.proxy.delay = 3600
                    with self.assertRaises(kiln.ConnectionLost):
                        await asyncio.wait_for(asked, WAIT)

        with soon():
            asyncio.run(main())


class Figures(unittest.TestCase):
    def test_a_connection_is_asked_after_longer_than_its_session_is_silent(self):
        for lease, millis in ((0, 310_000), (1, 20_000), (30, 20_000), (100, 50_000), (3600, 310_000)):
            options = dict(wire.options_of(lease))
            self.assertEqual((options["grpc.keepalive_time_ms"], options["grpc.keepalive_timeout_ms"]), (millis, 10_000))
            self.assertEqual(options["grpc.http2.max_pings_without_data"], 0)
            self.assertNotIn("grpc.keepalive_permit_without_calls", options)
            # Answers to renewals come between two pings, or the pings are as seldom as a server wants.
            self.assertTrue(lease and lease * 1000 / 3 < millis or millis > ALLOWED)

    def test_what_renews_no_session_is_asked_seldom(self):
        found = []

        def noted(kind):
            make = kind.insecure_channel
            return mock.patch.object(kind, "insecure_channel", side_effect=lambda target, options: (
                found.append(dict(options)["grpc.keepalive_time_ms"]), make(target, options))[1])  # fmt: skip

        async def main():
            async with await kiln.aio.connect(server.address, lease=100):
                pass

        server = FakeModels(streams_test.silent)
        self.addCleanup(lambda: server.server.stop(None).wait())
        with noted(grpc), noted(grpc.aio):
            kiln.connect(server.address, lease=100).close()
            kiln.connect(server.address, lease=0).close()
            asyncio.run(main())
        self.assertEqual(found, [50_000, 310_000, 50_000, 310_000])


if __name__ == "__main__":
    unittest.main()
