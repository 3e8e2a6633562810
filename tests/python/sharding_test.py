"""Graphs, arrays and programs on several devices: values against numpy, and mistakes where they are made."""

import asyncio
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import numpy as np

import kiln
from kiln import aio

RNG = np.random.default_rng(5)
DEVICES = ("CPU:0", "CPU:1", "CPU:2", "CPU:3")


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


class OnFourDevices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = support.Server("--cpu_devices=4")
        cls.addClassCleanup(cls.server.stop)
        cls.client = kiln.connect(cls.server.address)
        cls.addClassCleanup(cls.client.close)

    def test_split_and_whole_parameters(self):
        graph = kiln.Graph()
        x = graph.param("x", (8, 6), devices=DEVICES)
        w = graph.param("w", (6, 3), devices=DEVICES, axis=None)
        self.assertEqual(w.shape, (6, 3))
        graph.output(x @ w, kiln.sum(x, 0))
        program = self.client.compile(graph)
        a, b = floats(8, 6), floats(6, 3)
        whole = np.stack([b] * 4)
        for given in ((a, whole), (self.client.shards(a, DEVICES), self.client.shards(b, DEVICES, axis=None))):
            y, total = program(*given)
            np.testing.assert_allclose(y, a @ b, rtol=1e-5)
            np.testing.assert_allclose(total, a.sum(0), rtol=1e-5)
        y, total = program(a, whole, out="buffers")
        self.assertEqual((y.axis, y.shape, y.devices), (0, (8, 3), DEVICES))
        self.assertEqual((total.axis, total.shape), (None, (6,)))
        self.assertEqual([shard.shape for shard in y.shards], [(2, 3)] * 4)
        np.testing.assert_allclose(y.shards[2].numpy(), (a @ b)[4:6], rtol=1e-5)
        np.testing.assert_allclose(y.numpy(), a @ b, rtol=1e-5)
        np.testing.assert_allclose(total.numpy(), a.sum(0), rtol=1e-5)
        y.free()
        self.assertTrue(y.shards[0].freed)

    def test_recordings(self):
        graph = kiln.Graph()
        n = graph.variable("n", 1, 4)
        x = graph.param("x", (n * 4, 2), devices=DEVICES)
        total = graph.param("total", (4, 2), devices=DEVICES)
        graph.update(x, x * 2.0)
        graph.update(total, total + kiln.sum(x, 0, keepdims=True))
        step = self.client.compile(graph)
        rows, sums = [kiln.Memory(i) for i in range(4)], [kiln.Memory(4 + i) for i in range(4)]
        recording = self.client.record([
            (step, {"x": rows, "total": sums, "n": kiln.Integer(0)}),
            (step, {"x": rows, "total": sums, "n": 2}),
        ])
        self.assertEqual(len(recording.buffers), 8)
        for count in (3, 2, 4):
            a = floats(16, 2)
            x, total = self.client.shards(a, DEVICES), self.client.shards(np.zeros((4, 2), np.float32), DEVICES)
            for _ in range(2):
                recording(*x.shards, *total.shards, count)
            expected, summed = a.reshape(4, 4, 2).copy(), np.zeros(2, np.float32)
            for rows_each in (count, 2, count, 2):
                summed += expected[:, :rows_each].sum((0, 1))
                expected[:, :rows_each] *= 2
            np.testing.assert_allclose(x.numpy(), expected.reshape(16, 2), rtol=1e-6)
            np.testing.assert_allclose(total.numpy(), [summed] * 4, rtol=1e-4, atol=1e-5)

    def test_gradients(self):
        found = []
        for devices in ((), DEVICES):
            graph = kiln.Graph()
            x = graph.param("x", (8, 6), devices=devices)
            w = graph.param("w", (6, 3), devices=devices, axis=None if devices else 0)
            y = kiln.maximum(x @ w, 0.0)
            graph.output(kiln.sum(y * y))
            gradient = self.client.gradient(graph, [0, 1], include_results=True)
            found.append(self.client.compile(gradient.graph))
        a, b = floats(8, 6), floats(6, 3)
        loss, dx, dw = found[0](a, b)
        split = found[1](self.client.shards(a, DEVICES), self.client.shards(b, DEVICES, axis=None), out="buffers")
        self.assertEqual((split[1].axis, split[1].shape, split[2].axis), (0, (8, 6), 0))
        np.testing.assert_allclose(split[0].numpy(), loss, rtol=1e-5)
        np.testing.assert_allclose(split[1].numpy(), dx, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(split[2].numpy(), [dw / 4] * 4, rtol=1e-4, atol=1e-5)

    def test_symbolic_sizes(self):
        graph = kiln.Graph()
        n = graph.variable("n", 1, 5)
        x = graph.param("x", (n * 4, 2), devices=DEVICES)
        y = graph.param("y", (8, n), devices=DEVICES)
        graph.output(x * 2.0, kiln.sum(x, 0), kiln.sum(y, 0))
        program = self.client.compile(graph)
        for count in (3, 1, 5):
            a, b = floats(4 * count, 2), floats(8, count)
            for given in ((a, b), (self.client.shards(a, DEVICES), self.client.shards(b, DEVICES))):
                twice, rows, columns = program(*given, n=count)
                np.testing.assert_allclose(twice, 2 * a, rtol=1e-6)
                np.testing.assert_allclose(rows, a.sum(0), rtol=1e-4, atol=1e-5)
                np.testing.assert_allclose(columns, b.sum(0), rtol=1e-4, atol=1e-5)
            twice = program(a, b, n=count, out="buffers")[0]
            self.assertEqual([shard.shape for shard in twice.shards], [(count, 2)] * 4)
        with self.assertRaises(kiln.KilnError) as caught:
            program(floats(24, 2), floats(8, 6), n=6)
        self.assertEqual(caught.exception.code, "BAD_ARGUMENT")

    def test_updates_stay_where_they_are(self):
        graph = kiln.Graph()
        x = graph.param("x", (4,), devices=DEVICES)
        w = graph.param("w", (4,), devices=DEVICES, axis=None)
        graph.output(graph.assign(x, x + 1.0), graph.assign(w, w + kiln.sum(x, 0)))
        program = self.client.compile(graph)
        xs = self.client.shards(np.arange(4, dtype=np.float32), DEVICES)
        ws = self.client.shards(np.zeros(4, np.float32), DEVICES, axis=None)
        for _ in range(2):
            results = program(xs, ws, out="buffers")
            self.assertIs(results[0], xs)
        np.testing.assert_array_equal(xs.numpy(), np.arange(4) + 2)
        np.testing.assert_array_equal(ws.numpy(), np.full((4, 4), 6 + 10))

    def test_moves(self):
        graph = kiln.Graph()
        x = graph.param("x", (8, 4))
        split = kiln.copy(x, DEVICES)
        wide = kiln.shard(x, DEVICES[:2], axis=1)
        graph.output(split * 2.0, kiln.copy(wide + 1.0, "CPU:0"), kiln.all_reduce(split, 4),
                     kiln.all_reduce(split, 4, op="max"), kiln.replicate(x, DEVICES) - 1.0)  # fmt: skip
        a = floats(8, 4)
        doubled, wide, total, greatest, everywhere = self.client.compile(graph)(a)
        np.testing.assert_array_equal(doubled, a * 2)
        np.testing.assert_array_equal(wide, a + 1)
        np.testing.assert_allclose(total, a.reshape(4, 2, 4).sum(0), rtol=1e-5)
        np.testing.assert_array_equal(greatest, a.reshape(4, 2, 4).max(0))
        np.testing.assert_array_equal(everywhere, a - 1)

    def test_an_uneven_axis_is_padded_by_its_owner(self):
        graph = kiln.Graph()
        x = graph.param("x", (6, 2))
        split = kiln.copy(kiln.pad(x, ((0, 2), (0, 0))), DEVICES)
        graph.output(kiln.sum(split, 0), split * 2.0)
        a = floats(6, 2)
        total, doubled = self.client.compile(graph)(a)
        np.testing.assert_allclose(total, a.sum(0), rtol=1e-5)
        np.testing.assert_array_equal(doubled, np.concatenate([a * 2, np.zeros((2, 2), np.float32)]))

    def test_a_program_on_a_device_of_ones_choice(self):
        graph = kiln.Graph()
        x = graph.param("x", (4,))
        graph.update(x, x + 1.0)
        graph.output(x * 2.0)
        there = self.client.compile(graph, device="CPU:2")
        buffer = self.client.buffer(np.zeros(4, np.float32), device="CPU:2")
        result = there(buffer, out="buffers")
        made = result[-1] if isinstance(result, tuple) else result
        self.assertEqual((there.device, made.device), ("CPU:2", "CPU:2"))
        np.testing.assert_array_equal(buffer.numpy(), np.ones(4))
        with self.assertRaises(kiln.KilnError):
            there(self.client.buffer(np.zeros(4, np.float32)), out="buffers").numpy()
        with self.assertRaises(kiln.NotFound):
            self.client.compile(graph, device="CPU:9")

    def test_a_recording_is_of_one_device(self):
        graph = kiln.Graph()
        graph.update(graph.param("x", (4,)), graph.param("y", (4,)) + 1.0)
        here, there = self.client.compile(graph), self.client.compile(graph, device="CPU:1")
        x, y = (self.client.buffer(np.full(4, i, np.float32), device="CPU:1") for i in range(2))
        self.client.record([(there, [kiln.Memory(0), kiln.Memory(1)])] * 2)(x, y)
        np.testing.assert_array_equal(x.numpy(), np.full(4, 2))
        with self.assertRaises(kiln.InvalidArgument):
            self.client.record([(there, [kiln.Memory(0), kiln.Memory(1)]), (here, [kiln.Memory(0), kiln.Memory(1)])])
        named = self.client.compile(graph, device="CPU:0")  # which is the client's, too
        self.client.record([(here, [kiln.Memory(0), kiln.Memory(1)]), (named, [kiln.Memory(0), kiln.Memory(1)])])

    def test_shares_that_begin_within_buffers(self):
        graph = kiln.Graph()
        x = graph.param("x", (8,), devices=DEVICES)
        graph.output(x * 2.0)
        wide = [self.client.buffer(np.arange(6, dtype=np.float32) + 10 * k, device=name) for k, name in enumerate(DEVICES)]
        places = kiln.AtShards(tuple(kiln.At(buffer, 16) for buffer in wide))
        doubled = self.client.compile(graph).run({0: places}).results[0]
        np.testing.assert_array_equal(doubled, np.float32([4, 5, 14, 15, 24, 25, 34, 35]) * 2)

    def test_arrays_that_are_too_large_for_a_message(self):
        graph = kiln.Graph()
        x = graph.param("x", (1 << 12, 512), devices=DEVICES[:2])
        graph.output(x + 1.0)
        a = floats(1 << 12, 512)
        np.testing.assert_array_equal(self.client.compile(graph)(a), a + 1)

    def test_a_graph_for_one_device_on_four(self):
        graph = kiln.Graph()
        x, w = graph.param("x", (8, 6)), graph.param("w", (6, 3))
        graph.update(w, w - 0.1 * (kiln.transpose(x) @ (x @ w)))
        a, b = floats(8, 6), floats(6, 3)
        one = self.client.buffer(b)
        self.client.compile(graph)(a, one)
        weights = self.client.shards(b, DEVICES, axis=None)
        program = self.client.compile(kiln.spread(graph, DEVICES, split=["x"]), deterministic=True)
        program(self.client.shards(a, DEVICES), weights)
        for copy in weights.numpy():
            np.testing.assert_allclose(copy, one.numpy(), rtol=1e-4, atol=1e-5)
        with self.assertRaises(kiln.GraphError):
            kiln.spread(graph, DEVICES, split=["v"])

    def test_awaited(self):
        graph = kiln.Graph()
        x = graph.param("x", (4,), devices=DEVICES)
        graph.output(x * 2.0, kiln.sum(x, 0))

        async def main():
            async with await aio.connect(self.server.address) as client:
                program = await client.compile(graph)
                shards = await client.shards(np.arange(4, dtype=np.float32), DEVICES)
                doubled, total = await program(shards, out="buffers")
                values = (await doubled.numpy()).tolist(), (await total.numpy()).tolist(), await program(shards)
                await doubled.free()
                return values

        doubled, total, arrays = asyncio.run(main())
        self.assertEqual((doubled, total), ([0, 2, 4, 6], 6))
        self.assertEqual(arrays[0].tolist(), doubled)

    def test_mistakes(self):
        graph = kiln.Graph()
        for wrong in (lambda: graph.param("x", (6,), devices=DEVICES), lambda: graph.param("x", (), devices=DEVICES),
                      lambda: graph.param("x", (4, 4), devices=DEVICES, axis=1),
                      lambda: kiln.copy(graph.param("y", (6,)), DEVICES),
                      lambda: self.client.shards(np.zeros(6, np.float32), DEVICES)):  # fmt: skip
            with self.assertRaises(kiln.ShapeError) as caught:
                wrong()
            self.assertEqual(caught.exception.code, "UNSUPPORTED_SHARD")
        with self.assertRaises(kiln.GraphError):
            graph.param("x", (4,), devices=("CPU:0", "CPU:0"))
        x = graph.param("z", (4,), devices=DEVICES)
        graph.output(x + 1.0)
        program = self.client.compile(graph)
        for given in (self.client.buffer(np.zeros(4, np.float32)), self.client.shards(np.zeros(4, np.float32), DEVICES[:2])):
            with self.assertRaises(kiln.InvalidArgument):
                program(given)


if __name__ == "__main__":
    unittest.main()
