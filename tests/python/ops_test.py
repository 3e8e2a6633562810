"""Every function of the graph builder, run by kilnd, gives what numpy gives: value, shape and dtype."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import numpy as np
from ops_cases import ALL, BINARY, FLOATS, INTEGERS, REDUCE, UNARY, Batch, values

import kiln


class Ops(support.ServerTest):
    def setUp(self):
        self.random = np.random.default_rng(11)

    def test_unary(self):
        for dtype in ALL:
            for shape in ((), (5,), (0, 3), (2, 3, 4)):
                batch = Batch()
                for name, function, kinds, low, high in UNARY:
                    if np.dtype(dtype).kind not in kinds:
                        continue
                    array = values(self.random, dtype, shape, low, high)
                    expected = function(array)
                    batch.add("%s %s %s" % (name, dtype, shape), getattr(kiln, name)(batch.param(array)), expected)
                batch.run(self, self.client)

    def test_binary_with_broadcasting(self):
        for dtype in ALL:
            for first, second in (((), (3,)), ((2, 3), (2, 3)), ((2, 1, 4), (3, 1)), ((0, 2), (1, 2))):
                batch = Batch()
                for name, function, kinds in BINARY:
                    if np.dtype(dtype).kind not in kinds:
                        continue
                    a, b = values(self.random, dtype, first), values(self.random, dtype, second)
                    if name in ("divide", "floor_divide", "remainder"):
                        b = np.where(b == 0, np.ones_like(b), b)
                    expected = function(a, b)
                    label = "%s %s %s %s" % (name, dtype, first, second)
                    batch.add(label, getattr(kiln, name)(batch.param(a), batch.param(b)), expected)
                batch.run(self, self.client)

    def test_mixed_dtypes_meet_as_numpy_says(self):
        for one in ALL:
            batch = Batch()
            a = values(self.random, one, (4,), 1, 4)
            x = batch.param(a)
            for other in ALL:
                b = values(self.random, other, (4,), 1, 4)
                y = batch.param(b)
                batch.add("%s + %s" % (one, other), x + y, a + b)
                batch.add("%s < %s" % (one, other), x < y, a < b)
                batch.add("astype %s %s" % (one, other), x.astype(other), a.astype(other))
            batch.run(self, self.client)

    def test_python_numbers_are_weak(self):
        for dtype in ALL:
            batch = Batch()
            a = values(self.random, dtype, (5,), 1, 4)
            x = batch.param(a)
            for name, tensor, expected in (
                ("x + 1", x + 1, a + 1), ("2 * x", 2 * x, 2 * a), ("x + 0.5", x + 0.5, a + 0.5),
                ("x + True", x + True, a + True), ("x == 2", x == 2, a == 2), ("3 > x", 3 > x, 3 > a),
                ("x / 2", x / 2, a / 2), ("x + np.int8(1)", x + np.int8(1), a + np.int8(1)),
                ("array + x", np.ones(5, "float32") + x, np.ones(5, "float32") + a),
            ):  # fmt: skip
                batch.add("%s %s" % (name, dtype), tensor, expected)
            if dtype != "bool":
                batch.add("3 - x", 3 - x, 3 - a)
                batch.add("x ** 2", x**2, a**2)
                batch.add("x ** 3", x**3, a**3)
            if dtype in INTEGERS:
                for name, tensor, expected in (("x // 2", x // 2, a // 2), ("x % 3", x % 3, a % 3),
                                               ("x << 1", x << 1, a << 1), ("x >> 1", x >> 1, a >> 1),
                                               ("x & 1", x & 1, a & 1), ("~x", ~x, ~a)):  # fmt: skip
                    batch.add(name, tensor, expected)
            batch.run(self, self.client)

    def test_power_where_and_clip(self):
        for dtype in FLOATS:
            batch = Batch()
            a, b = values(self.random, dtype, (3, 4), 1, 4), values(self.random, dtype, (4,), -2, 3)
            x, y = batch.param(a), batch.param(b)
            batch.add("x ** y", x**y, a**b)
            batch.add("x ** 0.5", x**0.5, a**0.5)
            batch.add("2 ** y", 2**y, 2**b)
            batch.add("where", kiln.where(x < 2, x, y), np.where(a < 2, a, b))
            batch.add("where number", kiln.where(x < 2, x, 7), np.where(a < 2, a, np.asarray(7, dtype)))
            batch.add("clip", x.clip(1.5, 2.5), a.clip(1.5, 2.5))
            batch.add("clip below", kiln.clip(x, 1.5), np.maximum(a, 1.5).astype(dtype))
            batch.run(self, self.client)

    def test_reductions(self):
        for dtype in ALL:
            for shape in ((3,), (2, 3, 4)):
                batch = Batch()
                a = values(self.random, dtype, shape, -2, 3)
                x = batch.param(a)
                for name, function, kinds in REDUCE:
                    if np.dtype(dtype).kind not in kinds:
                        continue
                    for axis in (None, 0, -1, (0, len(shape) - 1)) if len(shape) > 1 else (None, 0):
                        for keepdims in (False, True):
                            label = "%s %s %s %s %s" % (name, dtype, shape, axis, keepdims)
                            mine = getattr(x, name)(axis, keepdims=keepdims)
                            batch.add(label, mine, function(a, axis=axis, keepdims=keepdims))
                batch.run(self, self.client)

    def test_places_and_running_sums(self):
        for dtype in ("int32", "uint8", "float32", "float64"):
            batch = Batch()
            a = values(self.random, dtype, (3, 5))
            x = batch.param(a)
            for name in ("argmax", "argmin"):
                for axis in (None, 0, 1):
                    batch.add("%s %s" % (name, axis), getattr(x, name)(axis), getattr(np, name)(a, axis))
                batch.add(name + " kept", getattr(x, name)(1, keepdims=True), getattr(np, name)(a, 1, keepdims=True))
            for axis in (None, 0, 1, -2):
                batch.add("cumsum %s" % axis, x.cumsum(axis), np.cumsum(a, axis))
            batch.run(self, self.client)

    def test_special_values(self):
        a = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0], np.float32)
        b = a[::-1].copy()
        batch = Batch()
        x, y = batch.param(a), batch.param(b)
        with np.errstate(all="ignore"):
            for name in ("maximum", "minimum", "add", "multiply", "divide", "less", "not_equal"):
                batch.add(name, getattr(kiln, name)(x, y), getattr(np, name)(a, b))
            for name in ("isnan", "sign", "absolute", "sqrt", "exp", "log", "tanh", "floor"):
                batch.add(name, getattr(kiln, name)(x), getattr(np, name)(a))
            batch.add("max", x.max(), a.max())
            batch.add("argmax", x.argmax(), a.argmax())
        batch.run(self, self.client)

    def test_matmul(self):
        for dtype in FLOATS + ("int32", "uint8"):
            batch = Batch()
            for first, second in (((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)),
                                  ((5, 2, 3), (5, 3, 4)), ((2, 0), (0, 3))):  # fmt: skip
                a, b = values(self.random, dtype, first), values(self.random, dtype, second)
                batch.add("%s @ %s %s" % (first, second, dtype), batch.param(a) @ batch.param(b), a @ b)
            batch.run(self, self.client, {"float16": 5e-3, "float32": 1e-5, "float64": 1e-13})

    def test_models(self):
        a = self.random.normal(size=(4, 6)).astype(np.float64) * 3
        batch = Batch()
        x = batch.param(a)
        powers = np.exp(a - a.max(-1, keepdims=True))
        soft = powers / powers.sum(-1, keepdims=True)
        batch.add("softmax", kiln.softmax(x), soft)
        batch.add("softmax 0", kiln.softmax(x, 0), np.exp(a) / np.exp(a).sum(0))
        batch.add("log_softmax", kiln.log_softmax(x), np.log(soft))
        batch.add("logsumexp", kiln.logsumexp(x, 1), np.log(np.exp(a).sum(1)))
        batch.add("sigmoid", kiln.sigmoid(x), 1 / (1 + np.exp(-a)))
        batch.add("silu", kiln.silu(x), a / (1 + np.exp(-a)))
        batch.add("relu", kiln.relu(x), np.maximum(a, 0))
        batch.add("gelu", kiln.gelu(x), 0.5 * a * (1 + np.tanh(0.7978845608028654 * (a + 0.044715 * a**3))))
        normed = (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5)
        batch.add("layer_norm", kiln.layer_norm(x, 2.0, 1.0), normed * 2 + 1)
        import math

        batch.add("erf", kiln.erf(x), np.vectorize(math.erf)(a))
        batch.add("rsqrt", kiln.rsqrt(x * x + 1), 1 / np.sqrt(a * a + 1))
        batch.run(self, self.client, {"float64": 1e-13})


if __name__ == "__main__":
    unittest.main()
