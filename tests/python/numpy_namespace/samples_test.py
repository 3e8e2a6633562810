"""Quantiles, histograms, covariance, tables, and numpy's ways of joining, beside numpy's: at once and in a jit."""

import unittest

import agreement
import numpy as np

import kiln
import kiln.numpy as knp
from kiln.errors import InvalidArgument, KilnError, ShapeError, Unimplemented

RANDOM = np.random.default_rng(5)
TABLE = RANDOM.normal(size=(4, 9))
NARROW = TABLE.astype(np.float32)
WHOLE = RANDOM.integers(-5, 6, (3, 7))
PROBE = RANDOM.normal(size=(3, 5))


def both(*functions):
    """Rows for agree(), of functions that are written alike of both namespaces."""
    return [(lambda *x, f=f: f(knp, *x), lambda *x, f=f: f(np, *x)) for f in functions]


class Joining(agreement.Agreement):
    def test_stacks(self):
        joined = [lambda m, *x, name=name: getattr(m, name)(x) for name in ("vstack", "hstack", "dstack", "column_stack")]
        self.agree(both(*joined), TABLE, TABLE[:, ::-1])
        self.agree(both(*joined), np.arange(3), np.float32([4, 5, 6]))
        self.agree(both(joined[0]), np.arange(3), np.arange(6).reshape(2, 3))
        self.agree(both(joined[3]), np.arange(2), np.arange(6).reshape(2, 3))
        self.same(knp.vstack([[1, 2], [3, 4]]), np.vstack([[1, 2], [3, 4]]))
        self.agree(both(lambda m, a, b: m.append(a, b), lambda m, a, b: m.append(a, b, axis=1)), TABLE, TABLE)
        ranks = ("atleast_1d", "atleast_2d", "atleast_3d")
        for x in (np.float64(3), np.arange(3), TABLE, np.zeros((1, 2, 3, 4))):
            self.agree(both(*(lambda m, x, name=name: getattr(m, name)(x) for name in ranks)), x)

    def test_diagonals(self):
        shifts = (0, 1, -2, 3)
        self.agree(both(*(lambda m, x, k=k: m.diag(x, k) for k in shifts)), np.float32([1, 2, 3]))
        self.agree(both(*(lambda m, x, k=k: m.diag(x, k) for k in (*shifts, -9))), TABLE)
        self.agree(both(*(lambda m, x, k=k: m.diagflat(x, k) for k in shifts)), WHOLE)
        cube = np.arange(60).reshape(3, 4, 5)
        self.agree(both(lambda m, x: m.diagonal(x), lambda m, x: m.diagonal(x, 1, 1, 2), lambda m, x: m.diagonal(x, -1, 2, 0),
                        lambda m, x: m.trace(x), lambda m, x: m.trace(x, 1, 0, 2)), cube)  # fmt: skip
        self.refuses(ShapeError, "diag: of a tensor of rank 3", knp.diag, cube)
        self.refuses(ShapeError, "axis 1 and itself", lambda: knp.diagonal(cube, 0, 1, 1))

    def test_slopes(self):
        self.agree(both(lambda m, x: m.gradient(x), lambda m, x: m.gradient(x, 0.5), lambda m, x: m.gradient(x, 0.5, 2.0),
                        lambda m, x: m.gradient(x, axis=1), lambda m, x: m.gradient(x, 3.0, axis=(1, 0))), TABLE)  # fmt: skip
        self.agree(both(lambda m, x: m.gradient(x)), np.arange(7) ** 2)
        self.refuses(ShapeError, "two elements", knp.gradient, np.zeros(1))


