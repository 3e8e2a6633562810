"""Linear algebra beside numpy's: by loops on the device, and what is read and computed here."""

import unittest

import agreement
import numpy as np

import kiln
import kiln.numpy as knp
from kiln.errors import InvalidArgument, ShapeError, Unimplemented

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
        for function in (LA.inv, LA.cholesky, LA.qr):
            self.refuses(
                Unimplemented,
                "513 by 513 in a program, which takes more than 512 steps .*call it outside",
                kiln.jit(function),
                np.eye(513),
            )


class Large(agreement.Agreement):
    """Of more rows than a block has columns."""

    def test_blocks_of_all_sizes(self):
        random = np.random.default_rng(6)
        for size, lead in ((33, (2,)), (70, ())):
            a, b = random.standard_normal((*lead, size, size)), random.standard_normal((*lead, size, 3))
            rows = [
                (lambda a, b: LA.solve(a, b), lambda a, b: np.linalg.solve(a, b)),
                (lambda a, b: LA.inv(a), lambda a, b: np.linalg.inv(a)),
                (lambda a, b: LA.det(a), lambda a, b: np.linalg.det(a)),
                (lambda a, b: tuple(LA.slogdet(a)), lambda a, b: tuple(np.linalg.slogdet(a))),
            ]
            self.agree(rows if lead else rows[1:3], a, b, tolerance=1e-9, at_once=False)
            self.agree([(LA.cholesky, np.linalg.cholesky)], a @ np.swapaxes(a, -1, -2) + np.eye(size), tolerance=1e-12, at_once=False)
        self.assertEqual(float(LA.det(np.ones((70, 70)))), 0)
        broken = np.eye(70)
        broken[40, 40] = -1
        self.assertEqual(np.isnan(LA.cholesky(broken).numpy()).any(axis=0).tolist(), [False] * 40 + [True] * 30)

    def test_reflections_of_all_shapes(self):
        random = np.random.default_rng(7)
        for shape in ((40, 70), (70, 40), (2, 33, 33), (65, 64)):
            x = random.standard_normal(shape)
            x[..., :, 3] = 0  # of which nothing is to be reflected
            for mode in ("reduced", "complete"):
                q, r = kiln.jit(lambda x: LA.qr(x, mode=mode))(x)
                self.assertEqual((q.shape, r.shape), tuple(one.shape for one in np.linalg.qr(x, mode)))
                np.testing.assert_allclose(q.numpy() @ r.numpy(), x, atol=1e-12)
                unit = np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], *q.shape[-1:] * 2))
                np.testing.assert_allclose(np.swapaxes(q.numpy(), -1, -2) @ q.numpy(), unit, atol=1e-12)
                np.testing.assert_array_equal(np.tril(r.numpy(), -1), 0)

    def test_the_largest_of_a_program(self):
        random = np.random.default_rng(8)
        a = random.standard_normal((512, 512))
        definite = a @ a.T / 512 + np.eye(512)
        self.same(kiln.jit(LA.cholesky)(definite), np.linalg.cholesky(definite), tolerance=1e-11)
        # Elimination has one step a row, of kernels that are no more than at 64 rows.
        a, b = a[:256, :256], a[0, :256]
        self.same(kiln.jit(LA.solve)(a, b), np.linalg.solve(a, b), tolerance=1e-9)

    def test_matrices_that_are_nearly_singular_lose_no_more_digits_than_numpys(self):
        random = np.random.default_rng(9)
        left, right = (np.linalg.qr(random.standard_normal((96, 96)))[0] for _ in range(2))
        for condition in (1e4, 1e8):
            a = left * np.geomspace(1, 1 / condition, 96) @ right
            wanted = random.standard_normal(96)
            b = a @ wanted
            found = kiln.jit(LA.solve)(a, b).numpy()
            ours, theirs = (abs(one - wanted).max() for one in (found, np.linalg.solve(a, b)))
            self.assertLess(ours, 100 * theirs, condition)
            self.assertLess(ours, 50 * condition * 2**-52)

    def test_slopes(self):
        x = np.random.default_rng(10).standard_normal((40, 40)) + 8 * np.eye(40)
        found = kiln.jit(kiln.grad(lambda x: LA.slogdet(x).logabsdet))(x)
        np.testing.assert_allclose(found.numpy(), np.linalg.inv(x).T, rtol=1e-9, atol=1e-12)
        found = kiln.jit(kiln.grad(lambda x: LA.cholesky(x).sum()))(x @ x.T).numpy()
        step = 1e-5 * np.diag(np.arange(1.0, 41))
        change = np.linalg.cholesky(x @ x.T + step).sum() - np.linalg.cholesky(x @ x.T - step).sum()
        np.testing.assert_allclose((found * step).sum(), change / 2, rtol=1e-6)

    def test_beyond_128_rows_numpy_computes_at_once(self):
        random = np.random.default_rng(11)
        a, b = random.standard_normal((2, 150, 150)), random.standard_normal((150, 2))
        definite = a @ np.swapaxes(a, -1, -2) + np.eye(150)
        before = self.server_log_compilations()
        self.same(LA.solve(kiln.array(a), b), np.linalg.solve(a, b))
        self.same(LA.solve(a, b[:, 0]), np.linalg.solve(a, b[:, 0]))
        self.same(LA.inv(kiln.array(a)), np.linalg.inv(a))
        self.same(LA.det(kiln.array(a)), np.linalg.det(a))
        self.same(tuple(LA.slogdet(kiln.array(a))), tuple(np.linalg.slogdet(a)))
        self.same(tuple(LA.qr(kiln.array(a), mode="complete")), tuple(np.linalg.qr(a, "complete")))
        self.same(LA.cholesky(kiln.array(definite), upper=True), np.swapaxes(np.linalg.cholesky(definite), -1, -2))
        self.same(LA.inv(kiln.array(np.eye(130, dtype=np.int32))), np.eye(130))
        self.assertEqual(LA.inv(kiln.array(a, "float16")).dtype.name, "float32")
        self.same(LA.matrix_power(kiln.array(a), -2), np.linalg.matrix_power(np.linalg.inv(a), 2))
        self.same(LA.inv(a.tolist()), np.linalg.inv(a))
        self.assertEqual(self.server_log_compilations(), before)
        # Nothing raises: NaN for the one that has no inverse, or no factor.
        a[1] = 1
        self.assertEqual(np.isnan(LA.inv(kiln.array(a)).numpy()).all((1, 2)).tolist(), [False, True])
        self.assertEqual(np.isnan(LA.solve(kiln.array(a), b).numpy()).all((1, 2)).tolist(), [False, True])
        definite[0] = -definite[0]
        self.assertEqual(np.isnan(LA.cholesky(kiln.array(definite)).numpy()).all((1, 2)).tolist(), [True, False])
        self.refuses(ShapeError, "solve: ", LA.solve, a, np.ones((149, 1)))
        self.refuses(ShapeError, "inv: of a tensor", LA.inv, np.ones((150, 149)))
        self.refuses(InvalidArgument, "qr: a mode", lambda: LA.qr(a, mode="raw"))

    def server_log_compilations(self):
        self.client.devices()  # what was sent before has come
        return sum("event=compiled" in line for line in self.server.log)


if __name__ == "__main__":
    unittest.main()
