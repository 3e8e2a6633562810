"""Linear algebra beside numpy's: by loops on the device, and what is read and computed here."""

import unittest

import agreement
import numpy as np

import kiln
import kiln.numpy as knp
from kiln.errors import ShapeError, Unimplemented

LA = knp.linalg


class Linalg(agreement.Agreement):
    def test_solutions(self):
        random = np.random.default_rng(1)
        for size in (1, 2, 5):
            a, b, v = (
                random.standard_normal((3, size, size)),
                random.standard_normal((3, size, 2)),
                random.standard_normal(size),
            )
            self.agree(
                [
                    (lambda a, b, v: LA.solve(a, b), lambda a, b, v: np.linalg.solve(a, b)),
                    (lambda a, b, v: LA.solve(a[0], v), lambda a, b, v: np.linalg.solve(a[0], v)),
                    (lambda a, b, v: LA.inv(a), lambda a, b, v: np.linalg.inv(a)),
                    (lambda a, b, v: LA.det(a), lambda a, b, v: np.linalg.det(a)),
                    (lambda a, b, v: tuple(LA.slogdet(a)), lambda a, b, v: tuple(np.linalg.slogdet(a))),
                    (lambda a, b, v: LA.matrix_power(a, 5), lambda a, b, v: np.linalg.matrix_power(a, 5)),
                ],
                a,
                b,
                v,
                tolerance=1e-9,
            )
        swapped = np.array([[0.0, 2.0], [3.0, 0.0]])  # whose first pivot is 0
        self.same(LA.inv(swapped), np.linalg.inv(swapped))
        for singular in (np.zeros((2, 2)), np.ones((3, 3))):
            self.assertEqual((float(LA.det(singular)), np.isfinite(np.asarray(LA.inv(singular))).all()), (0, False))

    def test_factors(self):
        random = np.random.default_rng(2)
        for shape in ((5, 3), (3, 5), (2, 3, 3)):
            x = random.standard_normal(shape)
            for mode in ("reduced", "complete"):
                for q, r in (LA.qr(kiln.array(x), mode=mode), kiln.jit(lambda x: LA.qr(x, mode=mode))(x)):
                    self.assertEqual((q.shape, r.shape), tuple(one.shape for one in np.linalg.qr(x, mode)))
                    np.testing.assert_allclose(np.asarray(q) @ np.asarray(r), x, atol=1e-13)
                    np.testing.assert_allclose(
                        np.asarray(q.mT) @ np.asarray(q),
                        np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], *q.shape[-1:] * 2)),
                        atol=1e-13,
                    )
                    np.testing.assert_array_equal(np.tril(np.asarray(r), -1), 0)
        x = random.standard_normal((2, 6, 6))
        x = x @ np.swapaxes(x, -1, -2) + np.eye(6)
        self.agree(
            [
                (LA.cholesky, np.linalg.cholesky),
                (lambda x: LA.cholesky(x, upper=True), lambda x: np.swapaxes(np.linalg.cholesky(x), -1, -2)),
            ],
            x,
            tolerance=1e-12,
        )
        self.assertTrue(np.isnan(np.asarray(LA.cholesky(-np.eye(2)))).any())

    def test_norms(self):
        x = np.random.default_rng(3).standard_normal((2, 3, 4)).astype(np.float32)
        rows = [
            (lambda x, o=o: LA.vector_norm(x, axis=1, ord=o), lambda x, o=o: np.linalg.norm(x, o, axis=1))
            for o in (2, 1, 0, 3, np.inf, -np.inf)
        ]
        rows += [
            (lambda x, o=o: LA.matrix_norm(x, ord=o), lambda x, o=o: np.linalg.norm(x, o, axis=(1, 2)))
            for o in ("fro", 1, -1, np.inf, -np.inf)
        ]
        rows += [
            (lambda x: LA.norm(x), lambda x: np.linalg.norm(x)),
            (lambda x: LA.norm(x, 1, axis=2, keepdims=True), lambda x: np.linalg.norm(x, 1, axis=2, keepdims=True)),
            (
                lambda x: LA.vector_norm(x, axis=(0, 2), keepdims=True),
                lambda x: np.sqrt((x * x).sum((0, 2), keepdims=True)),
            ),
        ]
        self.agree(rows, x)

    def test_what_is_computed_here(self):
        x = np.random.default_rng(4).standard_normal((3, 4, 4))
        symmetric, held = x + np.swapaxes(x, -1, -2), kiln.array(x)
        values, vectors = LA.eigh(kiln.array(symmetric))
        np.testing.assert_allclose(
            np.asarray(symmetric @ np.asarray(vectors)), np.asarray(vectors * values[:, None, :]), atol=1e-12
        )
        self.same(LA.eigvalsh(symmetric), np.linalg.eigvalsh(symmetric), tolerance=1e-12)
        u, s, v = LA.svd(held, full_matrices=False)
        np.testing.assert_allclose(np.asarray((u * s[:, None, :]) @ v), x, atol=1e-12)
        self.same(LA.svdvals(held), np.linalg.svd(x, compute_uv=False), tolerance=1e-12)
        self.same(LA.pinv(held), np.linalg.pinv(x), tolerance=1e-10)
        self.same(LA.matrix_rank(np.diag([1.0, 0, 2])), np.int64(2))
        self.same(LA.matrix_norm(held, ord="nuc"), np.linalg.norm(x, "nuc", axis=(1, 2)), tolerance=1e-12)
        for function in (LA.eigh, LA.svd, LA.pinv, LA.matrix_rank, lambda x: LA.matrix_norm(x, ord=2)):
            self.refuses(Unimplemented, "no part of a jitted function: it is computed by numpy", kiln.jit(function), x)

    def test_what_does_not_fit(self):
        self.refuses(ShapeError, "cholesky: of a tensor of", lambda: LA.cholesky(kiln.ones((2, 3))))
        self.refuses(Unimplemented, "more than 128 steps.*numpy.linalg.inv", lambda: LA.inv(kiln.ones((200, 200))))


if __name__ == "__main__":
    unittest.main()
