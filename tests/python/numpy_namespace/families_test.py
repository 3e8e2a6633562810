"""Random numbers of families and choices beside scipy's distributions: keys are fixed, and so is what comes out."""

import unittest

import agreement
import numpy as np
from scipy import stats

import kiln
import kiln.numpy as knp
from kiln.errors import DTypeError, InvalidArgument, PlaceError, ShapeError

R = knp.random
MANY = 20000


class Families(agreement.Agreement):
    def fits(self, x, family, what=""):
        """Kolmogorov and Smirnov's test."""
        x = np.asarray(x).astype(np.float64).ravel()
        self.assertTrue(np.isfinite(x).all(), what)
        self.assertGreater(stats.kstest(x, family.cdf).pvalue, 0.01, what)

    def counts_fit(self, x, family, what=""):
        """Pearson's test, of whole numbers."""
        x = np.asarray(x)
        places = np.arange(int(family.ppf(0.001)), int(family.ppf(0.999)) + 1)
        edges = places[:: max(1, len(places) // 50)]
        seen = np.diff([0, *((x <= edge).sum() for edge in edges), len(x)])
        wanted = np.diff([0, *family.cdf(edges), 1]) * len(x)
        self.assertGreater(stats.chisquare(seen, wanted).pvalue, 0.01, what)

    def test_those_without_parameters(self):
        for dtype in ("float32", "float64"):
            self.fits(R.exponential(R.key(1), MANY, dtype), stats.expon)
            self.fits(R.gumbel(R.key(2), (100, 200), dtype), stats.gumbel_r)
            self.fits(R.laplace(R.key(3), MANY, dtype), stats.laplace)
        self.assertEqual(R.laplace(R.key(3), (2, 3), "bfloat16").dtype.name, "bfloat16")
        self.assertGreater(float(R.exponential(R.key(4), 100000).min()), 0)

    def test_truncated_normal(self):
        bounds = ((-1, 2), (-np.inf, np.inf), (-np.inf, 0.5), (5, np.inf), (-41, -40), (0.5, 0.6), (-8, 7))
        low, high = (np.float64(side)[:, None] for side in zip(*bounds))
        x = np.asarray(R.truncated_normal(R.key(5), low, high, (len(bounds), MANY), "float64"))
        for row, (lower, upper) in zip(x, bounds):
            self.assertTrue(lower <= row.min() and row.max() <= upper)
            self.fits(row, stats.truncnorm(lower, upper), (lower, upper))
        narrow = np.asarray(R.truncated_normal(R.key(6), 1.0, 1.0001, 1000))
        self.assertTrue((narrow >= np.float32(1)).all() and (narrow <= np.float32(1.0001)).all())
        self.assertTrue(np.isnan(R.truncated_normal(R.key(6), 2.0, 1.0)))

    def test_gamma(self):
        shapes = (0.05, 0.5, 1.0, 3.3, 1000.0, 1e7)
        x = np.asarray(R.gamma(R.key(12), shapes, (MANY, len(shapes)), "float64"))
        for row, a in zip(x.T, shapes):
            self.fits(row, stats.gamma(a), a)
        # The moments of 32-bit ones: a each, within five deviations of the mean.
        x = np.asarray(R.gamma(R.key(8), 2.5, (MANY,))).astype(np.float64)
        self.assertLess(abs(x.mean() - 2.5), 5 * np.sqrt(2.5 / MANY))
        self.assertLess(abs(x.var() - 2.5), 0.2)
        ends = np.asarray(R.gamma(R.key(8), [0.0, -1.0, np.nan, 2.0]))
        self.assertEqual((ends[0], np.isnan(ends).tolist()), (0, [False, True, True, False]))

    def test_13_candidates_are_enough(self):
        """Of one each, a part is good that leaves none of 13 less often than 2**-53; and for poisson none of 27."""
        x = (np.arange(200000) + 0.5) / 200000
        for a in (1.0, 1.01, 2.0, 30.0):
            d, normal = a - 1 / 3, stats.norm.ppf(x)
            v = (1 + normal / np.sqrt(9 * d)) ** 3
            bound = 0.5 * normal**2 + d * (1 - v + np.log(np.where(v > 0, v, 1)))
            good = np.where(v > 0, np.minimum(1, np.exp(np.minimum(bound, 0))), 0).mean()
            self.assertLess((1 - good) ** 13, 2.0**-53, a)
        self.assertLess(stats.poisson(10).sf(45), 2.0**-53)

    def test_beta_and_dirichlet(self):
        for a, b in ((0.1, 0.2), (2.0, 3.0), (500.0, 0.5)):
            self.fits(R.beta(R.key(9), a, b, MANY, "float64"), stats.beta(a, b), (a, b))
        alpha = [0.5, 2.0, 4.0]
        x = np.asarray(R.dirichlet(R.key(10), alpha, (MANY,), "float64"))
        self.assertEqual(x.shape, (MANY, 3))
        np.testing.assert_allclose(x.sum(-1), 1, rtol=1e-15)
        for row, a in zip(x.T, alpha):
            self.fits(row, stats.beta(a, 6.5 - a), a)
        tiny = np.asarray(R.dirichlet(R.key(11), np.full((50, 4), 1e-4)))  # of which each gamma number alone is 0
        np.testing.assert_allclose(tiny.sum(-1), 1, rtol=1e-6)

    def test_poisson(self):
        means = (0.3, 5.0, 9.99, 10.0, 37.0, 1e4, 1e9)
        x = np.asarray(R.poisson(R.key(12), means, (MANY, len(means))))
        self.assertEqual(x.dtype, np.int64)
        for row, mean in zip(x.T, means):
            self.counts_fit(row, stats.poisson(mean), mean)
        self.same(R.poisson(R.key(1), 0.0, 5), np.zeros(5, np.int64))
        self.assertEqual(R.poisson(R.key(1), 3.0, 5, "int32").dtype.name, "int32")

    def test_normals_that_go_together(self):
        mean, cov = np.array([1.0, -2.0, 0.0]), np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.5]])
        x = np.asarray(R.multivariate_normal(R.key(13), mean, cov, (MANY,), "float64"))
        self.assertEqual(x.shape, (MANY, 3))
        whitened = (x - mean) @ np.linalg.inv(np.linalg.cholesky(cov)).T
        for row in whitened.T:
            self.fits(row, stats.norm)
        np.testing.assert_allclose(np.cov(x.T), cov, atol=0.05)
        self.assertEqual(R.multivariate_normal(R.key(1), np.zeros((4, 2)), np.eye(2)).shape, (4, 2))
        self.assertTrue(np.isnan(np.asarray(R.multivariate_normal(R.key(1), [0.0], [[-1.0]]))).all())

    def test_categories(self):
        parts = np.array([0.1, 0.0, 0.6, 0.3])
        with np.errstate(divide="ignore"):
            x = np.asarray(R.categorical(R.key(14), np.log(parts), shape=(MANY,)))
        counts = np.bincount(x, minlength=4)
        self.assertEqual(counts[1], 0)
        self.assertGreater(stats.chisquare(counts[parts > 0], MANY * parts[parts > 0]).pvalue, 0.01)
        logits = np.where(np.eye(5), 0.0, -np.inf)
        self.same(R.categorical(R.key(1), logits), np.arange(5))
        self.same(R.categorical(R.key(1), logits[:, :3], axis=0, shape=(2, 3)), np.tile(np.arange(3), (2, 1)))

    def test_the_same_at_once_and_in_a_jit(self):
        calls = {
            "exponential": lambda key: R.exponential(key, 30),
            "gumbel": lambda key: R.gumbel(key, 30),
            "laplace": lambda key: R.laplace(key, 30),
            "truncated_normal": lambda key: R.truncated_normal(key, -1.0, [[2.0], [3.0]], (2, 30)),
            "gamma": lambda key: R.gamma(key, [0.3, 4.0], (30, 2)),
            "beta": lambda key: R.beta(key, 0.3, 4.0, (30,)),
            "dirichlet": lambda key: R.dirichlet(key, [1.0, 2.0, 3.0], (20,)),
            "poisson": lambda key: R.poisson(key, [3.0, 30.0], (30, 2)),
            "multivariate_normal": lambda key: R.multivariate_normal(key, [0.0, 1.0], np.eye(2) + 0.2, (30,)),
            "categorical": lambda key: R.categorical(key, [0.1, 0.2, 0.9], shape=(30,)),
            "choice": lambda key: R.choice(key, 10, (30,), p=np.arange(10) / 45),
            "without": lambda key: R.choice(key, np.arange(10.0), (5,), False, p=np.arange(10) / 45),
            "shuffle": lambda key: R.shuffle(key, np.arange(100)),
        }
        key = R.key(15)
        together = kiln.jit(lambda key: {name: call(key) for name, call in calls.items()})(key)
        for name, call in calls.items():
            np.testing.assert_array_equal(np.asarray(call(key)), np.asarray(together[name]), err_msg=name)
        # What is a parameter there is a traced value here.
        wanted = np.asarray(R.gamma(key, 2.5, 30))
        np.testing.assert_array_equal(np.asarray(kiln.jit(lambda key, a: R.gamma(key, a, 30))(key, 2.5)), wanted)
        made = kiln.jit(lambda: R.gamma(R.key(15), 2.5, 30))()
        np.testing.assert_array_equal(np.asarray(made), wanted)

    def test_nothing_of_size_0(self):
        for shape in (0, (0, 3), (2, 0)):
            wanted = np.zeros(shape)
            for x in (R.exponential(R.key(1), shape), R.gamma(R.key(1), 2.0, shape), R.beta(R.key(1), 2.0, 1.0, shape),
                      R.poisson(R.key(1), 2.0, shape), R.truncated_normal(R.key(1), 0.0, 1.0, shape),
                      R.choice(R.key(1), 3, shape), R.choice(R.key(1), 3, shape, False, [0.5, 0.5, 0.0])):  # fmt: skip
                self.assertEqual(x.shape, wanted.shape)
        self.assertEqual(R.dirichlet(R.key(1), [1.0, 1.0], (0,)).shape, (0, 2))
        self.assertEqual(R.choice(R.key(1), 0, (0,)).shape, (0,))
        self.assertEqual(R.choice(R.key(1), np.zeros((0, 2)), (0,)).shape, (0, 2))

    def test_what_does_not_fit(self):
        key = R.key(1)
        for call in (R.exponential, R.gumbel, R.laplace):
            self.refuses(DTypeError, "no numbers of int32", lambda call=call: call(key, 5, "int32"))
        self.refuses(DTypeError, "a key is a uint64", lambda: R.gamma(kiln.array(3), 1.0))
        self.refuses(ShapeError, "dirichlet: alpha of", lambda: R.dirichlet(key, 1.0))
        self.refuses(ShapeError, "gamma", lambda: R.gamma(key, [1.0, 2.0], (3,)))
        self.refuses(ShapeError, "a mean of .* and a covariance", lambda: R.multivariate_normal(key, [0.0], np.eye(2)))
        self.refuses(ShapeError, "do not broadcast|a shape of", lambda: R.categorical(key, np.zeros((2, 3)), shape=(3,)))


