"""Calls without waiting: values against numpy, failures where they are met, one flight, no leaks."""

import asyncio
import gc
import pathlib
import sys
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import numpy as np
from proxy import Proxy

import kiln
import kiln.aio
from kiln import commands, program as programs, stream as streams
from kiln.v1 import buffer_service_pb2, session_service_pb2

RNG = np.random.default_rng(11)


def affine():
    """w @ x + b for w[8, 8], x[8], b[8]."""
    graph = kiln.Graph()
    w, x, b = (graph.param(name, shape, "float32") for name, shape in (("w", (8, 8)), ("x", (8,)), ("b", (8,))))
    graph.output(w @ x + b)
    return graph


def add_in_place(shape=(8,)):
    graph = kiln.Graph()
    x = graph.param("x", shape, "float32")
    graph.update(x, x + 1.0)
    return graph


def count_waits(client):
    """Counts how often the client waits from now on, in a list."""
    waits, connection = [], client._connection
    answered, call = connection.answered, connection.call
    connection.answered = lambda *answer: (waits.append("a command"), answered(*answer))[1]
    connection.call = lambda name, *rest: (waits.append(name), call(name, *rest))[1]
    return waits


class Streams(support.ServerTest):
    def test_a_chain_equals_numpy(self):
        program = self.client.compile(affine())
        w, x, b = (RNG.standard_normal(shape).astype(np.float32) for shape in ((8, 8), (8,), (8,)))
        weights = self.client.buffer(w)
        value, expected = self.client.buffer(x), x
        for step in range(30):
            value, expected = program(weights, value, b, out="buffers"), w @ expected + b
            if step == 20:
                value, expected = value.fill(0.5), np.full(8, 0.5, np.float32)
            if step % 10 == 9:
                np.testing.assert_allclose(value.numpy(), expected, rtol=1e-3)
                value = self.client.buffer(expected / np.abs(expected).max())
                expected = expected / np.abs(expected).max()
        self.client.fence()

    def test_what_need_not_be_waited_for_is_not(self):
        program, update = self.client.compile(affine()), self.client.compile(add_in_place())
        gc.collect()
        self.client.fence()
        waits = count_waits(self.client)
        self.addCleanup(vars(self.client._connection).pop, "answered")
        self.addCleanup(vars(self.client._connection).pop, "call")
        w = self.client.buffer(np.eye(8, dtype=np.float32))
        x = self.client.empty((8,)).fill(2)
        update(x)
        y = program(w, x, np.ones(8, np.float32), out="buffers")
        z = self.client.empty((16,)).copy_from(y, start=4)
        middle = z.view((4, 2), start=4).copy()
        y.free()
        w.free()
        self.assertEqual(waits, [])
        self.assertEqual(middle.numpy().tolist(), [[4, 4]] * 4)
        self.assertEqual(waits, ["a command"])

    def test_calls_see_what_commands_before_them_did(self):
        large = self.client.empty((1 << 20,))  # more than goes with commands
        small = large.view((8,), start=1000)
        update, whole = self.client.compile(add_in_place()), self.client.compile(add_in_place((1 << 20,)))
        for step in range(1, 4):
            update(small)
            whole(large)
            array = large.numpy()
            self.assertEqual((array[999], array[1000], array[1008]), (step, 2 * step, step))
            large.write(array)
        self.assertEqual(small.numpy().tolist(), [6] * 8)

    def test_more_than_is_kept_at_a_time(self):
        buffer, update = self.client.empty((8,)), self.client.compile(add_in_place())
        with mock.patch.object(streams, "MOST_COMMANDS", 16):
            for _ in range(500):
                update(buffer)
                self.assertLessEqual(len(self.client._connection.pipeline._stream._kept), 16)
        self.assertEqual(buffer.numpy().tolist(), [500] * 8)

    def test_the_first_failure_is_raised_where_it_is_met(self):
        program = self.client.compile(affine())
        w = self.client.buffer(np.zeros((8, 8), np.float32))
        wrong = self.client.allocate(16)  # of no type: whether it does, the server says
        b = np.zeros(8, np.float32)
        (first,) = program.run([w, wrong, b], out="buffers", tag="layer 1").results
        (second,) = program.run([w, first, b], out="buffers", tag="layer 2").results
        for use in (second.numpy, lambda: program(w, second, b), lambda: self.client.describe(first)):
            with self.assertRaises(kiln.InvalidArgument) as caught:
                use()
            self.assertEqual((caught.exception.code, caught.exception.slot), ("BUFFER_SIZE_MISMATCH", 1))
        self.assertEqual(wrong.numpy().tolist(), [0] * 16)
        self.client.fence()  # it was told
        program.run([w, wrong, b], out="buffers", tag="layer 3")
        with self.assertRaises(kiln.InvalidArgument) as caught:
            self.client.fence()
        self.assertEqual(caught.exception.tag, "layer 3")
        self.client.fence()

    def test_a_free_of_what_is_not_there_tells_nobody_and_frees_the_others(self):
        before = self.in_use()
        buffer = self.client.buffer(np.zeros(1000, np.float32))
        self.client._connection.live.discard(buffer.handle)
        request = buffer_service_pb2.FreeRequest(handle=[12345, buffer.handle, 54321])
        self.client._connection.perform("BufferService.Free", request)
        self.client.fence()
        self.client.fence()
        self.assertEqual(self.in_use(), before)

    def test_what_is_large_fails_at_once(self):
        with self.assertRaises(kiln.ResourceExhausted):
            self.client.empty((1 << 50,))
        with self.assertRaises(kiln.NotFound):
            self.client.empty((4,), device="CPU:99")

    def test_nothing_is_left(self):
        before = self.in_use()
        for _ in range(200):
            self.client.buffer(np.zeros(1000, np.float32))
        self.assertEqual(self.in_use(), before)

    def test_without(self):
        with kiln.connect(self.server.address, stream=False) as client:
            update, buffer = client.compile(add_in_place()), client.empty((8,))
            update(buffer)
            client.fence()
            self.assertEqual(buffer.numpy().tolist(), [1] * 8)
            self.assertIsNone(client._connection.pipeline._stream)

    def test_awaited(self):
        async def main():
            async with await kiln.aio.connect(self.server.address) as client:
                program, update = await client.compile(affine()), await client.compile(add_in_place())
                waits = count_waits(client)
                w = await client.buffer(np.eye(8, dtype=np.float32))
                x = await (await client.empty((8,))).fill(2)
                await update(x)
                y = await program(w, x, np.ones(8, np.float32), out="buffers")
                self.assertEqual(waits, [])
                self.assertEqual((await y.numpy()).tolist(), [4] * 8)
                wrong = await client.allocate(16)
                many = await asyncio.gather(*(program(w, x, np.full(8, n, np.float32)) for n in range(20)))
                self.assertEqual([one[0] for one in many], [3 + n for n in range(20)])
                poisoned = await program(w, wrong, x, out="buffers")
                with self.assertRaises(kiln.InvalidArgument):
                    await poisoned.numpy()
                await client.fence()  # it was told
                await program(w, wrong, x, out="buffers")
                with self.assertRaises(kiln.InvalidArgument):
                    await client.fence()

        asyncio.run(main())


