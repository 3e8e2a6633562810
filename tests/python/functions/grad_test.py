"""Gradients of functions of trees, against differences and what is known; composed with jit and each other."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np
import support

import kiln
from kiln.errors import DTypeError, GraphError, InvalidArgument, ShapeError, UnsupportedDType


def net(p, x):
    return kiln.tanh(x @ p["w"][0] + p["b"]) @ p["w"][1]


def loss(p, x, y):
    return ((net(p, x) - y) ** 2).mean()


def numpy_loss(p, x, y):
    return ((np.tanh(x @ p["w"][0] + p["b"]) @ p["w"][1] - y) ** 2).mean()


def differences(function, p, *rest):
    """The gradient by each leaf, from two values beside."""
    leaves, tree = kiln.tree_flatten(p)
    slopes = []
    for at, leaf in enumerate(leaves):
        slope = np.zeros_like(leaf)
        for place in np.ndindex(leaf.shape):
            sides = []
            for step in (1e-6, -1e-6):
                moved = [one.copy() for one in leaves]
                moved[at][place] += step
                sides.append(function(kiln.tree_unflatten(tree, moved), *rest))
            slope[place] = (sides[0] - sides[1]) / 2e-6
        slopes.append(slope)
    return kiln.tree_unflatten(tree, slopes)


class Grad(support.ServerTest):
    def setUp(self):
        r = np.random.default_rng(0)
        self.p = {"w": [r.standard_normal((3, 5)), r.standard_normal(5)], "b": r.standard_normal(5)}
        self.x, self.y = r.standard_normal((8, 3)), r.standard_normal(8)

    def close(self, found, wanted, **limits):
        (a, form), (b, other) = kiln.tree_flatten(found), kiln.tree_flatten(wanted)
        self.assertEqual(form, other)
        for one, two in zip(a, b):
            np.testing.assert_allclose(one, two, **(limits or {"rtol": 1e-5, "atol": 1e-8}))

    def test_of_a_tree(self):
        wanted = differences(numpy_loss, self.p, self.x, self.y)
        args = self.p, self.x, self.y
        self.close(kiln.grad(loss)(*args), wanted)
        self.close(kiln.jit(kiln.grad(loss))(*args), wanted)
        self.close(kiln.grad(kiln.jit(loss))(*args), wanted)
        value, slopes = kiln.jit(lambda *args: kiln.value_and_grad(loss)(*args))(*args)
        np.testing.assert_allclose(value, numpy_loss(*args), rtol=1e-9)
        self.close(slopes, wanted)

    def test_argnums(self):
        f = lambda a, b, n: (a * b**2).sum() * n  # noqa: E731
        a, b = np.array([1.0, 2.0]), np.array([3.0, 5.0])
        self.close(kiln.grad(f, argnums=1)(a, b, 2), 4 * a * b)
        self.close(kiln.grad(f, argnums=(1, 0))(a, b, 2), (4 * a * b, 2 * b**2))
        self.close(kiln.grad(f, argnums=(0, 1))(a, b, n=2), (2 * b**2, 4 * a * b))

    def test_more_results(self):
        def f(x, scale):
            y = x * scale
            return (y**2).sum(), {"y": y, "n": 3, "kept": scale}

        (value, more), slope = kiln.value_and_grad(f, has_aux=True)(np.array([1.0, 2.0]), 3.0)
        self.assertEqual((value.item(), more["y"].tolist(), more["n"].item(), more["kept"].item()), (45, [3, 6], 3, 3))
        self.assertEqual(slope.tolist(), [18, 36])
        slope, more = kiln.jit(kiln.grad(f, has_aux=True))(np.array([1.0, 2.0]), 3.0)
        self.assertEqual((slope.tolist(), more["y"].tolist()), ([18, 36], [3, 6]))

    def test_of_a_gradient(self):
        cube = lambda x: x**3  # noqa: E731
        self.assertEqual(kiln.grad(cube)(2.0).item(), 12)
        self.assertEqual(kiln.grad(kiln.grad(cube))(2.0).item(), 12)
        self.assertEqual(kiln.grad(kiln.grad(kiln.grad(cube)))(2.0).item(), 6)
        # Along a direction: the Hessian of sum(x**4) times v.
        x, v = np.array([1.0, 2.0]), np.array([1.0, 10.0])
        product = kiln.jit(kiln.grad(lambda x, v: (kiln.grad(lambda x: (x**4).sum())(x) * v).sum()))
        self.close(product(x, v), 12 * x**2 * v)

    def test_by_what_a_function_finds_there_is_none(self):
        scale = kiln.array(3.0)

        def outer(x, w):
            inner = kiln.grad(lambda w: (w * x * scale).sum())(w)  # x is of the outer function
            return (inner * x).sum()

        x, w = np.array([1.0, 2.0]), np.array([5.0, 7.0])
        self.close(kiln.jit(outer)(x, w), 3 * (x * x).sum())
        self.close(kiln.grad(outer, argnums=(0, 1))(x, w), (6 * x, 0 * w))

    def test_what_does_not_matter_has_zeros(self):
        self.close(kiln.grad(lambda p: (p["a"] * 2).sum())({"a": np.ones(2), "b": np.ones(3)}), {"a": np.full(2, 2), "b": np.zeros(3)})
        self.close(kiln.grad(lambda x: 1.5)(np.ones(2)), np.zeros(2))

    def test_through_detach_there_is_none(self):
        x = np.array([1.0, 2.0])
        self.close(kiln.grad(lambda x: (x * kiln.detach(x)).sum())(x), x)
        np.testing.assert_array_equal(kiln.detach(kiln.array(x)), x)

    def test_a_function_is_run_anew_where_it_is_not_jitted(self):
        factor = [2.0]
        slope = kiln.grad(lambda x: x * factor[0])
        self.assertEqual(slope(1.0).item(), 2)
        factor[0] = 3.0
        self.assertEqual(slope(1.0).item(), 3)

    def test_equal_gradients_are_asked_for_once(self):
        asked = lambda: self.client.traffic["KernelService.Gradient"].calls  # noqa: E731
        kiln.grad(lambda x: (x**2 + 7.5).sum())(np.ones(3))
        before = asked()
        for _ in range(3):
            self.assertEqual(kiln.grad(lambda x: (x**2 + 7.5).sum())(np.ones(3)).tolist(), [2] * 3)
        self.assertEqual(asked(), before)

    def test_training(self):
        """Of numpy's own steps, the same weights."""
        r = np.random.default_rng(1)
        x = r.standard_normal((64, 4))
        y = (x @ np.array([1.0, -2, 3, 0]) > 0).astype(np.float64)

        def logistic(w):
            z = x @ w
            return (kiln.log(1 + kiln.exp(z)) - y * z).mean()

        step = kiln.jit(lambda w: w - 0.5 * kiln.grad(logistic)(w), donate_argnums=0)
        w, wanted = np.zeros(4), np.zeros(4)
        for _ in range(30):
            w = step(w)
            wanted = wanted - 0.5 * x.T @ (1 / (1 + np.exp(-x @ wanted)) - y) / len(y)
        self.close(w, wanted)

    def test_what_is_no_argument_is_let_in_otherwise(self):
        for function in (kiln.grad(lambda x, how: x * 2), kiln.vmap(lambda x, how: x * 2)):
            with self.assertRaisesRegex(UnsupportedDType, "let the function find it outside"):
                function(np.ones(3), "max")

    def test_mistakes(self):
        x = np.ones(2)
        for error, text, function, args in (
            (ShapeError, r"its value is \(2,\), not one number.*sum\(\)", lambda x: x, (x,)),
            (DTypeError, "argument .0. is int64, and only floats", lambda x: x.sum(), (np.arange(2),)),
            (DTypeError, r"argument .0.\['n'\] is int64", lambda p: p["x"] * 1.0, ({"x": 1.0, "n": 1},)),
            (DTypeError, "its value is int64, no float", lambda x: x.astype("int64").sum(), (x,)),
            (InvalidArgument, "it returns one float, not .*has_aux", lambda x: (x.sum(), 1), (x,)),
        ):
            with self.subTest(text=text), self.assertRaisesRegex(error, text):
                kiln.grad(function)(*args)
        with self.assertRaisesRegex(InvalidArgument, "by argument 1 of 1"):
            kiln.grad(lambda x: x, argnums=1)(x)
        with self.assertRaisesRegex(InvalidArgument, r"returns \(value, more\)"):
            kiln.grad(lambda x: x.sum(), has_aux=True)(x)
        with self.assertRaisesRegex(InvalidArgument, "have no derivative"):
            kiln.grad(lambda x: x.bitcast("int64").bitcast("float64").sum())(x)
        left = []

        def leaks(x):
            left.append(x * 2)
            return x.sum()

        with self.assertRaisesRegex(GraphError, "a traced value has left a function that is differentiated"):
            kiln.jit(lambda x: (kiln.grad(leaks)(x), left[-1]))(x)


if __name__ == "__main__":
    unittest.main()
