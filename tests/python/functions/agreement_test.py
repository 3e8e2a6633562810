"""Where Kiln and numpy might part: NaN, negative zero, numbers that a dtype does not hold, lists, numpy's own functions."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import unittest

import numpy as np
import support

import kiln
from kiln.errors import DTypeError, ShapeError

X = np.float32([[1, -2, 3], [4, 5, -6]])


class Agreement(support.ServerTest):
    FLAGS = ("--cpu_devices=2",)

    def same(self, found, wanted):
        """An array, or what numpy computed here of arrays."""
        self.assertEqual((found.dtype, found.shape), (wanted.dtype, wanted.shape))
        np.testing.assert_array_equal(np.asarray(found), wanted)

    def test_no_comparison_but_one_holds_for_nan(self):
        compare = lambda x, y: (x <= y, x >= y, x < y, x > y, x == y, x != y, y <= x)
        for dtype in (np.float16, np.float32, np.float64):
            x, y = dtype([1, np.nan, 1, 2, np.nan]), dtype([np.nan, 1, 1, 1, np.nan])
            for found in (compare(kiln.array(x), kiln.array(y)), kiln.jit(compare)(x, y)):
                for one, wanted in zip(found, compare(x, y)):
                    self.same(one, wanted)

    def test_comparisons_and_quotients_with_integers_that_a_dtype_does_not_hold(self):
        function = lambda x, k: (x < k, x <= k, x > k, x >= k, x == k, x != k, k < x, k >= x, x / k, k / x)
        jitted = kiln.jit(function)
        for dtype in ("uint8", "int8", "uint32", "uint64", "int64"):
            x = np.array([1, 5, 127, 100], dtype)
            for number in (300, -1, -300, 5, 1 << 40):
                for found in (jitted(x, number), function(kiln.array(x), number)):
                    for one, wanted in zip(found, function(x, number)):
                        self.same(one, wanted)
        self.same(kiln.array(np.uint64([3])) < (1 << 70), np.array([True]))

    def test_numpys_numbers_have_their_dtype(self):
        n = np.int8([7, 2, 3])
        for function in (lambda x, k: x // k, lambda x, k: x % k, lambda x, k: x & k, lambda x, k: x | k, lambda x, k: x ^ k,
                         lambda x, k: x << k, lambda x, k: x >> k, lambda x, k: k // x, lambda x, k: x ** (k + np.int32(1))):  # fmt: skip
            for number in (np.int32(2), np.int64(2)):
                wanted = function(n, number)
                self.same(function(kiln.array(n), number), wanted)
                self.same(kiln.jit(lambda x: function(x, number))(n), wanted)
        self.assertEqual((kiln.array(X) ** np.float64(3)).dtype, np.float64)

    def test_ranges_and_numbers_are_made_as_numpys(self):
        for args, named in (((10,), {"step": 2}), ((5.0, 1, -1.5), {}), ((3,), {}), ((0, 7, 3), {}), ((4,), {"dtype": "float32"})):
            wanted = np.arange(*args, **named)
            self.same(kiln.arange(*args, **named), wanted)
            self.same(kiln.jit(lambda: kiln.arange(*args, **named))(), wanted)
        self.assertTrue(np.signbit(kiln.full(3, -0.0)).all())

    def test_what_is_made_like_an_array_is_where_it_is(self):
        y = kiln.array(X, device="CPU:1")
        self.assertEqual([made(y).device for made in (kiln.zeros_like, kiln.ones_like, np.zeros_like)], ["CPU:1"] * 3)
        with kiln.connect(self.server.address) as other:
            self.assertIs(kiln.ones_like(y).client, self.client)
            self.assertIs(kiln.ones_like(X).client, other)

    def test_lists_of_numbers_are_arrays(self):
        mask = X > 0
        for function in (lambda m, x: x + [1.0, 2.0, 3.0], lambda m, x: [1, 2, 3] * x, lambda m, x: x == [1, 5, 3], lambda m, x: x @ [1.0, 2, 3],
                         lambda m, x: m.where(mask, [1.0, 2.0, 3.0], 0.0), lambda m, x: m.maximum(x, [[2.0], [3.0]])):  # fmt: skip
            self.same(function(kiln, kiln.array(X)), np.asarray(function(np, X)))
            self.same(kiln.jit(lambda x: function(kiln, x))(X), np.asarray(function(np, X)))

    def test_numbers_alone(self):
        for found, wanted in ((kiln.sqrt(np.float32(4)), np.float32(2)), (kiln.exp(0.0), np.float64(1)), (kiln.maximum(2, 3), np.int64(3)),
                              (kiln.add(2.5, np.float32(1)), np.float32(3.5)), (kiln.logical_and(1, 0), np.False_)):  # fmt: skip
            self.assertIs(type(found), kiln.Array)
            self.same(found, wanted)

    def test_numpys_functions_answer_as_numpys(self):
        x, cube = kiln.array(X), np.arange(24.0).reshape(2, 3, 4)
        for function in (
            lambda x: np.mod(x, 2.5), lambda x: np.pad(x, 1, "edge"), lambda x: np.tile(x, (2, 1, 2)), lambda x: np.tile(x, 2),
            lambda x: np.expand_dims(x, (0, 2)), lambda x: np.concatenate([x, x], axis=None), lambda x: np.logical_and(x, 2),
            lambda x: np.logical_or(x, 0), lambda x: np.dot(x, 2), lambda x: np.dot(3.0, x),
        ):  # fmt: skip
            self.same(function(x), function(X))
        for y in (np.ones((2, 4, 5)), np.arange(4.0), np.arange(8.0).reshape(4, 2)):
            self.same(np.dot(kiln.array(cube), kiln.array(y)), np.dot(cube, y))
            self.same(kiln.jit(np.dot)(cube, y), np.dot(cube, y))
        self.same(np.dot(kiln.array(np.arange(3.0)), kiln.array(cube)), np.dot(np.arange(3.0), cube))
        with self.assertRaises(TypeError):  # as numpy's own
            np.invert(x)
        self.same(kiln.jit(lambda x: np.mod(x, 2.5))(x), np.mod(X, 2.5))
        self.assertEqual((None in x, 4 in x, 9 in x), (False, True, False))

    def test_numpys_functions_write_to_no_array(self):
        x = kiln.array(X)
        for write in (
            lambda: np.add(X, 1, out=x), lambda: np.add.at(x, 0, 1), lambda: np.copyto(x, 1), lambda: np.fill_diagonal(x, 1),
            lambda: np.sum(X, axis=0, out=x[0]), lambda: np.clip(x, 0, 1, out=x), lambda: np.put(x, 0, 1), lambda: np.putmask(x, X > 0, 1),
            lambda: np.sum(X, 0, None, x[0]), lambda: np.cumsum(x, 0, None, x), lambda: np.dot(X, X.T, x), lambda: np.copyto(dst=x, src=1),
        ):  # fmt: skip
            with self.assertRaisesRegex(TypeError, "an array does not change"):
                write()
        self.same(x, X)
        here = np.zeros_like(X)
        np.add(x, 1, out=here)
        self.same(here, X + 1)

    def test_masks_and_lists_as_indices(self):
        x, rows, columns = kiln.array(X), np.array([True, False]), np.array([False, True, True])
        for key in ((slice(None), columns), (rows, 0), [True, False], [], (0, columns), (None, rows), (rows, columns), (..., columns),
                    X > 0, (X > 0, None), [[0, 1], [1, 0]], (slice(None), [2, 0])):  # fmt: skip
            self.same(x[key], X[key])
            self.same(kiln.jit(lambda x: x[key])(X), X[key])
        self.same(x[:, kiln.array(columns)], X[:, columns])
        for key in ((slice(None), rows), columns, (..., rows)):
            with self.assertRaises(ShapeError):
                x[key]
        with self.assertRaisesRegex(DTypeError, "kiln.where, or a mask of numpy's"):
            kiln.jit(lambda x: x[:, x[0] > 1])(x)


if __name__ == "__main__":
    unittest.main()
