"""Handles are given back also where a Free fails, and each once."""

import asyncio
import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import grpc
from fake_server import FakeBuffers, unavailable, without_session

import kiln
import kiln.aio
from kiln.transport import aio_connection, reaper

COUNT = 3
FEW = set(range(1, COUNT + 1))


class Frees(unittest.TestCase):
    def setUp(self):
        self.server = FakeBuffers()
        self.addCleanup(self.server.server.stop, None)
        self.addCleanup(self.server.open.set)

    def connect(self):
        client = kiln.connect(self.server.address)
        self.addCleanup(client.close)
        return client

    def test_a_free_that_failed_is_tried_again_with_the_next(self):
        client = self.connect()
        buffers = [client.allocate(8) for _ in FEW]
        self.server.down = unavailable
        buffers.clear()
        client.flush_frees()
        self.assertEqual(self.server.held, FEW)
        self.server.down = None
        client.flush_frees()
        self.assertEqual((self.server.held, client._connection.live), (set(), set()))
        self.assertEqual(self.server.frees[-1], FEW)

    def test_a_free_that_failed_is_tried_again_after_some_time(self):
        with mock.patch.object(reaper, "AGAIN", 0.01):
            client = self.connect()
            buffer = client.allocate(8)
            self.server.down = unavailable
            del buffer
            client.flush_frees()
            self.server.down = None
            self.assertTrue(self.server.empty.wait(60))

    def test_one_unknown_handle_keeps_no_other(self):
        client = self.connect()
        buffers = [client.allocate(8) for _ in FEW]
        self.server.held.discard(2)
        client.close()  # frees all in one call
        self.assertEqual(self.server.frees, [FEW, FEW - {2}])
        self.assertEqual(self.server.held, set())
        del buffers

    def test_what_went_with_the_session_is_not_asked_for_again(self):
        client = self.connect()
        buffers = [client.allocate(8) for _ in FEW]
        self.server.down = without_session
        client.close()
        self.assertEqual((self.server.frees, client._connection.live), ([FEW], set()))
        del buffers

    def test_a_free_by_hand_that_failed_is_made_good(self):
        client = self.connect()
        buffer = client.allocate(8)
        self.server.down = unavailable
        with self.assertRaises(kiln.Unavailable):
            buffer.free()
        client.flush_frees()
        self.assertEqual(self.server.held, {1})
        self.server.down = None
        client.flush_frees()
        self.assertEqual((self.server.held, client._connection.live), (set(), set()))

    def test_many_go_in_several_calls(self):
        calls = []

        def free(handles):
            calls.append(len(handles))
            if len(calls) == 2:
                raise OSError("once")

        self.assertEqual(reaper._free_all(free, list(range(2500))), list(range(1024, 2500)))
        self.assertEqual(reaper._free_all(free, list(range(1024, 2500))), [])
        self.assertEqual(calls, [1024, 1024, 1024, 452])


class Awaited(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.server = FakeBuffers()
        self.addCleanup(self.server.server.stop, None)
        self.addCleanup(self.server.open.set)
        self.client = await kiln.aio.connect(self.server.address)
        self.connection = self.client._connection
        self.addAsyncCleanup(self.client.close)
        self.loop = asyncio.get_running_loop()

    async def wait_for(self, event):
        self.assertTrue(await self.loop.run_in_executor(None, event.wait, 60))

    async def test_a_free_that_failed_is_tried_again_with_the_next(self):
        buffers = [await self.client.allocate(8) for _ in FEW]
        self.server.down = unavailable
        buffers.clear()
        await self.client.flush_frees()
        self.assertEqual(self.server.held, FEW)
        self.server.down = None
        await self.client.flush_frees()
        self.assertEqual((self.server.held, self.connection.live), (set(), set()))
        self.assertEqual(self.server.frees[-1], FEW)

    async def test_a_free_that_failed_is_tried_again_after_some_time(self):
        with mock.patch.object(aio_connection, "AGAIN", 0.01):
            buffer = await self.client.allocate(8)
            self.server.down = unavailable
            del buffer
            await self.client.flush_frees()
            self.server.down = None
            await self.wait_for(self.server.empty)

    async def test_one_unknown_handle_keeps_no_other(self):
        buffers = [await self.client.allocate(8) for _ in FEW]
        self.server.held.discard(2)
        await self.client.close()
        self.assertEqual(self.server.frees, [FEW, FEW - {2}])
        self.assertEqual(self.server.held, set())
        del buffers

    async def test_a_free_by_hand_that_failed_is_made_good(self):
        buffer = await self.client.allocate(8)
        self.server.down = unavailable
        with self.assertRaises(kiln.Unavailable):
            await buffer.free()
        await self.client.flush_frees()
        self.assertEqual(self.server.held, {1})
        self.server.down = None
        await self.client.flush_frees()
        self.assertEqual((self.server.held, self.connection.live), (set(), set()))

    async def test_a_handle_dropped_while_others_are_taken(self):
        first, second = await self.client.allocate(8), await self.client.allocate(8)
        flush = self.client.flush_frees
        loop = self.loop

        class Interrupted(type(self.connection._dropped)):
            """The loop takes what is there just before a destructor, in another thread, adds to it."""

            def append(self, handle):
                asyncio.run_coroutine_threadsafe(flush(), loop).result()
                super().append(handle)

        self.connection._dropped = Interrupted([first.handle])
        await loop.run_in_executor(None, self.connection.free_later, second.handle)
        await flush()
        self.assertEqual(self.server.frees, [{1}, {2}])
        self.assertEqual(self.server.held, set())

    async def test_closed_twice_at_once(self):
        kept = await self.client.allocate(8)
        self.server.open.clear()
        first = asyncio.ensure_future(self.client.close())
        await self.wait_for(self.server.asked)
        await self.client.close()
        self.assertNotEqual(self.connection.channel.get_state(), grpc.ChannelConnectivity.SHUTDOWN)
        with self.assertRaises(kiln.FailedPrecondition):
            await kept.numpy()
        self.server.open.set()
        await first
        self.assertEqual((self.server.frees, self.server.held), ([{1}], set()))

    async def test_closing_is_cancelled(self):
        kept = await self.client.allocate(8)
        self.server.open.clear()
        closing = asyncio.ensure_future(self.client.close())
        await self.wait_for(self.server.asked)
        closing.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await closing
        self.assertIs(self.connection.channel.get_state(), grpc.ChannelConnectivity.SHUTDOWN)
        with self.assertRaises(ValueError):
            self.connection._session_channel.unary_unary("/a/call")(b"")
        with self.assertRaises(kiln.FailedPrecondition):
            await kept.numpy()


if __name__ == "__main__":
    unittest.main()