class Choices(agreement.Agreement):
    def test_with_replacement(self):
        for p in (None, [0.1, 0.0, 0.6, 0.3], [0.0, 0.0, 1.0, 0.0]):
            x = np.asarray(R.choice(R.key(2), 4, (MANY,), p=p))
            parts = np.full(4, 0.25) if p is None else np.array(p)
            counts = np.bincount(x, minlength=4)
            self.assertTrue((counts[parts == 0] == 0).all())
            if (parts > 0).sum() > 1:
                self.assertGreater(stats.chisquare(counts[parts > 0], MANY * parts[parts > 0]).pvalue, 0.01)
        # Of a thousand, half of which are never to be there.
        p = np.random.default_rng(1).random(1000) * (np.arange(1000) % 2)
        x = np.asarray(R.choice(R.key(2), 1000, (100, 1000), p=p / p.sum()))
        self.assertTrue((x % 2 == 1).all())

    def test_without_replacement(self):
        x = np.asarray(R.choice(R.key(3), 100, (10, 10), replace=False))
        self.assertEqual(sorted(x.ravel().tolist()), list(range(100)))
        p = np.array([0.5, 0.0, 0.3, 0.2])
        draw = kiln.jit(lambda key: R.choice(key, 4, (2,), False, p))
        pairs = np.array([np.asarray(draw(key)) for key in np.asarray(R.split(R.key(4), 2000))])
        self.assertTrue((pairs[:, 0] != pairs[:, 1]).all())
        wanted = {(a, b): p[a] * p[b] / (1 - p[a]) for a in (0, 2, 3) for b in (0, 2, 3) if a != b}
        seen = [int(((pairs[:, 0] == a) & (pairs[:, 1] == b)).sum()) for a, b in wanted]
        self.assertEqual(sum(seen), 2000)
        self.assertGreater(stats.chisquare(seen, [2000 * part for part in wanted.values()]).pvalue, 0.01)

    def test_elements_of_arrays(self):
        x = np.arange(12.0).reshape(3, 4)
        for axis in (0, 1, -1):
            found = R.choice(R.key(5), x, (2, 2), axis=axis)
            places = np.asarray(R.choice(R.key(5), x.shape[axis], (2, 2)))
            self.same(found, np.take(x, places, axis))
        self.assertIn(float(R.choice(R.key(6), [1.5, 2.5])), (1.5, 2.5))
        held = kiln.array(x)
        shuffled = np.asarray(R.shuffle(R.key(7), held, axis=1))
        np.testing.assert_array_equal(np.sort(shuffled, 1), x)
        self.same(held, x)

    def test_traced_probabilities_are_in_proportion(self):
        p = np.array([0.2, 0.5, 0.3])
        traced = kiln.jit(lambda key, p: R.choice(key, 3, (50,), p=p))
        wanted = np.asarray(R.choice(R.key(8), 3, (50,), p=p))
        np.testing.assert_array_equal(np.asarray(traced(R.key(8), p)), wanted)
        np.testing.assert_array_equal(np.asarray(traced(R.key(8), 4 * p)), wanted)
        np.testing.assert_array_equal(np.asarray(R.choice(R.key(8), 3, (50,), p=kiln.array(p))), wanted)

    def test_what_does_not_fit(self):
        key = R.key(1)
        self.refuses(InvalidArgument, "0.9 in all.*p / p.sum", lambda: R.choice(key, 2, (3,), p=[0.5, 0.4]))
        self.refuses(InvalidArgument, "the least -0.5", lambda: R.choice(key, 2, (3,), p=[1.5, -0.5]))
        self.refuses(InvalidArgument, "nan in all", lambda: R.choice(key, 2, (3,), p=[np.nan, 1.0]))
        self.refuses(InvalidArgument, "0.9 in all", lambda: R.choice(key, 2, (3,), p=kiln.array([0.5, 0.4])))
        self.refuses(InvalidArgument, "0.9 in all", lambda: kiln.jit(lambda key: R.choice(key, 2, (3,), p=[0.5, 0.4]))(key))
        self.refuses(ShapeError, "2 elements, and probabilities of", lambda: R.choice(key, 2, (3,), p=[1.0]))
        self.refuses(InvalidArgument, "3 of 2 elements", lambda: R.choice(key, 2, (3,), replace=False))
        self.refuses(InvalidArgument, "2 that differ, of 1", lambda: R.choice(key, 2, (2,), False, p=[1.0, 0.0]))
        self.refuses(InvalidArgument, "of 0 elements", lambda: R.choice(key, 0, (1,)))
        self.refuses(ShapeError, "no axis 2", lambda: R.choice(key, np.ones((2, 2)), (1,), axis=2))
        self.refuses(PlaceError, "shuffle", lambda: R.shuffle(key, np.ones(3), axis=1))


if __name__ == "__main__":
    unittest.main()
