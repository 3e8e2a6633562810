"""Sorting and searching beside numpy's: by counting and by a network, ties, NaN and zeros, every dtype."""

import unittest

import agreement
import numpy as np

import kiln
import kiln.numpy as knp
from kiln.errors import InvalidArgument


def argsort(x, axis=-1, descending=False):
    """numpy's, stable both ways."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    last = x.shape[axis] - 1
    return np.flip(last - np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)


class Ordering(agreement.Agreement):
    def test_every_dtype(self):
        random = np.random.default_rng(1)
        for dtype in ("bool", "int8", "uint8", "int64", "uint64", "float16", "float32", "float64"):
            x = random.integers(0 if dtype[0] in "bu" else -9, 9, (3, 17)).astype(dtype)
            if x.dtype.kind == "f":
                x[0, :4] = [np.nan, -np.inf, np.inf, -0.0]
            rows = [
                (knp.sort, lambda x: np.take_along_axis(x, argsort(x), -1)),
                (lambda x: knp.argsort(x, descending=True), lambda x: argsort(x, descending=True)),
                (lambda x: knp.argsort(x, axis=0), lambda x: argsort(x, 0)),
            ]
            self.agree(rows, x)

    def test_long_rows(self):
        random = np.random.default_rng(2)
        for size in (65, 200):
            x = random.integers(-50, 50, (2, size)).astype(np.float32)
            x[0, ::9] = np.nan
            self.same(knp.argsort(x), argsort(x))
            self.same(knp.sort(x, descending=True), np.take_along_axis(x, argsort(x, descending=True), -1))
        extreme = np.uint64([2**64 - 1, 0, 2**63] * 30)
        self.same(knp.sort(extreme), np.sort(extreme))
        for extreme in (
            np.uint32([2**32 - 1, 0, 2**31] * 30),
            np.int32([2**31 - 1, -(2**31), 0] * 30),
            np.arange(90) % 3 == 1,
        ):
            self.same(knp.argsort(extreme), argsort(extreme))
        extreme = np.int64([2**63 - 1, -(2**63), 0] * 30)
        self.same(knp.argsort(extreme), argsort(extreme))

    def test_the_greatest_and_the_least(self):
        x = np.float32([[3, 1, 2, 3], [0, 9, -1, 4]])
        for traced in (lambda f: f, kiln.jit):
            self.same(
                traced(lambda x: knp.top_k(x, 2))(kiln.array(x)),
                (np.float32([[3, 3], [9, 4]]), np.int64([[0, 3], [1, 3]])),
            )
            self.same(
                traced(lambda x: knp.top_k(x, 3, largest=False))(kiln.array(x)),
                (np.float32([[1, 2, 3], [-1, 0, 4]]), np.int64([[1, 2, 0], [2, 0, 3]])),
            )
        self.refuses(InvalidArgument, "5 of 4", lambda: knp.top_k(kiln.array(x), 5))

    def test_places_in_what_is_sorted(self):
        random = np.random.default_rng(3)
        for size in (0, 1, 5, 16, 33):
            x = np.sort(random.integers(0, 20, size)).astype(np.float64)
            values = np.array([[-1, 0, 3.5, 7, 30, np.inf, np.nan, 19]])
            for side in ("left", "right"):
                self.agree(
                    [(lambda x, v: knp.searchsorted(x, v, side=side), lambda x, v: np.searchsorted(x, v, side=side))],
                    x,
                    values,
                )
        x, order = np.int32([5, 1, 3]), np.int64([1, 2, 0])
        self.same(
            knp.searchsorted(x, np.int32([2, 5]), sorter=order), np.searchsorted(x, np.int32([2, 5]), sorter=order)
        )

    def test_medians(self):
        x = np.float32([[3, 1, 2, 9], [np.nan, 1, 5, 0]])
        self.agree(
            [
                (lambda x: knp.median(x, axis=0), lambda x: np.median(x, axis=0)),
                (lambda x: knp.median(x, axis=1, keepdims=True), lambda x: np.median(x, axis=1, keepdims=True)),
                (lambda x: knp.median(x[0]), lambda x: np.median(x[0])),
            ],
            x,
        )

    def test_gradients_go_where_the_elements_went(self):
        slope = kiln.grad(lambda x: (knp.sort(x) * np.array([1.0, 2.0, 3.0])).sum())(np.array([5.0, -1.0, 2.0]))
        self.same(slope, np.array([3.0, 1.0, 2.0]))


if __name__ == "__main__":
    unittest.main()
