"""kiln.vmap against a loop over examples: ops, axes, trees, gradients, and what has no rule."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np
import support

import kiln
from kiln.errors import InvalidArgument, ShapeError

B = 5
R = np.random.default_rng(0)
X, Y, W = R.standard_normal((B, 3, 4)), R.standard_normal((B, 4)), R.standard_normal((4, 2))
P = R.integers(-3, 3, (B, 2))


class Vmap(support.ServerTest):
    def each(self, function, *args, in_axes=0):
        """As one after the other."""
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        examples = [[arg if axis is None else np.take(arg, at, axis) for arg, axis in zip(args, axes)] for at in range(B)]
        one = kiln.jit(function)
        wanted = np.stack([np.asarray(one(*example)) for example in examples])
        found = kiln.vmap(function, in_axes=in_axes)(*args)
        self.assertEqual((found.dtype, found.shape), (wanted.dtype, wanted.shape))
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)

    def test_ops(self):
        for function in (
            lambda x, y: x + y, lambda x, y: x * 2 - y / 3, lambda x, y: y - x.sum(), lambda x, y: x @ y, lambda x, y: y @ x.T,
            lambda x, y: x @ x.T, lambda x, y: x.sum(axis=0) + y, lambda x, y: x.max(axis=1, keepdims=True), lambda x, y: x.mean(),
            lambda x, y: x.T, lambda x, y: x.reshape(2, 6), lambda x, y: x.reshape(-1), lambda x, y: x[1], lambda x, y: x[:, ::2],
            lambda x, y: x[::-1], lambda x, y: kiln.pad(x, 1, 7), lambda x, y: kiln.stack([x[0], y, np.arange(4.0)], axis=1),
            lambda x, y: kiln.concatenate([x, x[:1]]), lambda x, y: kiln.where(x > 0, x, y), lambda x, y: kiln.softmax(x),
            lambda x, y: x.cumsum(axis=1), lambda x, y: x.argmax(axis=1), lambda x, y: y.std(), lambda x, y: kiln.tanh(x) ** 2,
            lambda x, y: x.astype("float32"), lambda x, y: y.bitcast("int64"), lambda x, y: kiln.broadcast_to(y, (2, 4)),
            lambda x, y: y * kiln.arange(4), lambda x, y: (x > 0).any(axis=0), lambda x, y: y[None, :, None] + x[:, None, :1],
        ):  # fmt: skip
            self.each(function, X, Y)

    def test_places(self):
        self.each(lambda x: x[np.array([2, 0, 2])], X)  # the same places of each
        self.each(lambda x: x[:, [3, 1]], X)
        self.each(lambda p, x: x[p], P, X[0], in_axes=(0, None))  # other places of one
        self.each(lambda p, x: x[p], P, X)  # and of each
        self.each(lambda p, x: kiln.take(x, p + 3, axis=0), P, X)  # outside reads 0
        self.each(lambda p, y: y[p[0]], P, Y)

    def test_axes(self):
        f = lambda x, w: x @ w  # noqa: E731
        self.each(f, X, W, in_axes=(0, None))
        self.each(f, np.moveaxis(X, 0, 2), W, in_axes=(2, None))
        self.each(f, np.moveaxis(X, 0, 1), R.standard_normal((4, 2, B)), in_axes=(1, -1))
        wanted = X @ W
        np.testing.assert_allclose(kiln.vmap(f, in_axes=(0, None), out_axes=2)(X, W), np.moveaxis(wanted, 0, 2), rtol=1e-9)
        np.testing.assert_allclose(kiln.vmap(f, in_axes=(0, None), out_axes=-1)(X, W), np.moveaxis(wanted, 0, -1), rtol=1e-9)

    def test_trees(self):
        f = lambda p, s: {"sum": p["x"].sum() + p["b"], "s": s, "n": 1}  # noqa: E731
        out = kiln.vmap(f, in_axes=({"x": 0, "b": None}, None), out_axes={"sum": 0, "s": None, "n": 0})({"x": X, "b": 2.0}, 7.0)
        np.testing.assert_allclose(out["sum"], X.sum((1, 2)) + 2)
        self.assertEqual((out["s"].item(), out["n"].tolist()), (7, [1] * B))
        np.testing.assert_allclose(kiln.vmap(lambda x, scale: x * scale)(Y, scale=np.arange(5.0)), Y * np.arange(5.0)[:, None])

    def test_it_composes(self):
        np.testing.assert_allclose(kiln.jit(kiln.vmap(kiln.jit(lambda x: x.sum())))(X), X.sum((1, 2)))
        outer = kiln.vmap(kiln.vmap(lambda a, b: (a * b).sum(), in_axes=(None, 0)), in_axes=(0, None))(Y, Y)
        np.testing.assert_allclose(outer, Y @ Y.T, rtol=1e-9)

        def loss(w, x, y):
            return ((kiln.tanh(x @ w) - y) ** 2).sum()

        w, x, y = Y[0], X[:, 0], np.arange(5.0)
        slopes = kiln.vmap(kiln.grad(loss), in_axes=(None, 0, 0))(w, x, y)
        wanted = np.stack([np.asarray(kiln.grad(loss)(w, x[at], y[at])) for at in range(B)])
        np.testing.assert_allclose(slopes, wanted, rtol=1e-9)
        total = kiln.grad(lambda w: kiln.vmap(loss, in_axes=(None, 0, 0))(w, x, y).sum())(w)
        np.testing.assert_allclose(total, wanted.sum(0), rtol=1e-9)

    def test_a_gradient_through_places(self):
        slopes = kiln.vmap(kiln.grad(lambda y, p: (y[p] ** 2).sum()))(Y, P)
        wanted = np.zeros_like(Y)
        for at in range(B):
            np.add.at(wanted[at], P[at], 2 * Y[at][P[at]])
        np.testing.assert_allclose(slopes, wanted, rtol=1e-9)

    def test_gradients_of_what_models_are_made_of(self):
        y = np.abs(Y) + 0.1
        for function in (kiln.softmax, kiln.gelu, kiln.layer_norm, kiln.logsumexp, kiln.erf, kiln.rsqrt, lambda y: y**2.5,
                         lambda y: y.prod(), lambda y: y.max(), lambda y: y[::-2], lambda y: y.reshape(2, 2) @ y.reshape(2, 2),
                         lambda y: kiln.take_along_axis(y, np.array([2, 1, 0]), 0), lambda y: kiln.tile(y, [2]).cumsum()):  # fmt: skip
            slope = kiln.grad(lambda y: (kiln.sin(function(y)) * 1.5).sum())
            wanted = np.stack([np.asarray(slope(one)) for one in y])
            np.testing.assert_allclose(kiln.vmap(slope)(y), wanted, rtol=1e-7, atol=1e-10)

    def test_mistakes(self):
        for error, text, call in (
            (ShapeError, r"argument \[1\] has 3 examples, another one 5", lambda: kiln.vmap(lambda x, y: x)(X, X[:3])),
            (ShapeError, "no axis 1 in a tensor of rank 1", lambda: kiln.vmap(lambda x: x, in_axes=1)(Y[0])),
            (InvalidArgument, "no argument is mapped", lambda: kiln.vmap(lambda x: x, in_axes=None)(X)),
            (InvalidArgument, "in_axes: .* is no beginning of the tree", lambda: kiln.vmap(lambda x: x, in_axes=(0, 0))(X)),
            (InvalidArgument, "out_axes is None for a result that differs", lambda: kiln.vmap(lambda x: x, out_axes=None)(X)),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                call()
        state = kiln.State(np.zeros(4))
        with self.assertRaisesRegex(NotImplementedError, "sets a State"):
            kiln.vmap(lambda y: setattr(state, "value", y))(Y)

    def test_an_op_without_a_rule_is_named(self):
        def strange(y):
            return y.graph.tensor(y.graph.node("NOOP", [y.node]), y.dtype, y.shape)

        with self.assertRaisesRegex(NotImplementedError, "no rule for the op NOOP"):
            kiln.vmap(strange)(Y)


if __name__ == "__main__":
    unittest.main()