class Quantiles(agreement.Agreement):
    def test_parts(self):
        shares = (0, 10, 50, 99.5, 100)
        self.agree(both(*(lambda m, x, q=q: m.percentile(x, q) for q in shares),
                        lambda m, x: m.percentile(x, [5, 95], axis=0), lambda m, x: m.quantile(x, [[0.1, 0.7]], axis=1, keepdims=True),
                        lambda m, x: m.quantile(x, 0.3, axis=(0, 1), keepdims=True), lambda m, x: m.quantile(x, 0.25, axis=-1)), TABLE)  # fmt: skip
        self.agree(both(lambda m, x: m.percentile(x, 30), lambda m, x: m.percentile(x, 30, axis=0),
                        lambda m, x: m.percentile(x, [30, 60], axis=1)), NARROW)  # fmt: skip
        self.agree(both(lambda m, x: m.percentile(x, 30), lambda m, x: m.percentile(x, 75, axis=1)), WHOLE)

    def test_methods(self):
        rows = [lambda m, x, q=q, how=how: m.quantile(x, q, axis=1, method=how)
                for how in ("linear", "lower", "higher", "nearest", "midpoint") for q in (0.0, 0.13, 0.5, 0.9)]  # fmt: skip
        self.agree(both(*rows), TABLE)
        self.agree(both(*rows), WHOLE)

    def test_not_a_number_and_infinities(self):
        x = TABLE.copy()
        x[0, 3], x[1, :4] = np.nan, np.inf
        self.agree(both(lambda m, x: m.percentile(x, 40, axis=1), lambda m, x: m.percentile(x, [0, 30], axis=1)), x)
        self.same(knp.percentile(np.float64([-np.inf, 1, np.inf]), [0, 50, 100]), np.float64([-np.inf, 1, np.inf]))  # numpy: NaN for both ends

    def test_a_part_that_is_an_array(self):
        q = np.float64([0.2, 0.8])
        self.agree(both(lambda m, x, q: m.quantile(x, q, axis=0)), TABLE, q)

    def test_refused(self):
        self.refuses(InvalidArgument, "no part of a whole", knp.quantile, TABLE, 1.5)
        self.refuses(InvalidArgument, "no part of a whole", knp.percentile, TABLE, -1)
        self.refuses(InvalidArgument, "no method", lambda: knp.quantile(TABLE, 0.5, method="weibull"))
        self.refuses(ShapeError, "of 0 elements", knp.quantile, np.zeros(0), 0.5)


class Counting(agreement.Agreement):
    def test_histograms(self):
        rows = both(lambda m, x: m.histogram(x), lambda m, x: m.histogram(x, 4), lambda m, x: m.histogram(x, bins=5, range=(-1, 1)),
                    lambda m, x: m.histogram(x, [-2.0, -0.5, 0.0, 0.1, 3.0]), lambda m, x: m.histogram(x, 3, density=True),
                    lambda m, x: m.histogram(x, 6, weights=np.ones(x.shape) * 0.5), lambda m, x: m.histogram_bin_edges(x, 7))  # fmt: skip
        self.agree(rows, TABLE)
        self.agree(rows[:4], WHOLE)
        self.agree(both(lambda m, x: m.histogram(x, 4)), np.full(5, 2.0))
        self.agree(both(lambda m, x: m.histogram(x, 4)), np.float32([0, 1, 2, 3, 4, 4, 4]))
        many = RANDOM.normal(size=20000)
        self.agree(both(lambda m, x: m.histogram(x, 50, range=(-3, 3))), many)
        self.refuses(InvalidArgument, "bins is a number", knp.histogram, TABLE, 0)
        self.refuses(InvalidArgument, "no range", lambda: knp.histogram(TABLE, 3, range=(2, 1)))

    def test_numbers_are_counted(self):
        x = np.int32([1, 4, 4, 0, 7])
        for given in (x, x.astype(np.uint8), x.astype(np.int64)):
            self.same(knp.bincount(given), np.bincount(given))
            self.same(kiln.jit(lambda x: knp.bincount(x, minlength=9))(given), np.bincount(given, minlength=9))
        self.same(knp.bincount(x, minlength=12), np.bincount(x, minlength=12))
        self.same(knp.bincount(x, weights=x * 0.5), np.bincount(x, weights=x * 0.5))
        self.same(knp.bincount([2, 2]), np.bincount([2, 2]))
        self.same(np.bincount(kiln.array(x)), np.bincount(x))
        self.same(kiln.jit(lambda x: knp.bincount(x, minlength=3))(x), np.int64([1, 1, 0]))
        wide = np.arange(300) % 300
        self.same(knp.bincount(wide.astype(np.uint16)), np.bincount(wide))
        self.refuses(Unimplemented, "without minlength", kiln.jit(lambda x: knp.bincount(x)), x)
        self.refuses(InvalidArgument, "0 or more", knp.bincount, [-1])

    def test_places_of_what_is_not_0(self):
        x = np.array([[0, 1], [2, 0]])
        self.same(knp.argwhere(x), np.argwhere(x))
        self.same(np.argwhere(kiln.array(x)), np.argwhere(x))
        self.refuses(Unimplemented, "depends on the values", kiln.jit(lambda x: knp.argwhere(x)), x)

    def test_bins(self):
        edges = np.float64([-1, 0, 0.5, 2])
        rows = both(lambda m, x, b: m.digitize(x, b), lambda m, x, b: m.digitize(x, b, right=True))
        self.agree(rows, np.float64([-3, -1, 0.25, 0.5, 2, 9]), edges)
        self.agree(rows, np.float64([[-3, -1, 0.25], [0.5, 2, 9]]), edges[::-1])
        self.agree(rows, TABLE, np.float64([0.25]))

    def test_membership(self):
        few, many = np.array([1, -3, 9]), np.arange(0, 400, 3)
        for others in (few, many, many[:0], few.reshape(1, 3)):
            self.agree(both(lambda m, x, o: m.isin(x, o), lambda m, x, o: m.isin(x, o, invert=True)), np.arange(-5, 300).reshape(5, 61), others)
        self.agree(both(lambda m, x, o: m.isin(x, o)), np.float64([np.nan, 1, -0.0]), np.float64([np.nan, 0]))
        self.same(knp.isin([1, 2], [2]), np.isin([1, 2], [2]))

    def test_numbers_for_what_is_none(self):
        x = np.array([np.nan, np.inf, -np.inf, 1.5, -0.0])
        for kind in (np.float16, np.float32, np.float64):
            self.agree(both(lambda m, x: m.nan_to_num(x), lambda m, x: m.nan_to_num(x, nan=-1.0, posinf=7.0, neginf=-8.0)), x.astype(kind))
        self.agree(both(lambda m, x: m.nan_to_num(x)), WHOLE)


