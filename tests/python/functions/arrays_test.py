"""kiln.Array computes what numpy computes, prints as numpy prints, and waits only where it is read."""

import copy
import pathlib
import pickle
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np
import support

import kiln
from kiln.errors import FailedPrecondition, ShapeError, UnsupportedDType

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
Y = np.random.default_rng(1).standard_normal((4,)).astype(np.float32)
N = np.arange(12, dtype=np.int32).reshape(3, 4)


class Arrays(support.ServerTest):
    def both(self, function, *values, exact=True):
        """The same of arrays here and there."""
        wanted = function(np, *values)
        found = function(kiln, *map(kiln.array, values))
        self.assertIs(type(found), kiln.Array)
        self.assertEqual((found.dtype, found.shape), (np.asarray(wanted).dtype, np.shape(wanted)))
        if exact:
            np.testing.assert_array_equal(found.numpy(), wanted)
        else:
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)

    def test_operators(self):
        for function in (
            lambda m, x, y: x + y, lambda m, x, y: x - y * 2, lambda m, x, y: 1 - x, lambda m, x, y: 2.5 / y,
            lambda m, x, y: x / y, lambda m, x, y: -x, lambda m, x, y: abs(x), lambda m, x, y: +x, lambda m, x, y: x**2,
            lambda m, x, y: x < y, lambda m, x, y: x >= 0.5, lambda m, x, y: x == x, lambda m, x, y: x != 1,
            lambda m, x, y: (x > 0) & (y > 0), lambda m, x, y: ~(x > 0), lambda m, x, y: x * np.float32(2),
            lambda m, x, y: x * np.float64(2),
        ):  # fmt: skip
            self.both(function, X, Y)
        for function in (lambda m, n: n // 3, lambda m, n: n % 5, lambda m, n: n << 2, lambda m, n: n >> 1, lambda m, n: n ^ 5,
                         lambda m, n: n | 1, lambda m, n: ~n, lambda m, n: n + 1, lambda m, n: n * 0.5, lambda m, n: n / 4,
                         lambda m, n: n**3, lambda m, n: n > 4):  # fmt: skip
            self.both(function, N)
        self.both(lambda m, x, y: x @ y, X, Y, exact=False)
        self.both(lambda m, x, y: y @ x.T, X, Y, exact=False)

    def test_numpy_arrays_meet_arrays(self):
        x = kiln.array(X)
        for found, wanted in ((Y + x, Y + X), (x + Y, X + Y), (np.float64(3) * x, np.float64(3) * X), (N < x, N < X),
                              (np.add(Y, x), Y + X), (np.maximum(x, 0.25), np.maximum(X, np.float32(0.25)))):  # fmt: skip
            self.assertIs(type(found), kiln.Array)
            self.assertEqual(found.dtype, wanted.dtype)
            np.testing.assert_array_equal(found.numpy(), wanted)
        self.assertIs(type(X.T @ x), kiln.Array)

    def test_methods_and_functions(self):
        for function in (
            lambda m, x: x.sum(), lambda m, x: x.sum(axis=0), lambda m, x: m.mean(x, axis=1, keepdims=True),
            lambda m, x: m.exp(x), lambda m, x: m.log(abs(x)), lambda m, x: m.sqrt(abs(x)), lambda m, x: x.std(axis=0),
            lambda m, x: m.var(x), lambda m, x: m.cos(x), lambda m, x: x.cumsum(axis=1), lambda m, x: m.tanh(x),
        ):  # fmt: skip
            self.both(function, X, exact=False)
        for function in (
            lambda m, x: x.max(axis=1), lambda m, x: m.min(x), lambda m, x: x.argmax(axis=1), lambda m, x: m.argmin(x, axis=0),
            lambda m, x: x.reshape(2, 6), lambda m, x: x.reshape((4, -1)), lambda m, x: x.T, lambda m, x: m.transpose(x, (1, 0)),
            lambda m, x: m.where(x > 0, x, 0), lambda m, x: m.clip(x, -0.5, 0.5), lambda m, x: m.abs(x), lambda m, x: m.floor(x),
            lambda m, x: m.concatenate([x, x * 2]), lambda m, x: m.stack([x, -x], axis=1), lambda m, x: m.expand_dims(x, 1),
            lambda m, x: m.flip(x, axis=1), lambda m, x: (x > 0).any(axis=1), lambda m, x: m.all(x < 9), lambda m, x: m.square(x),
            lambda m, x: x.astype("int32"), lambda m, x: m.take(x, np.array([2, 0, 2]), axis=0), lambda m, x: x.ravel(),
            lambda m, x: m.broadcast_to(x[0], (2, 4)), lambda m, x: x.flatten(), lambda m, x: m.swapaxes(x, 0, 1),
        ):  # fmt: skip
            self.both(function, X)
        np.testing.assert_allclose(kiln.softmax(kiln.array(X)), np.exp(X) / np.exp(X).sum(1, keepdims=True), rtol=1e-5)
        np.testing.assert_allclose(kiln.exp(X), np.exp(X), rtol=1e-6)  # of numpy's arrays, too
        self.assertEqual((kiln.sum([1, 2, 3]).item(), kiln.maximum([1, 5], 3).tolist()), (6, [3, 5]))

    def test_indexing(self):
        for key in (1, -1, slice(1, 3), slice(None, None, -1), slice(0, 3, 2), (1, 2), (slice(None), 1), (slice(None), -2), ...,
                    (..., 0), None, (slice(1), slice(1, 3)), (slice(None), slice(None, None, 2)), [2, 0], np.array([0, 2, 1]),
                    (slice(None), np.array([3, 3])), (slice(None), None, 2), np.array([True, False, True]), N > 5, slice(2, 2)):  # fmt: skip
            with self.subTest(key=key):
                self.both(lambda m, x: x[key], X)
        cube = np.arange(60.0).reshape(3, 4, 5)
        i, j = np.array([2, 0, -1]), np.array([1, 3, -2])
        for key in ((i, j), (i, slice(None), j), (slice(None), i, j), (i[:, None], j), (i, 1), (0, slice(None), i), (slice(None), i, 2),
                    (0, i), (i, slice(1, 3), None, j), (i, j, i), (..., j), (slice(None), slice(None, None, 2), [0, 1])):  # fmt: skip
            with self.subTest(key=key):
                self.both(lambda m, x: x[key], cube)
                np.testing.assert_array_equal(kiln.jit(lambda x: x[key])(cube), cube[key])
        np.testing.assert_array_equal(kiln.jit(lambda x, i, j: x[i, j])(cube, i, np.array([0, 1, 9])), [cube[2, 0], cube[0, 1], np.zeros(5)])
        x, at = kiln.array(X), kiln.array([2, 1])
        np.testing.assert_array_equal(x[at], X[[2, 1]])
        np.testing.assert_array_equal(x[x > 0], X[X > 0])
        for key in (3, -4, (0, 4), (slice(None), -5)):
            with self.assertRaisesRegex(ShapeError, "outside an axis"):
                x[key]
        with self.assertRaises(ShapeError):
            x[np.array([True, False])]
        with self.assertRaisesRegex(TypeError, "does not change.*kiln.where"):
            x[0] = 1

    def test_one_program_for_all_numbers(self):
        x = kiln.array(X)
        x + 0.5, x[:, 1]
        before = self.client.traffic["KernelService.Compile"].calls
        for number in range(5):
            np.testing.assert_array_equal(x + number * 0.25, X + np.float32(number * 0.25))
        for column in range(4):
            np.testing.assert_array_equal(x[:, column], X[:, column])
        for row in range(3):
            np.testing.assert_array_equal(x[row], X[row])
        self.assertEqual(self.client.traffic["KernelService.Compile"].calls, before)

    def test_integers_that_a_dtype_does_not_hold(self):
        small = kiln.array(np.array([1, 2], np.uint8))
        self.assertEqual((small + 3).tolist(), [4, 5])
        with self.assertRaisesRegex(ValueError, "300 is no uint8"):
            small + 300

    def test_it_prints_as_numpy(self):
        x = kiln.array(np.float32([[1, 2.5], [3, 4]]))
        self.assertEqual(str(x), str(x.numpy()))
        self.assertEqual(repr(x), "Array([[1. , 2.5],\n       [3. , 4. ]], dtype=float32)")
        self.assertEqual("%.2f %s %5.1f" % (x[0, 1], x.sum(), x.max()), "2.50 10.5   4.0")
        self.assertEqual(f"{x.sum():.3f}", "10.500")

    def test_what_reads(self):
        x = kiln.array([1, 2, 3])
        self.assertEqual((len(x), x.ndim, x.size, x.nbytes, x.itemsize), (3, 1, 3, 24, 8))
        self.assertEqual((int(x[0]), float(x[1]), x[2].item(), bool(x[0] == 1), x.tolist()), (1, 2.0, 3, True, [1, 2, 3]))
        self.assertEqual(([10, 20, 30, 40][x[1]], [int(one) for one in x], 2 in x, 5 in x), (30, [1, 2, 3], True, False))
        self.assertEqual(sum(x).item(), 6)
        self.assertFalse(x == None)  # noqa: E711
        with self.assertRaises(ValueError):
            bool(x)
        with self.assertRaises(TypeError):
            len(x[0])
        self.assertEqual(np.asarray(x, dtype=np.float32).dtype, np.float32)
        with self.assertRaises(TypeError):
            hash(x)

    def test_numpys_functions(self):
        x = kiln.array(X)
        for function in (np.exp, np.mean, np.transpose):
            found = function(x)
            self.assertIs(type(found), kiln.Array)
            np.testing.assert_allclose(found, function(X), rtol=1e-5)
        self.assertIs(type(np.concatenate([x, x])), kiln.Array)
        self.assertEqual((np.shape(x), np.ndim(x), np.size(x)), ((3, 4), 2, 12))
        self.assertEqual(np.sum(x, where=X > 0).dtype, np.float32)  # kiln.sum has no such parameter
        for found, wanted in ((np.linalg.norm(x), np.linalg.norm(X)), (np.spacing(x), np.spacing(X)), (np.add.reduceat(x, [0, 1]), X[:2] + [[0], [1]] * X[2:]),
                              (np.unwrap(x), np.unwrap(X))):  # fmt: skip
            self.assertNotIsInstance(found, kiln.Array)  # here, as Kiln has none
            np.testing.assert_allclose(found, wanted, rtol=1e-5)

    def test_making(self):
        for found, wanted in ((kiln.zeros((2, 3)), np.zeros((2, 3))), (kiln.ones(3, "int32"), np.ones(3, np.int32)),
                              (kiln.full((2,), 7), np.full((2,), 7)), (kiln.arange(5), np.arange(5)),
                              (kiln.arange(1, 2, 0.25), np.arange(1, 2, 0.25)), (kiln.array([[1, 2]], "float32"), np.float32([[1, 2]])),
                              (kiln.array(True), np.array(True)), (kiln.zeros_like(kiln.array(X)), np.zeros_like(X)),
                              (np.zeros_like(kiln.array(N)), np.zeros_like(N)), (kiln.ones_like(kiln.array(X), "int8"), np.ones((3, 4), np.int8)),
                              (kiln.array([kiln.array([1.0]), [2.0]]), np.array([[1.0], [2.0]]))):  # fmt: skip
            self.assertEqual((found.dtype, found.shape), (wanted.dtype, wanted.shape))
            np.testing.assert_array_equal(found.numpy(), wanted)
        within = kiln.jit(lambda x: (x + kiln.ones(3) * kiln.full(3, 2.0) + kiln.arange(3), kiln.array([x, 2 * x]), kiln.zeros(2)))
        for found, wanted in zip(within(1.0), ([3, 4, 5], [1, 2], [0, 0])):
            self.assertEqual(found.tolist(), wanted)
        with self.assertRaises(UnsupportedDType):
            kiln.array(["text"])
        with kiln.connect(self.server.address, device="CPU:0") as other:
            self.assertIs(kiln.array([1], client=other).client, other)

    def test_copies_and_pickles(self):
        x = kiln.array([1.0, 2.0])
        for other in (x.copy(), copy.copy(x), copy.deepcopy(x)):
            self.assertNotEqual(other.buffer.handle, x.buffer.handle)
            self.assertEqual(other.tolist(), [1, 2])
        with self.assertRaises(TypeError):
            pickle.dumps(x)

    def test_a_chain_is_one_flight(self):
        x = kiln.array(np.ones(8, np.float32))
        kiln.sqrt(x * 2.0 + 1.0)
        self.client.fence()
        before = {name: row.calls for name, row in self.client.traffic.items()}
        for _ in range(5):
            x = kiln.sqrt(x * 2.0 + 1.0)
        self.assertGreater(float(x[0]), 2)
        moved = {name: row.calls - before.get(name, 0) for name, row in self.client.traffic.items()}
        self.assertEqual((moved["KernelService.Execute"], moved["BufferService.Read"], moved["KernelService.Compile"]), (15, 1, 0))

    def test_buffers_of_the_client_are_taken(self):
        buffer = self.client.buffer(np.float32([1, 2]))
        self.assertEqual(kiln.jit(lambda x: x * 3.0)(buffer).tolist(), [3, 6])
        copied = kiln.array(buffer)
        buffer.fill(9)
        self.assertEqual((copied.tolist(), kiln.array(buffer, "int32").tolist()), ([1, 2], [9, 9]))
        program_takes = kiln.array(np.float32([4, 5]))
        graph = kiln.Graph()
        graph.output(graph.param("x", (2,)) * 2.0)
        self.assertEqual(self.client.compile(graph)(program_takes.buffer).tolist(), [8, 10])


class Nowhere(unittest.TestCase):
    def test_without_a_client(self):
        with self.assertRaisesRegex(FailedPrecondition, r"no client is connected.*kiln.connect\(\)"):
            kiln.array([1])


if __name__ == "__main__":
    unittest.main()
