"""Where Kiln and numpy might part: NaN, negative zero, numbers that a dtype does not hold, lists, numpy's own functions."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import unittest

import numpy as np
import support

import kiln

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


if __name__ == "__main__":
    unittest.main()