class Tables(agreement.Agreement):
    def test_between_points(self):
        at, values = np.float64([-1, 0, 2, 5]), np.float64([3, -1, 4, 4])
        x = np.float64([[-2, -1, -0.5, 0], [1, 2, 5, 7]])
        rows = both(lambda m, x, a, v: m.interp(x, a, v), lambda m, x, a, v: m.interp(x, a, v, left=-9.0, right=9.0),
                    lambda m, x, a, v: m.interp(x, a, v, 0, 1))  # fmt: skip
        self.agree(rows, x, at, values)
        self.agree(rows, x.astype(np.float32), at.astype(np.float32), np.arange(4))
        self.agree(rows, x, at[1:2], values[1:2])
        self.agree(rows[:1], np.float64([np.nan, 1]), at, values)
        self.same(knp.interp([0.5, 1.5], [0.0, 1.0, 2.0], [0.0, 10.0, 0.0]), np.float64([5, 5]))
        self.same(knp.interp(0.5, [0.0, 1.0, 2.0], [0.0, 10.0, 0.0]), np.float64(5))
        self.same(knp.convolve(np.float64([1, 2]), [1.0, 1.0]), np.float64([1, 3, 2]))
        self.refuses(ShapeError, "two rows of one size", knp.interp, x, at, values[:2])

    def test_areas(self):
        theirs = getattr(np, "trapezoid", None) or np.trapz
        for ours, wanted in ((lambda y: knp.trapezoid(y), theirs), (lambda y: knp.trapezoid(y, dx=0.5, axis=0), lambda y: theirs(y, dx=0.5, axis=0)),
                             (lambda y: knp.trapezoid(y, np.arange(9.0) ** 2), lambda y: theirs(y, np.arange(9.0) ** 2))):  # fmt: skip
            self.agree([(ours, wanted)], TABLE)

    def test_covariance(self):
        rows = both(lambda m, x: m.cov(x), lambda m, x: m.cov(x, rowvar=False), lambda m, x: m.cov(x, bias=True), lambda m, x: m.cov(x, ddof=3),
                    lambda m, x: m.corrcoef(x), lambda m, x: m.corrcoef(x, rowvar=False), lambda m, x: m.cov(x[0]), lambda m, x: m.corrcoef(x[0]))  # fmt: skip
        self.agree(rows, TABLE, tolerance=1e-12)
        self.agree(rows, NARROW, tolerance=1e-12)
        self.agree(both(lambda m, x, y: m.cov(x, y), lambda m, x, y: m.corrcoef(x, y)), TABLE[0], TABLE[1], tolerance=1e-12)

    def test_convolutions(self):
        for a, v in ((5, 3), (5, 2), (3, 5), (2, 5), (4, 4), (1, 1), (6, 1)):
            for kind in (np.float64, np.int32):
                x, y = (RANDOM.integers(1, 9, size).astype(kind) for size in (a, v))
                modes = ("full", "same", "valid")
                self.agree(both(*(lambda m, x, y, mode=mode: m.convolve(x, y, mode) for mode in modes),
                                *(lambda m, x, y, mode=mode: m.correlate(x, y, mode) for mode in modes)), x, y, at_once=a == 5)  # fmt: skip
        self.agree(both(lambda m, x, y: m.convolve(x, y)), RANDOM.normal(size=300), RANDOM.normal(size=40), tolerance=1e-11)
        self.refuses(InvalidArgument, "full, same or valid", knp.convolve, [1.0], [1.0], "most")
        self.refuses(ShapeError, "each of one axis", knp.convolve, TABLE, [1.0])

    def test_dots(self):
        self.agree(both(lambda m, x, y: m.vdot(x, y)), TABLE, TABLE[::-1].copy(), tolerance=1e-12)


