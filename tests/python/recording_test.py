"""Recordings: values against numpy, what is refused, what the server forgets."""

import asyncio
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import graphs
import numpy as np

import kiln
from kiln import Integer, Memory, aio

RNG = np.random.default_rng(7)
N = 64


def dense():
    """y[8] = w[8, 8] @ x[8], then y = max(y, 0)."""
    graph = kiln.Graph()
    y, w, x = (graph.param(name, shape, "float32") for name, shape in (("y", (8,)), ("w", (8, 8)), ("x", (8,))))
    graph.update(y, kiln.maximum(w @ x, 0.0))
    return graph


def row_sums():
    """out[4] = the sum of the first n rows of table[10, 4]."""
    graph = kiln.Graph()
    n = graph.variable("n", 1, 10)
    table, out = graph.param("table", (10, 4), "float32"), graph.param("out", (4,), "float32")
    graph.update(out, table[:n].sum(axis=0))
    return graph


class Recordings(support.ServerTest):
    def refused(self, code, attempt, field=None):
        with self.assertRaises(kiln.KilnError) as caught:
            attempt()
        self.assertEqual((caught.exception.code, caught.exception.field), (code, field), str(caught.exception))
        return caught.exception

    def test_a_network_of_one_memory(self):
        # Weights in one buffer, what lies between the layers in another.
        program = self.client.compile(dense())
        weights = RNG.standard_normal((5, 8, 8)).astype(np.float32)
        steps = [(program, {"y": Memory(1, 32 * (i + 1)), "w": Memory(0, 256 * i), 2: Memory(1, 32 * i)}) for i in range(5)]
        recording = self.client.record(steps)
        self.assertEqual([(b.bytes, b.alignment, b.written) for b in recording.buffers], [(1280, 4, False), (192, 4, True)])
        self.assertEqual((recording.integers, recording.launches), (0, 5 * program.kernels))
        self.assertIn("5 calls, 2 buffers", repr(recording))
        w = self.client.buffer(weights)
        for _ in range(3):
            x = RNG.standard_normal(8).astype(np.float32)
            between = self.client.allocate(8 + 192)
            between.write_bytes(x.tobytes(), 8)
            before = self.client.traffic["KernelService.ReplaySequence"].calls if _ else 0
            recording(w, kiln.At(between, 8))
            self.assertEqual(self.client.traffic["KernelService.ReplaySequence"].calls, before + 1)
            found = np.frombuffer(between.numpy().tobytes()[8:], np.float32).reshape(6, 8)
            for i in range(5):
                x = np.maximum(weights[i].astype(np.float64) @ x, 0)
                np.testing.assert_allclose(found[i + 1], x, rtol=1e-5, atol=1e-5)
        self.assertGreater(recording.run([w, between], timing=True).total_us, 0)

    def test_integers_come_with_each_replay(self):
        program = self.client.compile(row_sums())
        recording = self.client.record([
            (program, {"table": Memory(0), "out": Memory(1), "n": Integer(0)}),
            (program, {"table": Memory(0), "out": Memory(1, 16), "n": Integer(1)}),
            (program, {"table": Memory(0), "out": Memory(1, 32), "n": 3}),
        ])  # fmt: skip
        table = np.arange(40, dtype=np.float32).reshape(10, 4)
        t, out = self.client.buffer(table), self.client.empty((3, 4))
        for first, second in ((1, 10), (7, 2)):
            recording(t, first, out, np.int64(second))
            self.assertEqual(out.numpy().tolist(), [table[:n].sum(0).tolist() for n in (first, second, 3)])
        self.refused("BAD_ARGUMENT", lambda: recording(t, out, 1, 11), "steps[1]")
        # What a refused replay would have written is poisoned.
        self.refused("BAD_ARGUMENT", lambda: out.numpy(), "steps[1]")
        self.refused("MISSING_ARGUMENT", lambda: recording(t, self.client.empty((3, 4)), 1))
        bad = [(program, {"table": Memory(0), "out": Memory(1), "n": 11})]
        self.refused("BAD_ARGUMENT", lambda: self.client.record(bad), "steps[0]")

    def test_the_same_is_one_recording(self):
        program = self.client.compile(graphs.update())
        steps = [(program, [Memory(0), Memory(1)])]
        first = self.client.record(steps)
        self.assertEqual(self.client.record([(self.client.compile(graphs.update()), {1: Memory(1), 0: Memory(0)})]).hash,
                         first.hash)  # fmt: skip
        self.assertNotEqual(self.client.record(steps * 2).hash, first.hash)
        with kiln.connect(self.server.address) as other:
            x, y = other.buffer([1, 2, 3, 4], "float32"), other.buffer([5, 6, 7, 8], "float32")
            other.record([(other.compile(graphs.update()), [Memory(0), Memory(1)])])(x, y)
            self.assertEqual(x.numpy().tolist(), [6, 8, 10, 12])
            self.refused("UNKNOWN_HANDLE", lambda: first(x, y), "buffers[0]")

    def test_what_cannot_be(self):
        update, add = self.client.compile(graphs.update()), self.client.compile(graphs.elementwise("ADD"))
        good = (update, [Memory(0), Memory(1)])
        record = self.client.record
        self.refused("BAD_ARGUMENT", lambda: record([]))
        self.refused("BAD_ARGUMENT", lambda: record([good, (add, [Memory(0), Memory(1)])]), "steps[1]")
        self.refused("BAD_ARGUMENT", lambda: record([good, (update, [Memory(0), Memory(0, 12)])]), "steps[1]")
        self.refused("MISSING_ARGUMENT", lambda: record([good, (update, [Memory(0)])]), "steps[1]")
        self.refused("UNKNOWN_ARGUMENT", lambda: record([good, (update, {0: Memory(0), 1: Memory(1), 2: Memory(1)})]),
                     "steps[1]")  # fmt: skip
        self.refused("BAD_ARGUMENT", lambda: record([good, (update, {0: Memory(0), 1: 5})]), "steps[1]")
        recording = record([good])
        small, ints = self.client.empty((3,)), self.client.empty((4,), "int32")

        def fresh():  # for what a refused replay would have written is poisoned
            return self.client.empty((4,))

        self.refused("MISSING_ARGUMENT", lambda: recording(fresh()))
        self.refused("UNKNOWN_ARGUMENT", lambda: recording(fresh(), fresh(), fresh()))
        self.refused("BUFFER_SIZE_MISMATCH", lambda: recording(fresh(), small), "buffers[1]")
        x = fresh()
        self.refused("BAD_ARGUMENT", lambda: recording(x, x), "steps[0]")
        self.refused("BAD_ARGUMENT", lambda: recording(fresh(), np.zeros(4, np.float32)))
        recording(fresh(), ints)  # a recording's memory is bytes
        small.free()
        self.refused("UNKNOWN_HANDLE", lambda: recording(fresh(), small))


