"""Products that sum over axes, convolutions and pools, beside numpy's and beside loops."""

import unittest

import agreement
import numpy as np

import kiln
import kiln.numpy as knp
from kiln.errors import InvalidArgument, ShapeError

EINSUMS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,kj", (3, 4), (5, 4)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
    ("...ij,...jk->...ik", (2, 3, 4), (4, 2)),
    ("ii", (3, 3)),
    ("ii->i", (4, 4)),
    ("iij->j", (3, 3, 2)),
    ("ij->ji", (2, 3)),
    ("i,j->ij", (3,), (2,)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("ij->", (2, 3)),
    ("ba,b", (2, 3), (2,)),
    ("i...->...", (3, 2, 2)),
    ("ijk,k->ij", (2, 3, 4), (4,)),
    ("ab,cd->", (2, 3), (2, 2)),
]


def convolved(x, w, stride, padding, dilation, groups):
    x = np.pad(x, ((0, 0), (0, 0), (padding,) * 2, (padding,) * 2))
    reach = [dilation * (size - 1) + 1 for size in w.shape[2:]]
    counts = [(size - long) // stride + 1 for size, long in zip(x.shape[2:], reach)]
    found = np.zeros((x.shape[0], w.shape[0], *counts), x.dtype)
    each = w.shape[0] // groups
    for result in range(w.shape[0]):
        part = x[:, result // each * w.shape[1] : (result // each + 1) * w.shape[1]]
        for i in range(counts[0]):
            for j in range(counts[1]):
                window = part[
                    :, :, i * stride : i * stride + reach[0] : dilation, j * stride : j * stride + reach[1] : dilation
                ]
                found[:, result, i, j] = (window * w[result]).sum((1, 2, 3))
    return found


class Products(agreement.Agreement):
    def test_einsum(self):
        random = np.random.default_rng(1)
        for subscripts, *shapes in EINSUMS:
            arrays = [random.standard_normal(shape) for shape in shapes]
            self.agree([(lambda *x: knp.einsum(subscripts, *x), lambda *x: np.einsum(subscripts, *x))], *arrays)
        self.same(knp.einsum("ij,j->i", np.int8([[1, 2]]), np.int8([3, 4])), np.int8([11]))
        for wrong in ("ij,jk->iz", "ij->ij", "ijk,jk", "ij,jk->ii"):
            self.refuses(InvalidArgument, "einsum", lambda: knp.einsum(wrong, kiln.ones((2, 2)), kiln.ones((2, 2))))

    def test_sums_over_axes(self):
        random = np.random.default_rng(2)
        x, y = random.standard_normal((2, 3, 4)), random.standard_normal((4, 3, 2))
        self.agree(
            [
                (lambda x, y: knp.tensordot(x, y, axes=1), lambda x, y: np.tensordot(x, y, axes=1)),
                (
                    lambda x, y: knp.tensordot(x, y, axes=((1, 2), (1, 0))),
                    lambda x, y: np.tensordot(x, y, axes=((1, 2), (1, 0))),
                ),
                (lambda x, y: knp.tensordot(x, y, axes=0), lambda x, y: np.tensordot(x, y, axes=0)),
                (lambda x, y: knp.vecdot(x, y[:, :, 0].T), lambda x, y: (x * y[:, :, 0].T).sum(-1)),
                (lambda x, y: knp.vecdot(x, x, axis=0), lambda x, y: (x * x).sum(0)),
                (lambda x, y: knp.inner(x[0], x[1]), lambda x, y: np.inner(x[0], x[1])),
                (lambda x, y: knp.linalg.outer(x[0, 0], y[0, 0]), lambda x, y: np.outer(x[0, 0], y[0, 0])),
                (lambda x, y: knp.kron(x[0], y[0]), lambda x, y: np.kron(x[0], y[0])),
                (lambda x, y: knp.linalg.cross(y[:, :, 0], x[0].T), lambda x, y: np.cross(y[:, :, 0], x[0].T)),
                (lambda x, y: knp.linalg.trace(x, offset=1), lambda x, y: np.trace(x, 1, -2, -1)),
                (lambda x, y: knp.linalg.diagonal(x, offset=-1), lambda x, y: np.diagonal(x, -1, -2, -1)),
                (lambda x, y: knp.matmul(x, y[:, :, 0]), lambda x, y: np.matmul(x, y[:, :, 0])),
            ],
            x,
            y,
        )
        self.refuses(ShapeError, "not vectors of 3", lambda: knp.linalg.cross(kiln.ones(2), kiln.ones(2)))

    def test_convolutions(self):
        random = np.random.default_rng(3)
        for channels, results, groups, size, kernel, stride, padding, dilation in (
            (3, 4, 1, (7, 8), (3, 2), 1, 0, 1),
            (2, 2, 1, (9, 9), (3, 3), 2, 1, 1),
            (4, 6, 2, (8, 7), (2, 3), 1, 2, 2),
            (3, 3, 3, (6, 6), (3, 3), 3, 1, 1),
        ):
            x, w = (
                random.standard_normal((2, channels, *size)),
                random.standard_normal((results, channels // groups, *kernel)),
            )
            self.agree(
                [
                    (
                        lambda x, w: knp.conv(x, w, stride=stride, padding=padding, dilation=dilation, groups=groups),
                        lambda x, w: convolved(x, w, stride, padding, dilation, groups),
                    )
                ],
                x,
                w,
                tolerance=1e-12,
            )
        x, w = random.standard_normal((1, 2, 9)), random.standard_normal((3, 2, 4))
        wanted = np.stack([sum(np.correlate(x[0, c], w[r, c]) for c in range(2)) + r for r in range(3)])[None]
        self.agree([(lambda x, w: knp.conv(x, w, np.arange(3.0)), lambda x, w: wanted)], x, w, tolerance=1e-12)
        slope = kiln.grad(lambda w: (knp.conv(x, w) ** 2).sum())(w)
        step = np.zeros_like(w)
        step[1, 0, 2] = 1e-5
        value = lambda w: float((knp.conv(x, w) ** 2).sum())
        self.assertAlmostEqual(float(slope[1, 0, 2]), (value(w + step) - value(w - step)) / 2e-5, 4)
        self.refuses(ShapeError, "conv: of", lambda: knp.conv(kiln.ones((1, 3, 4)), kiln.ones((1, 2, 2))))
        self.refuses(ShapeError, "a window of 5", lambda: knp.conv(kiln.ones((1, 1, 4)), kiln.ones((1, 1, 5))))

    def test_pools(self):
        x = np.random.default_rng(4).standard_normal((2, 3, 6, 8))
        blocks = lambda x: x.reshape(2, 3, 3, 2, 4, 2)
        windows = lambda x: np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::2, ::2]
        padded = lambda x, value: np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=value)
        self.agree(
            [
                (lambda x: knp.max_pool(x, 2), lambda x: blocks(x).max((3, 5))),
                (lambda x: knp.avg_pool(x, 2), lambda x: blocks(x).mean((3, 5))),
                (lambda x: knp.max_pool(x, 3, stride=2, padding=1), lambda x: windows(padded(x, -np.inf)).max((4, 5))),
                (
                    lambda x: knp.avg_pool(x, (3, 3), stride=2, padding=((1, 1), (1, 1))),
                    lambda x: windows(padded(x, 0.0)).mean((4, 5)),
                ),
            ],
            x,
        )
        self.same(knp.max_pool(np.int8([[[-5, -7, 3]]]), 2, stride=1, padding=1), np.int8([[[-5, -5, 3, 3]]]))


if __name__ == "__main__":
    unittest.main()
