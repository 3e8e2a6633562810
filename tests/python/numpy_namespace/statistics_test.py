"""Sums, means, products so far, and their kin, beside numpy's."""

import unittest

import agreement
import numpy as np

import kiln
import kiln.numpy as knp
from kiln.errors import ShapeError

ALIKE = [
    lambda m, x: m.sum(x),
    lambda m, x: m.sum(x, axis=(0, 2), keepdims=True),
    lambda m, x: m.prod(x, axis=1),
    lambda m, x: m.mean(x, axis=0),
    lambda m, x: m.var(x),
    lambda m, x: m.std(x, axis=-1),
    lambda m, x: m.max(x, axis=1),
    lambda m, x: m.min(x),
    lambda m, x: m.argmax(x, axis=2),
    lambda m, x: m.argmin(x),
    lambda m, x: m.any(x > 3, axis=0),
    lambda m, x: m.all(x > -9),
    lambda m, x: m.count_nonzero(x, axis=1),
    lambda m, x: m.ptp(x, axis=0),
    lambda m, x: m.cumsum(x, axis=1),
    lambda m, x: m.cumsum(x),
    lambda m, x: m.cumprod(x, axis=2),
    lambda m, x: m.average(x, axis=2, weights=m.asarray([1.0, 2.0, 3.0, 4.0])),
    lambda m, x: m.nansum(m.where(x > 2, m.asarray(np.float64("nan")), x), axis=0),
    lambda m, x: m.nanmean(m.where(x > 1, m.asarray(np.float64("nan")), x)),
    lambda m, x: m.nanmax(m.where(x > 1, m.asarray(np.float64("nan")), x)),
    lambda m, x: m.nanmin(m.where(x < 1, m.asarray(np.float64("nan")), x)),
]


class Statistics(agreement.Agreement):
    def test_floats_and_integers(self):
        random = np.random.default_rng(1)
        for dtype in ("float64", "int32", "uint8"):
            x = random.integers(-4 if dtype != "uint8" else 0, 5, (2, 3, 4)).astype(dtype)
            self.agree([(lambda x, f=f: f(knp, x), lambda x, f=f: f(np, x)) for f in ALIKE], x)

    def test_the_standards_parameters(self):
        x = np.random.default_rng(2).standard_normal((3, 5))
        self.agree(
            [
                (lambda x: knp.var(x, axis=1, correction=1), lambda x: np.var(x, axis=1, ddof=1)),
                (lambda x: knp.std(x, correction=0.5), lambda x: np.std(x, ddof=0.5)),
                (
                    lambda x: knp.cumulative_sum(x, axis=1, include_initial=True),
                    lambda x: np.concatenate([np.zeros((3, 1)), np.cumsum(x, 1)], 1),
                ),
                (
                    lambda x: knp.cumulative_prod(x, axis=0, include_initial=True),
                    lambda x: np.concatenate([np.ones((1, 5)), np.cumprod(x, 0)], 0),
                ),
                (lambda x: knp.sum(x, axis=0, dtype=knp.float32), lambda x: np.sum(x.astype(np.float32), axis=0)),
                (lambda x: knp.diff(x, prepend=0.0), lambda x: np.diff(x, prepend=0.0)),
                (lambda x: knp.diff(x, n=2, axis=0, append=x[:1]), lambda x: np.diff(x, n=2, axis=0, append=x[:1])),
            ],
            x,
            tolerance=1e-12,
        )
        self.refuses(ShapeError, "needs an axis", lambda: knp.cumulative_sum(kiln.array(x)))

    def test_long_sums_so_far(self):
        for size in (0, 1, 2, 100, 1000):
            x = np.random.default_rng(3).integers(-9, 9, size)
            self.same(knp.cumulative_sum(kiln.array(x)), np.cumsum(x))
        x = np.random.default_rng(4).standard_normal(500).astype(np.float32)
        np.testing.assert_allclose(np.asarray(knp.cumulative_sum(x)), np.cumsum(x.astype(np.float64)), atol=1e-5)

    def test_narrow_floats_are_summed_wide(self):
        x = np.full(3000, 0.1, np.float16)
        self.assertEqual(float(knp.cumulative_sum(x)[-1]), float(np.float16(x.astype(np.float32).sum())))


if __name__ == "__main__":
    unittest.main()