class ByProtocol(agreement.Agreement):
    def test_numpys_own_names_are_ours_in_a_jit(self):
        rows = (
            lambda x: np.vstack([x, x]), lambda x: np.hstack([x, x]), lambda x: np.diag(x), lambda x: np.percentile(x, 30),
            lambda x: np.quantile(x, 0.3, axis=0), lambda x: np.histogram(x, 4)[0], lambda x: np.cov(x), lambda x: np.corrcoef(x),
            lambda x: np.convolve(x[0], x[1]), lambda x: np.isin(x, [1.0]), lambda x: np.nan_to_num(x), lambda x: np.diagonal(x, 1),
            lambda x: np.trace(x), lambda x: np.interp(x, np.arange(3.0), np.arange(3.0) ** 2), lambda x: np.digitize(x, np.arange(3.0)),
            lambda x: np.gradient(x), lambda x: np.append(x, x), lambda x: np.atleast_3d(x), lambda x: np.vdot(x, x),
        )  # fmt: skip
        self.agree([(row, row) for row in rows], TABLE, tolerance=1e-12)

    def test_what_only_numpy_has_is_computed_here(self):
        held = kiln.array(TABLE)
        np.testing.assert_allclose(np.percentile(held, 30, method="weibull"), np.percentile(TABLE, 30, method="weibull"))
        np.testing.assert_allclose(np.interp(0.5, kiln.array([0.0, 1.0]), [1.0, 2.0], period=3), 1.5)


class Slopes(agreement.Agreement):
    def test_gradients_are_those_of_differences(self):
        x, weights = np.float64([0.3, -1.2, 2.1, 0.9]), np.arange(1.0, 5)
        scalars = {
            "vstack": lambda x: (knp.vstack([x, x * x]) * weights).sum(),
            "diag": lambda x: (knp.diag(x) @ weights).sum(),
            "quantile": lambda x: knp.quantile(x, 0.4),
            "percentile": lambda x: (knp.percentile(x, [20, 70]) ** 2).sum(),
            "interp": lambda x: knp.interp(x, [-2.0, 0.0, 1.0, 3.0], [1.0, 5.0, -2.0, 0.0]).sum(),
            "cov": lambda x: knp.cov(knp.vstack([x, x * x]))[0, 1],
            "corrcoef": lambda x: knp.corrcoef(knp.vstack([x, x * x]))[0, 1],
            "convolve": lambda x: (knp.convolve(x, [1.0, -2.0, 0.5], "same") * weights).sum(),
            "trapezoid": lambda x: knp.trapezoid(x * x),
            "gradient": lambda x: (knp.gradient(x) ** 2).sum(),
            "nan_to_num": lambda x: (knp.nan_to_num(x) ** 2).sum(),
            "histogram": lambda x: (knp.histogram(x, [-2.0, 0.0, 1.0, 3.0], weights=x * x)[0] * np.arange(3)).sum(),
        }
        for name, f in scalars.items():
            with self.subTest(name):
                found = kiln.jit(kiln.grad(f))(x).numpy()
                step = 1e-6
                wanted = [(float(f(x + step * row)) - float(f(x - step * row))) / (2 * step) for row in np.eye(4)]
                np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


if __name__ == "__main__":
    unittest.main()