class Forgotten(unittest.TestCase):
    def test_is_recorded_again_once(self):
        server = support.Server("--program_cache_bytes=100000")
        self.addCleanup(server.stop)
        with kiln.connect(server.address) as client:
            recording = client.record([(client.compile(graphs.update()), [Memory(0), Memory(1)])] * 2)
            x, y = client.buffer([1, 2, 3, 4], "float32"), client.buffer([1, 1, 1, 1], "float32")
            for size in range(5, 60):
                client.record([(client.compile(graphs.update(shape=(size,))), [Memory(0), Memory(1)])])
            calls = {name: row.calls for name, row in client.traffic.items()}
            recording(x, y)
            self.assertEqual(x.numpy().tolist(), [3, 4, 5, 6])
            self.assertGreater(client.traffic["KernelService.Compile"].calls, calls["KernelService.Compile"])
            self.assertGreater(client.traffic["KernelService.RecordSequence"].calls, calls["KernelService.RecordSequence"])
            recording(x, y)
            self.assertEqual(x.numpy().tolist(), [5, 6, 7, 8])


class Awaited(unittest.TestCase):
    def test_a_recording(self):
        server = support.Server()
        self.addCleanup(server.stop)

        async def replayed():
            async with await aio.connect(server.address) as client:
                program = await client.compile(graphs.update())
                recording = await client.record([(program, [Memory(0), Memory(1)]), (program, [Memory(1), Memory(0)])])
                x, y = await client.buffer([1, 2, 3, 4], "float32"), await client.buffer([1, 1, 1, 1], "float32")
                await recording(x, y)
                with self.assertRaises(kiln.InvalidArgument):
                    await recording(await client.empty((4,), "float32"))
                timing = await recording.run([x, y], timing=True)
                self.assertGreater(timing.total_us, 0)
                return (await x.numpy()).tolist(), (await y.numpy()).tolist()

        x, y = np.arange(1.0, 5.0), np.ones(4)
        for _ in range(2):
            x = x + y
            y = y + x
        self.assertEqual(asyncio.run(replayed()), (x.tolist(), y.tolist()))


if __name__ == "__main__":
    unittest.main()
