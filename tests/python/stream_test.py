"""Streams: calls without waiting, values against numpy, poison as exceptions, no leaks."""

import gc
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import numpy as np

import kiln

RNG = np.random.default_rng(11)


def affine():
    """w @ x + b for w[8, 8], x[8], b[8]."""
    graph = kiln.Graph()
    w, x, b = (graph.param(name, shape, "float32") for name, shape in (("w", (8, 8)), ("x", (8,)), ("b", (8,))))
    graph.output(w @ x + b)
    return graph


def add_in_place():
    graph = kiln.Graph()
    x = graph.param("x", (8,), "float32")
    graph.update(x, x + 1.0)
    return graph


class Streams(support.ServerTest):
    def test_a_chain_equals_numpy(self):
        program = self.client.compile(affine())
        stream = self.client.stream()
        w, x, b = (RNG.standard_normal(shape).astype(np.float32) for shape in ((8, 8), (8,), (8,)))
        weights = stream.buffer(w)
        value, expected = stream.buffer(x), x
        for step in range(30):
            value, expected = stream.run(program, weights, value, b), w @ expected + b
            if step == 20:
                value, expected = value.fill(0.5), np.full(8, 0.5, np.float32)
            if step % 10 == 9:
                np.testing.assert_allclose(value.numpy(), expected, rtol=1e-3)
                value = stream.buffer(expected / np.abs(expected).max())
                expected = expected / np.abs(expected).max()
        stream.fence()

    def test_updates_and_copies(self):
        program = self.client.compile(add_in_place())
        stream = self.client.stream()
        x = stream.buffer(np.arange(8, dtype=np.float32))
        before = x.copy()
        for _ in range(10):
            self.assertIsNone(stream.run(program, x))
        np.testing.assert_array_equal(x.numpy(), np.arange(8) + 10)
        np.testing.assert_array_equal(before.numpy(), np.arange(8))
        with self.client.buffer(np.zeros(8, np.float32)) as plain:  # of a call, in the same session
            stream.run(program, plain)
            stream.fence()
            np.testing.assert_array_equal(plain.numpy(), np.ones(8))

    def test_large_arrays(self):
        stream = self.client.stream()
        array = RNG.integers(0, 256, 5_000_001, dtype=np.uint8)
        np.testing.assert_array_equal(stream.buffer(array).numpy(), array)
        self.assertEqual(stream.buffer(np.zeros((0, 3))).numpy().shape, (0, 3))

    def test_the_first_failure_is_raised_where_it_is_met(self):
        program = self.client.compile(affine())
        stream = self.client.stream()
        w = stream.buffer(np.zeros((8, 8), np.float32))
        wrong = stream.buffer(np.zeros(4, np.float32))
        first = stream.run(program, w, wrong, np.zeros(8, np.float32), tag="layer 1")
        second = stream.run(program, w, first, np.zeros(8, np.float32), tag="layer 2")
        with self.assertRaises(kiln.KilnError) as caught:
            second.numpy()
        self.assertEqual(caught.exception.code, "BUFFER_SIZE_MISMATCH")
        self.assertEqual(caught.exception.slot, 1)
        self.assertEqual(caught.exception.tag, "layer 1")
        np.testing.assert_array_equal(wrong.numpy(), np.zeros(4))
        with self.assertRaises(kiln.InvalidArgument):
            stream.fence()
        stream.fence()

    def test_nothing_is_left(self):
        stream = self.client.stream()
        gc.collect()
        stream.fence()
        before = self.client.devices()[0].memory_in_use_bytes
        for _ in range(200):
            stream.buffer(np.zeros(1000, np.float32))
        gc.collect()
        stream.fence()
        self.assertEqual(self.client.devices()[0].memory_in_use_bytes, before)
        freed = stream.empty((8,))
        freed.free()
        freed.free()
        self.assertRaises(kiln.BufferFreed, freed.numpy)

    def test_an_end(self):
        stream = self.client.stream()
        self.assertIs(self.client.stream(), stream)
        stream.close()
        stream.close()
        with self.assertRaises(kiln.Unavailable):
            stream.fence()
        self.assertIsNot(self.client.stream(), stream)
        self.client.stream().fence()


if __name__ == "__main__":
    unittest.main()
