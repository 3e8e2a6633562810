"""Random numbers of keys: repeated by their key alone, apart by another, and as they are said to be spread."""

import unittest

import agreement
import numpy as np

import kiln
import kiln.numpy as knp
from kiln.errors import DTypeError, InvalidArgument

R = knp.random


class Random(agreement.Agreement):
    def test_a_key_says_all(self):
        key = R.key(7)
        x = R.uniform(key, (3, 4))
        for again in (
            R.uniform(R.key(7), (3, 4)),
            kiln.jit(lambda key: R.uniform(key, (3, 4)))(key),
            kiln.jit(lambda: R.uniform(R.key(7), (3, 4)))(),
        ):
            np.testing.assert_array_equal(np.asarray(x), np.asarray(again))
        # The same numbers as the client's, which has them from the same cipher.
        np.testing.assert_array_equal(np.asarray(x), self.client.random((3, 4), seed=7).numpy())

    def test_keys_are_split(self):
        key = R.key(2**64 - 1)
        keys = np.asarray(R.split(key, 1000))
        self.assertEqual((keys.dtype, len(set(keys.tolist()))), (np.uint64, 1000))
        folded = [int(R.fold_in(key, step)) for step in range(5)] + [int(kiln.jit(R.fold_in)(key, np.uint64(9)))]
        self.assertEqual(len(set(folded) | set(keys.tolist())), 1006)
        self.assertEqual(folded[3], int(kiln.jit(R.fold_in)(key, np.uint64(3))))
        first, second = R.split(key)
        self.assertFalse((R.uniform(first, 100) == R.uniform(second, 100)).any())

    def test_spreads(self):
        for dtype in ("float16", "float32", "float64"):
            x = np.asarray(R.uniform(R.key(1), 20000, dtype)).astype(np.float64)
            self.assertTrue((0 <= x.min()) and x.max() < 1 and abs(x.mean() - 0.5) < 0.01)
            x = np.asarray(R.normal(R.key(2), (100, 200), dtype)).astype(np.float64)
            self.assertTrue(abs(x.mean()) < 0.03 and abs(x.std() - 1) < 0.03 and abs((x**3).mean()) < 0.1)
        x = np.asarray(R.uniform(R.key(3), 5000, knp.float64, low=-2.0, high=6.0))
        self.assertTrue(-2 <= x.min() < -1.9 and 5.9 < x.max() < 6)
        counts = np.bincount(np.asarray(R.randint(R.key(4), 6000, -1, 2)) + 1)
        self.assertTrue(counts.shape == (3,) and (abs(counts - 2000) < 200).all())
        self.same(R.randint(R.key(5), (2, 3), 250, 251, "uint8"), np.full((2, 3), 250, np.uint8))
        self.assertLess(abs(float(R.bernoulli(R.key(6), 0.25, 8000).mean()) - 0.25), 0.03)

    def test_orders(self):
        order = np.asarray(R.permutation(R.key(1), 100))
        self.assertEqual(sorted(order.tolist()), list(range(100)))
        self.assertNotEqual(order.tolist(), list(range(100)))
        x = np.arange(12.0).reshape(6, 2)
        np.testing.assert_array_equal(np.sort(np.asarray(kiln.jit(R.permutation)(R.key(2), x)), 0), x)

    def test_what_does_not_fit(self):
        self.refuses(DTypeError, "a key is a uint64", lambda: R.uniform(kiln.array(3), 5))
        self.refuses(DTypeError, "no numbers of int32", lambda: R.uniform(R.key(1), 5, "int32"))
        self.refuses(InvalidArgument, "from 5 to 5", lambda: R.randint(R.key(1), 5, 5, 5))
        self.refuses(InvalidArgument, "a seed is a uint64", lambda: R.key(-1))


if __name__ == "__main__":
    unittest.main()
