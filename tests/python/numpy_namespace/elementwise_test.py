"""Functions of element by element beside numpy's: values over their range, and at its ends."""

import unittest

import agreement
import numpy as np

import kiln
import kiln.numpy as knp

ODD = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-4, -1e-4, 30.0, -30.0, np.inf, -np.inf, np.nan]
UNARY = """
abs ceil floor trunc round sign signbit isnan isinf isfinite negative positive square sqrt exp exp2 expm1 log log2
log10 log1p sin tan tanh sinh cosh arcsin arccos arctan arcsinh arccosh arctanh reciprocal degrees radians real conj
logical_not
""".split()
BINARY = """
add subtract multiply divide floor_divide remainder fmod power maximum minimum copysign nextafter hypot arctan2
heaviside equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor
""".split()
INTEGERS = """
add subtract multiply divide floor_divide remainder fmod maximum minimum equal less bitwise_and bitwise_or
bitwise_xor left_shift right_shift
""".split()


class Elementwise(agreement.Agreement):
    def test_functions_of_one_float(self):
        random = np.random.default_rng(1)
        values = np.concatenate(
            [ODD, random.uniform(-1, 1, 50), random.uniform(-20, 20, 50), random.uniform(-1e-5, 1e-5, 20)]
        )
        for dtype in (np.float16, np.float32, np.float64):
            x = values.astype(dtype)
            rows = [(getattr(knp, name), getattr(np, name)) for name in UNARY]
            self.agree(rows, x, at_once=dtype is np.float32)

    def test_functions_of_two_floats(self):
        a, b = (part.ravel() for part in np.meshgrid(ODD, ODD))
        random = np.random.default_rng(2)
        a, b = np.concatenate([a, random.uniform(-9, 9, 100)]), np.concatenate([b, random.uniform(-3, 3, 100)])
        for dtype in (np.float32, np.float64):
            x, y = a.astype(dtype), b.astype(dtype)
            # Of an infinite number numpy's // says NaN, and 0 has either sign in its maximum.
            plain = np.isfinite(x) & (y != 0) & (x != 0)
            for names, kept in ((("floor_divide", "maximum", "minimum"), plain), (BINARY, slice(None))):
                rows = [
                    (getattr(knp, name), getattr(np, name))
                    for name in names
                    if kept is plain or name not in ("floor_divide", "maximum", "minimum")
                ]
                self.agree(
                    rows,
                    x[kept],
                    y[kept],
                    tolerance=2e-6 if dtype is np.float32 else 1e-14,
                    at_once=dtype is np.float32,
                )

    def test_remainders_of_floats_are_exact(self):
        random = np.random.default_rng(3)
        for dtype in (np.float16, np.float32, np.float64):
            x, y = random.uniform(-6e4, 6e4, 4000).astype(dtype), random.uniform(-3, 3, 4000).astype(dtype)
            y = np.where(y == 0, dtype(1), y)
            whole = np.round(x), np.where(np.round(y) == 0, dtype(2), np.round(y))
            for a, b in ((x, y), whole, (x * dtype(1 if dtype is np.float16 else 1e9), y)):
                for found, wanted in (
                    (kiln.array(a) % b, a % b),
                    (np.mod(kiln.array(a), b), a % b),
                    (knp.fmod(a, b), np.fmod(a, b)),
                ):
                    np.testing.assert_array_equal(np.asarray(found), wanted)
                if a is x or a is whole[0]:  # of others, the quotient has more digits than the dtype
                    np.testing.assert_array_equal(np.asarray(kiln.array(a) // b), a // b)
        self.assertEqual(float(knp.floor_divide(1.0, -np.inf)), -1)
        self.assertEqual(float(knp.floor_divide(np.inf, 2.0)), np.inf)  # the standard's

    def test_sums_of_exponentials(self):
        x, y = (np.random.default_rng(seed).uniform(-30, 30, 100) for seed in (6, 7))
        x[:4], y[:4] = [np.inf, -np.inf, np.nan, np.inf], [np.inf, -np.inf, 1, -np.inf]
        for name in ("logaddexp", "logaddexp2"):
            for found in (getattr(knp, name)(x, y), kiln.jit(getattr(knp, name))(x, y)):
                np.testing.assert_allclose(np.asarray(found), getattr(np, name)(x, y), rtol=1e-14, atol=1e-15)

    def test_integers(self):
        random = np.random.default_rng(4)
        for dtype in ("int8", "uint8", "int32", "uint64", "int64"):
            low = 0 if dtype[0] == "u" else -100
            x, y = (random.integers(low, 100, 60).astype(dtype) for _ in range(2))
            y[y == 0] = 3
            rows = [(getattr(knp, name), getattr(np, name)) for name in INTEGERS if "shift" not in name]
            rows += [
                (
                    lambda a, b, f=getattr(knp, name): f(a, b % 7),
                    lambda a, b, f=getattr(np, name): f(a, b % a.dtype.type(7)),
                )
                for name in ("left_shift", "right_shift")
            ]
            rows += [
                (lambda a, b: knp.pow(a, b % 9), lambda a, b: np.power(a, b % a.dtype.type(9))),
                (lambda a, b: knp.round(a, -1), lambda a, b: np.round(a, -1)),
                (lambda a, b: knp.abs(a), lambda a, b: np.abs(a)),
                (lambda a, b: knp.sign(b), lambda a, b: np.sign(b)),
                (lambda a, b: knp.bitwise_invert(a), lambda a, b: ~a),
            ]
            self.agree(rows, x, y, at_once=dtype == "int8")
        self.same(knp.pow(np.int8([2, 1, -1, -1, 0]), np.int8([-1, -2, -3, -2, 5])), np.int8([0, 1, -1, 1, 0]))

    def test_operators_of_floats(self):
        x, y = np.float32([7.5, -7.5, 3, 0]), np.float32([2, 2, -2.5, 1])
        rows = [
            (f, f)
            for f in (
                lambda a, b: a % b,
                lambda a, b: a // b,
                lambda a, b: 3.5 % b,
                lambda a, b: a // 2.5,
                lambda a, b: a % 2,
                lambda a, b: abs(a),
            )
        ]
        self.agree(rows, x, y)

    def test_pythons_numbers_take_the_dtype_that_they_meet(self):
        function = lambda x, n, r: (x * (r % 2.0), x * (r // 0.5), x * abs(n), x * abs(r), x * n**n, x * (2 % n))
        found = kiln.jit(function)(np.float32([1, 2]), -2, 2.5)
        self.same(
            found, [np.float32(one) for one in function(np.float32([1, 2]), -2, 2.5)[:4]] + [np.float32([0, 0])] * 2
        )

    def test_choices(self):
        x, y = np.float32([[1, -2, 3], [-4, 5, np.nan]]), np.float32([0, 10, 1])
        self.agree(
            [
                (lambda a, b: knp.clip(a, -1, 2), lambda a, b: np.clip(a, -1, 2)),
                (lambda a, b: knp.clip(a, max=b), lambda a, b: np.minimum(a, b)),
                (lambda a, b: knp.where(a > 0, a, b), lambda a, b: np.where(a > 0, a, b)),
                (lambda a, b: knp.where(a > 0, 1.5, b), lambda a, b: np.where(a > 0, np.float32(1.5), b)),
                (lambda a, b: knp.isclose(a, a + 1e-7), lambda a, b: np.isclose(a, a + np.float32(1e-7))),
                (lambda a, b: knp.isclose(a, a, equal_nan=True), lambda a, b: np.isclose(a, a, equal_nan=True)),
                (lambda a, b: knp.allclose(b, b), lambda a, b: np.bool_(True)),
                (
                    lambda a, b: knp.select([a > 2, a < 0], [b, a], 7.0),
                    lambda a, b: np.select([a > 2, a < 0], [b, a], np.float32(7.0)),
                ),
                (lambda a, b: knp.astype(a, knp.int32), lambda a, b: np.where(np.isnan(a), 0, a).astype(np.int32)),
            ],
            x,
            y,
        )

    def test_cosine_of_large_numbers(self):
        for dtype in (np.float32, np.float64):
            for most in (1, 4, 1e3, 1e6, 1e15):
                x = np.random.default_rng(5).uniform(-most, most, 2000).astype(dtype)
                error = np.abs(np.asarray(kiln.cos(kiln.array(x))) - np.cos(x.astype(np.longdouble)))
                self.assertLess(error.max(), 4 * np.finfo(dtype).eps)

    def test_gradients(self):
        for name, at in (
            ("tan", 0.7),
            ("arcsin", 0.3),
            ("arcsin", 0.8),
            ("arccos", -0.7),
            ("arctan", 3.0),
            ("sinh", 0.2),
            ("cosh", 2.0),
            ("arcsinh", -1.5),
            ("arccosh", 1.7),
            ("arctanh", 0.4),
            ("expm1", 1e-3),
            ("log1p", 1e-3),
            ("log10", 3.0),
            ("cos", 9.0),
        ):
            slope = (getattr(np, name)(at + 1e-6) - getattr(np, name)(at - 1e-6)) / 2e-6
            np.testing.assert_allclose(float(kiln.grad(getattr(knp, name))(at)), slope, rtol=1e-6, err_msg=name)
        for name, slope in (
            ("abs", 0),
            ("arctan", 1),
            ("arcsin", 1),
            ("sinh", 1),
            ("tan", 1),
            ("expm1", 1),
            ("log1p", 1),
            ("arctanh", 1),
        ):
            self.assertEqual(float(kiln.grad(getattr(knp, name))(0.0)), slope, name)
        for name in ("hypot", "arctan2", "logaddexp", "remainder", "copysign"):
            function = getattr(np, name)
            slope = (function(2.3 + 1e-6, 0.7) - function(2.3 - 1e-6, 0.7)) / 2e-6
            np.testing.assert_allclose(
                float(kiln.grad(lambda x: getattr(knp, name)(x, 0.7))(2.3)), slope, rtol=1e-6, err_msg=name
            )


if __name__ == "__main__":
    unittest.main()
