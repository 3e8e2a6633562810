"""Where numpy's answers are easily missed: the ends of dtypes, tiny operands, gradients beside a branch not taken."""

import unittest

import agreement
import numpy as np

import kiln
import kiln.numpy as knp
from kiln.errors import ShapeError


class Edges(agreement.Agreement):
    def test_averages(self):
        x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        line, plane = np.float32([1, 3, 2]), np.float32([[1, 3, 2], [2, 0, 4]])
        self.agree(
            [
                (lambda x, a, b: knp.average(x, 1, a), lambda x, a, b: np.average(x, 1, a)),
                (lambda x, a, b: knp.average(x, (1, 0), b.T), lambda x, a, b: np.average(x, (1, 0), b.T)),
                (lambda x, a, b: knp.average(x, -2, [1, 3, 2]), lambda x, a, b: np.average(x, -2, [1, 3, 2])),
                (lambda x, a, b: knp.average(x, weights=x), lambda x, a, b: np.average(x, weights=x)),
            ],
            x,
            line,
            plane,
        )
        self.same(knp.average(np.float32([np.inf, 1]), weights=np.float32([1, 2])), np.float32(np.inf))
        self.refuses(ShapeError, "need an axis", lambda: knp.average(x, weights=line))
        self.refuses(ShapeError, r"weights of \(3,\) along the axes \(2,\)", lambda: knp.average(x, 2, line))

    def test_remainders_of_small_operands_of_the_other_sign(self):
        for dtype in (np.float32, np.float64):
            small = np.array([-1e-8, 1e-8, -1e-30, 1e-30, -0.0, 0.0, 3, -3], dtype)
            large = np.array([1, -1, 6.2831855, -6.2831855, 2, -2, 1e-20, -1e30], dtype)  # up to 2^69
            x, y = (part.ravel() for part in np.meshgrid(small, large))
            for name in ("remainder", "fmod"):
                found, wanted = np.asarray(getattr(knp, name)(x, y)), getattr(np, name)(x, y)
                np.testing.assert_array_equal(found, wanted)
                np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
            near = np.abs(x) <= 1e7 * np.abs(y)  # of others, the quotient has more digits than the dtype
            np.testing.assert_array_equal(np.asarray(knp.floor_divide(x, y))[near], (x // y)[near])

    def test_gradients_beside_a_branch_that_is_not_taken(self):
        for name, places in (
            ("arcsinh", {0.0: 1, 50.0: 2501**-0.5, 1e10: 1e-10}),
            ("arccosh", {1e10: 1e-10, 1.5: 1.25**-0.5}),
            ("expm1", {20.0: np.exp(20), -20.0: np.exp(-20)}),
            ("sinh", {50.0: np.cosh(50), -80.0: np.cosh(80), 0.5: np.cosh(0.5)}),
        ):
            at = np.array(list(places))
            for dtype in (np.float32, np.float64):
                found = kiln.grad(lambda x: getattr(knp, name)(x).sum())(at.astype(dtype))
                np.testing.assert_allclose(np.asarray(found), list(places.values()), rtol=1e-5, err_msg=name)
        length = kiln.grad(knp.hypot, argnums=(0, 1))
        for at in (1e-30, 1.0, 1e30):
            self.assertEqual([float(one) for one in length(np.float32(at), np.float32(0))], [1, 0])

    def test_lengths_and_angles_of_subnormal_numbers(self):
        x = np.float32([1e-39, 1e-39, 0, 3e-42, -1e-44, 1e-39])
        y = np.float32([0, 1e-39, -1e-40, 4e-42, 1e-44, 1])
        self.agree([(knp.arctan2, np.arctan2)], x, y)
        np.testing.assert_allclose(np.asarray(knp.hypot(x, y)), np.hypot(x, y), rtol=4e-6, atol=2e-45)

    def test_rows_of_nothing_but_nan(self):
        x = np.float32([[np.nan, np.nan], [np.nan, 1]])
        wanted = np.float32([np.nan, 1])
        self.same([knp.nanmax(x, axis=1), knp.nanmin(x, axis=1)], [wanted, wanted])
        self.same(knp.nanmax(x[:1], keepdims=True), np.float32([[np.nan]]))

    def test_all_of_int8(self):
        x = np.arange(-128, 128).astype(np.int8)
        for decimals in (-1, -2, -3):
            self.same(knp.round(x, decimals), np.round(x, decimals))
        a, b = np.meshgrid(x, x[x != 0])
        self.same(knp.fmod(a, b), np.fmod(a, b))
        least = np.int64([-(2**63), -(2**63), 2**63 - 1])
        self.same(knp.fmod(least, np.int64([3, -1, -(2**63)])), np.fmod(least, np.int64([3, -1, -(2**63)])))


if __name__ == "__main__":
    unittest.main()