class Forgotten(support.ServerTest):
    FLAGS = ("--program_cache_bytes=100000",)

    def forget_all(self):
        for size in range(9, 60):
            self.client.compile(add_in_place((size,)))

    def test_a_program_that_the_server_forgot(self):
        program, update = self.client.compile(affine()), self.client.compile(add_in_place())
        w, x, b = np.eye(8, dtype=np.float32), np.ones(8, np.float32), np.zeros(8, np.float32)
        self.forget_all()
        self.client.empty((1,))
        self.assertEqual(program(w, x, b).tolist(), [1] * 8)  # who waits is asked for the graph
        with mock.patch.object(programs, "_KNOWN", 0.0):
            program(w, x, b)
            self.forget_all()
            self.assertEqual(program(w, x, b, out="buffers").numpy().tolist(), [1] * 8)  # it went along
        buffer = self.client.buffer(x)
        self.forget_all()
        update(buffer)
        with self.assertRaises(kiln.KilnError) as caught:  # and is never silently left out
            buffer.numpy()
        self.assertEqual(caught.exception.code, "NEED_GRAPH")

    def test_one_that_lacks_its_graph_is_not_taken_for_another(self):
        update, other = self.client.compile(add_in_place()), self.client.compile(add_in_place((5,)))
        recording = self.client.record([(other, [kiln.Memory(0)])])
        for run in (lambda y: other.run([y], timing=True), lambda y: other.run([y], timeout=60.0), recording):
            x, y = self.client.empty((8,)), self.client.empty((5,))
            self.forget_all()
            self.client.compile(add_in_place((5,)))
            self.client.record([(other, [kiln.Memory(0)])])
            update(x)  # left out
            with self.assertRaises(kiln.KilnError) as caught:
                run(y)
            self.assertEqual((caught.exception.code, caught.exception.own), ("NEED_GRAPH", False))
            self.client.fence()  # it was told
            self.assertIn(y.numpy()[0], (0, 1))  # a call waits for what was before it; a command does not
            update = self.client.compile(add_in_place())

    def test_what_is_asked_for_the_graph_is_named_anew(self):
        program = self.client.compile(affine())
        w, x, b = np.eye(8, dtype=np.float32), np.ones(8, np.float32), np.zeros(8, np.float32)
        before = self.in_use()
        self.forget_all()
        run = program.run([w, x, b], out="buffers", timing=True)
        self.assertEqual(run.results[0].numpy().tolist(), [1] * 8)
        del run
        self.client.fence()
        self.assertEqual(self.in_use(), before)


