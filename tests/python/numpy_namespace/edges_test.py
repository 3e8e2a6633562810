"""Where numpy's answers are easily missed: the ends of dtypes, tiny operands, gradients beside a branch not taken."""

import unittest

import agreement
import numpy as np

import kiln
import kiln.numpy as knp
from kiln.errors import DTypeError, InvalidArgument, ShapeError


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
            ("log1p", {0.0: 1, 1e-7: 1, 3e-16: 1, -0.25: 4 / 3, 1e10: 1e-10}),
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

    def test_rounding_of_halves_and_of_great_numbers(self):
        for dtype in (np.float16, np.float32, np.float64):
            most = 2 ** (np.finfo(dtype).nmant + 1)
            x = np.arange(-8, 8.25, 0.25).astype(dtype)
            near = np.nextafter(x, dtype(0))
            great = np.array([most / 4 - 0.5, most / 2 - 0.5, most / 2 + 1, most - 1, most, -most + 1, 0.0, -0.0])
            other = np.array([np.inf, -np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal])
            x = np.concatenate([x, near, great.astype(dtype), other.astype(dtype)])
            rounded = np.asarray(knp.round(x))
            np.testing.assert_array_equal(rounded, np.round(x))
            np.testing.assert_array_equal(np.signbit(rounded), np.signbit(np.round(x)))
        # A product is rounded before it is: 5 * 0.1 is above a half, and 0.5 in float32.
        product = kiln.jit(lambda a, b: knp.round(a * b))
        a, b = np.float32([1, 3, 5, 7, 11, 25]), np.float32([0.5, 0.5, 0.1, 0.5, 0.5, 0.1])
        self.same(product(a, b), np.round(a * b))

    def test_all_of_int8(self):
        x = np.arange(-128, 128).astype(np.int8)
        for decimals in (-1, -2, -3):
            self.same(knp.round(x, decimals), np.round(x, decimals))
        a, b = np.meshgrid(x, x[x != 0])
        self.same(knp.fmod(a, b), np.fmod(a, b))
        least = np.int64([-(2**63), -(2**63), 2**63 - 1])
        self.same(knp.fmod(least, np.int64([3, -1, -(2**63)])), np.fmod(least, np.int64([3, -1, -(2**63)])))

    def test_dtypes_by_numpys_classes(self):
        self.assertEqual((knp.finfo(np.float32).bits, knp.iinfo(np.int8).max), (32, 127))
        self.assertEqual(knp.result_type(np.int32, np.float32), knp.float64)
        self.assertTrue(knp.can_cast(np.int8, np.int16) and not knp.can_cast(np.float64, np.float32))

    def test_random_numbers_by_names_of_parameters(self):
        random, key = knp.random, knp.random.key(5)
        for one, other in (
            (random.uniform(key, shape=(2,), dtype="float64"), random.uniform(key, (2,), "float64")),
            (random.normal(key, shape=3), random.normal(key, 3)),
            (random.randint(key, (9,), low=0, high=3), random.randint(key, 9, 0, 3)),
            (random.split(key, count=3), random.split(key, 3)),
            (random.bernoulli(key, p=0.25, shape=20), random.bernoulli(key, 0.25, 20)),
            (random.permutation(key, x=5), random.permutation(key, 5)),
            (random.fold_in(key, data=5), random.fold_in(key, np.uint8(5))),
            (random.fold_in(key, 5), kiln.jit(lambda key: random.fold_in(key, 5))(key)),
        ):
            self.same(one, np.asarray(other))
        self.refuses(InvalidArgument, "data is a uint64, not -1", random.fold_in, key, -1)
        self.refuses(DTypeError, "data is an integer, not ", random.fold_in, key, np.float32(2.5))

    def test_names_are_no_modules(self):
        kind = type(np)
        self.assertEqual([name for name in knp.__all__ if isinstance(getattr(knp, name), kind)], ["linalg", "random"])
        self.assertEqual([name for name in dir(kiln) if isinstance(getattr(kiln, name), kind)], ["numpy", "served"])
        self.assertIn("sort", dir(knp))

    def test_medians(self):
        x = np.float32([[[3, 1, 2, 9], [5, np.nan, 0, 1]], [[4, 4, 1, 2], [7, 0, -1, 6]]])
        axes = ((0, 1), (2, 0), 1, None, (-1,))
        rows = [(lambda x, a=a: knp.median(x, axis=a), lambda x, a=a: np.median(x, axis=a)) for a in axes]
        kept = lambda m: lambda x: m.median(x, axis=(0, 2), keepdims=True)
        self.agree([*rows, (kept(knp), kept(np))], x, at_once=False)
        self.same(knp.median(np.zeros((2, 0), np.float32), axis=1), np.float32([np.nan, np.nan]))
        self.same(knp.median(np.zeros(0, np.int32)), np.float64(np.nan))

    def test_small_kinds(self):
        n = np.int32([3, 1])
        self.same(knp.diff(n, prepend=0.5), np.diff(n, prepend=0.5))
        self.same(knp.diff(n, append=7), np.diff(n, append=np.int32(7)))
        a, b = np.array([True, False, True]), np.array([True, True, True])
        for name in ("floor_divide", "remainder", "fmod"):
            self.same(getattr(knp, name)(a, b), getattr(np, name)(a, b))
        self.same([kiln.array(a) // b, kiln.array(a) % True], [a // b, a % True])
        whole = np.array([[2, 1], [4, 2]])
        self.same(knp.linalg.pinv(whole), np.linalg.pinv(whole), tolerance=1e-12)
        self.same(knp.linalg.matrix_rank(whole), np.linalg.matrix_rank(whole))
        for key in ((0, True), (np.array(True), 0), (slice(None), np.False_)):
            for use in (kiln.array(whole).__getitem__, kiln.jit(lambda x: x[key])):
                held = (key,) if use.__name__ == "__getitem__" else (whole,)
                self.refuses(DTypeError, "an index is an integer, not ", use, *held)

    def test_numbers_that_differ_are_one_program(self):
        random, key, row = knp.random, knp.random.key(1), np.float32([1, 2, 3])
        calls = (
            lambda step: random.fold_in(key, step),
            lambda step: random.uniform(key, 3, low=step / 2, high=9.5 + step),
            lambda step: random.bernoulli(key, step / 7, 4),
            lambda step: knp.searchsorted(row, step + 0.5),
            lambda step: knp.select([row > 2], [row], step / 3),
        )
        for call in calls:
            call(1)
        programs = kiln.current()._kept["operations"]
        before = len(programs)
        self.assertEqual(len({np.asarray(calls[0](step)).item() for step in range(9)}), 9)
        self.assertTrue((np.asarray(calls[1](4)) >= 2).all())
        self.assertFalse(np.asarray(calls[2](0)).any())
        self.assertEqual(int(calls[3](7)), 3)
        self.same(calls[4](6), np.float32([2, 2, 3]))
        self.assertEqual(len(programs), before)
        self.same(knp.searchsorted(row, 2.5), np.searchsorted(row, 2.5))
        self.same(knp.searchsorted(np.array([1, 2, 3]), 2.5), np.int64(2))
        self.same(knp.select([row > 2], [row], 0.5), np.float32([0.5, 0.5, 3]))


if __name__ == "__main__":
    unittest.main()