class Distance(support.ServerTest):
    def test_a_chain_is_one_round_trip(self):
        """Of 30 ms, so less than two would take however slow this machine is at times."""
        proxy = Proxy(self.server.port, delay=0.015)
        self.addCleanup(proxy.close)
        with kiln.connect(proxy.address) as client:
            program = client.compile(affine())
            w, x, b = np.eye(8, dtype=np.float32), np.arange(8, dtype=np.float32), np.ones(8, np.float32)
            best = 1.0
            for _ in range(10):
                begin = time.perf_counter()
                y = program(client.buffer(w), client.buffer(x), b, out="buffers").numpy()
                best = min(best, time.perf_counter() - begin)
                self.assertEqual(y.tolist(), (x + 1).tolist())
            self.assertGreaterEqual(best, 0.030)
            self.assertLess(best, 0.060)


class Lost(support.ServerTest):
    """The connection goes through a proxy that cuts it."""

    def setUp(self):
        self.proxy = Proxy(self.server.port)
        self.addCleanup(self.proxy.close)

    def test_each_command_runs_once(self):
        with kiln.connect(self.proxy.address) as client:
            update, buffer, copies = client.compile(add_in_place()), client.empty((8,)), []
            for step in range(60):
                for _ in range(20):
                    update(buffer)
                copies.append(buffer.copy())
                if step % 20 == 10:
                    self.proxy.cut()
            self.assertEqual(buffer.numpy().tolist(), [1200] * 8)
            for step, copy in enumerate(copies):
                self.assertEqual(copy.numpy().tolist(), [20 * (step + 1)] * 8)
            client.fence()

    def test_an_answer_that_was_on_its_way_comes_again(self):
        with kiln.connect(self.proxy.address, shared_memory=False) as client:
            array = RNG.integers(0, 256, 1 << 20, dtype=np.uint8)
            buffer = client.buffer(array)
            client.fence()
            self.proxy.cut_after(300_000)  # of what the server sends
            buffer.fill(array[0], 0, 1)
            np.testing.assert_array_equal(buffer.numpy(), array)
            self.assertEqual(self.proxy.cuts, 1)

    def test_who_waits_does_not_notice(self):
        with kiln.connect(self.proxy.address) as client:
            program, x = client.compile(affine()), client.buffer(np.arange(8, dtype=np.float32))
            for _ in range(5):
                client.fence()
                self.proxy.cut()
                self.assertEqual(x.numpy().tolist(), list(range(8)))
                self.proxy.cut()
                y = program(np.eye(8, dtype=np.float32), x, np.ones(8, np.float32))
                self.assertEqual(y.tolist(), list(range(1, 9)))

    def test_awaited(self):
        async def main():
            async with await kiln.aio.connect(self.proxy.address) as client:
                update, buffer = await client.compile(add_in_place()), await client.empty((8,))
                for step in range(100):
                    await update(buffer)
                    if step == 50:
                        self.proxy.cut()
                self.assertEqual((await buffer.numpy()).tolist(), [100] * 8)

        asyncio.run(main())

    def close_behind(self, client):
        token = client._connection.session.token
        self.client._connection.call("SessionService.Close", session_service_pb2.CloseSessionRequest(token=token))

    def test_a_stream_that_ends_while_its_session_lives(self):
        with kiln.connect(self.proxy.address, timeout=60.0) as client:
            buffers = [client.buffer(np.full(8, n, np.float32)) for n in range(8)]
            self.assertEqual([buffer.numpy()[0] for buffer in buffers], list(range(8)))
            buffers[0].fill(9)  # which nobody waits for
            connection, stream = client._connection, client._connection.pipeline._stream
            taking = connection.stub("KernelService.Submit", raw_request=True)
            other = taking(iter([commands.hello(0)]), metadata=connection.session.metadata)
            list(other)
            self.assertTrue(support.eventually(lambda: stream.ended is not None))
            with self.assertRaises(kiln.KilnError) as caught:
                buffers[0].fill(9)
            self.assertEqual(caught.exception.code, "SESSION_BUSY")
            for n, buffer in reversed(list(enumerate(buffers))):
                self.assertEqual(buffer.fill(n + 10).numpy()[0], n + 10)
            self.assertIsNot(connection.pipeline._stream, stream)

    def test_a_session_that_has_expired(self):
        with kiln.connect(self.proxy.address, lease=3600) as client:
            update, buffer = client.compile(add_in_place()), client.empty((8,))
            client.fence()
            self.proxy.stop()
            update(buffer)
            self.close_behind(client)
            self.proxy.go_on()
            with self.assertRaises(kiln.KilnError) as caught:
                buffer.numpy()
            self.assertEqual(caught.exception.code, "SESSION_EXPIRED")
            with self.assertRaises(kiln.NotFound):  # in the new one
                buffer.numpy()
            fresh = client.empty((8,))
            update(fresh)
            self.assertEqual(fresh.numpy().tolist(), [1] * 8)

    def test_who_holds_nothing_does_not_notice(self):
        with kiln.connect(self.proxy.address, lease=3600) as client:
            update = client.compile(add_in_place())
            client.empty((8,)).free()
            client.fence()
            self.close_behind(client)
            stream = client._connection.pipeline._stream
            self.assertTrue(support.eventually(lambda: stream.ended is not None))
            fresh = client.empty((8,))
            update(fresh)
            self.assertEqual(fresh.numpy().tolist(), [1] * 8)

    def test_a_server_that_does_not_come_back(self):
        client = kiln.connect(self.proxy.address, lease=1)
        buffer = client.empty((8,))
        client.fence()
        self.proxy.close()
        buffer.fill(1)
        with self.assertRaises(kiln.Unavailable):
            buffer.numpy()
        client.close()


if __name__ == "__main__":
    unittest.main()
