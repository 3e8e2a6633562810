"""Functions that make arrays and move elements, beside numpy's."""

import unittest

import agreement
import numpy as np

import kiln
import kiln.numpy as knp
from kiln.errors import GraphError, InvalidArgument, ShapeError, Unimplemented

CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
# Functions that are written alike of both namespaces.
MOVES = [
    lambda m, x: m.concat([x, x], axis=1),
    lambda m, x: m.concat([x, x[0]], axis=None),
    lambda m, x: m.stack([x, x], axis=2),
    lambda m, x: m.expand_dims(x, axis=1),
    lambda m, x: m.expand_dims(x, axis=(0, 3)),
    lambda m, x: m.moveaxis(x, (0, 1), (2, 0)),
    lambda m, x: m.permute_dims(x, (2, 0, 1)),
    lambda m, x: m.matrix_transpose(x),
    lambda m, x: m.reshape(x, (4, -1)),
    lambda m, x: m.flip(x),
    lambda m, x: m.flip(x, axis=(0, 2)),
    lambda m, x: m.squeeze(x[:1], axis=0),
    lambda m, x: m.ravel(x),
    lambda m, x: m.roll(x, 2),
    lambda m, x: m.roll(x, -1, axis=2),
    lambda m, x: m.roll(x, (1, 5), axis=(0, 1)),
    lambda m, x: m.roll(x, 2, axis=(1, 2)),
    lambda m, x: m.repeat(x, 3),
    lambda m, x: m.repeat(x, 2, axis=1),
    lambda m, x: m.repeat(x, [1, 0, 2], axis=1),
    lambda m, x: m.tile(x, (2, 1, 1, 3)),
    lambda m, x: m.tile(x, 2),
    lambda m, x: m.split(x, 3, axis=1),
    lambda m, x: m.split(x, [1, 3], axis=2),
    lambda m, x: m.array_split(x, 3, axis=2),
    lambda m, x: m.tril(x),
    lambda m, x: m.triu(x, k=1),
    lambda m, x: m.tril(x, k=-1),
    lambda m, x: m.broadcast_to(x, (2, 2, 3, 4)),
    lambda m, x: m.rot90(x),
    lambda m, x: m.rot90(x, 3, (1, 2)),
    lambda m, x: m.rot90(x, 2),
    lambda m, x: m.swapaxes(x, 0, 2),
    lambda m, x: m.take(x, m.asarray([3, 0]), axis=2),
    lambda m, x: m.diff(x, axis=1),
    lambda m, x: m.diff(x, n=2),
    lambda m, x: m.unstack(x, axis=1) if hasattr(m, "unstack") else list(np.moveaxis(x, 1, 0)),
    lambda m, x: list(m.meshgrid(x[0, 0], x[0, :, 0])),
    lambda m, x: list(m.meshgrid(x[0, 0], x[0, :, 0], indexing="ij")),
    lambda m, x: m.pad(x, ((1, 2), (0, 1), (3, 0))),
    lambda m, x: m.pad(x, 1, "constant", constant_values=5),
    lambda m, x: m.pad(x, 2, "edge"),
    lambda m, x: m.pad(x, (1, 3), "wrap"),
    lambda m, x: m.pad(x, ((0, 0), (2, 2), (3, 3)), "reflect"),
    lambda m, x: m.pad(x, ((5, 3), (1, 7), (0, 9)), "symmetric"),
    lambda m, x: m.pad(x, ((5, 3), (1, 7), (0, 9)), "reflect"),
]
MAKING = [
    lambda m: m.arange(5),
    lambda m: m.arange(1, 9, 3),
    lambda m: m.arange(2.0, 0, -0.5),
    lambda m: m.linspace(0, 1, 7),
    lambda m: m.linspace(1, 3, 4, endpoint=False),
    lambda m: m.linspace(0, 5, 3, dtype=m.float32),
    lambda m: m.zeros((2, 3)),
    lambda m: m.ones(4, dtype=m.int8),
    lambda m: m.full((2,), 7),
    lambda m: m.full((2,), True),
    lambda m: m.full((2, 0), 1.5),
    lambda m: m.eye(3),
    lambda m: m.eye(2, 4, k=1, dtype=m.int32),
    lambda m: m.eye(4, 2, k=-1),
    lambda m: m.tri(3, 4, k=1),
    lambda m: m.eye(2, k=1 << 40),
    lambda m: m.identity(2),
    lambda m: m.asarray([[1, 2], [3, 4]]),
    lambda m: m.asarray(2.5),
    lambda m: m.asarray([1, 2], dtype=m.float32),
]


class Moving(agreement.Agreement):
    def test_what_moves_elements(self):
        self.agree([(lambda x, f=f: f(knp, x), lambda x, f=f: f(np, x)) for f in MOVES], CUBE)
        self.agree([(lambda x, f=f: f(knp, x), lambda x, f=f: f(np, x)) for f in MOVES[:6]], CUBE > 7)

    def test_signs_of_zeros_are_moved_too(self):
        x = np.float32([-0.0, 0.0])
        self.agree(
            [
                (lambda x: knp.concat([x, x]), lambda x: np.concatenate([x, x])),
                (lambda x: knp.roll(x, 1), lambda x: np.roll(x, 1)),
            ],
            x,
        )

    def test_shifts_of_numpy_fft_run_on_the_device(self):
        shifts = [np.fft.fftshift, np.fft.ifftshift, lambda x: np.fft.fftshift(x, 1),
                  lambda x: np.fft.ifftshift(x, axes=(0, -1))]  # fmt: skip
        self.agree([(f, f) for f in shifts], CUBE)
        self.refuses(ShapeError, "fftshift: no axis 3", kiln.jit(lambda x: np.fft.fftshift(x, 3)), CUBE)
        frequencies = [lambda x: x * np.fft.fftfreq(4, 0.5), lambda x: x[0, 0, :3] * np.fft.rfftfreq(4)]
        self.agree([(f, f) for f in frequencies], CUBE)
        self.assertFalse(hasattr(knp, "fft"), "an extension of the standard is whole, or is not there")

    def test_what_makes_arrays(self):
        for made in MAKING:
            self.same(made(knp), made(np))
        for found, made in zip(kiln.jit(lambda: [made(knp) for made in MAKING])(), MAKING):
            self.same(found, made(np))
        for like in (knp.zeros_like, knp.ones_like, knp.empty_like):
            self.same(
                like(CUBE, dtype=knp.int16), getattr(np, like.__name__.replace("empty", "zeros"))(CUBE, dtype=np.int16)
            )

    def test_asarray(self):
        x = knp.asarray(CUBE)
        self.assertIs(knp.asarray(x), x)
        self.assertIsNot(knp.asarray(x, copy=True), x)
        self.refuses(ValueError, "is a copy", lambda: knp.asarray(x, dtype=knp.int32, copy=False))
        self.refuses(ValueError, "is a copy", lambda: knp.asarray(CUBE, copy=False))
        self.same(knp.asarray([x[0, 0, 0], x[0, 0, 1]]), np.float32([0, 1]))
        self.assertEqual(knp.asarray(x, device="CPU:1").device, "CPU:1")
        self.same(knp.asarray(CUBE, dtype=knp.int16), CUBE.astype(np.int16))
        self.assertEqual(float(knp.asarray(np.float64(0.1), dtype=knp.bfloat16)), 0.10009765625)
        self.same(knp.asarray(b"ab"), np.uint8([97, 98]))
        with self.assertRaises(OverflowError):
            knp.asarray(300, dtype=knp.uint8)
        self.refuses(InvalidArgument, "makes no arrays on CPU:1", kiln.jit(lambda: knp.zeros(3, device="CPU:1")))
        self.assertEqual(knp.zeros(3, device="CPU:1").device, "CPU:1")
        self.assertEqual(knp.astype(x, knp.int8, device="CPU:1").device, "CPU:1")
        self.same(knp.from_dlpack(CUBE), CUBE)
        np.testing.assert_array_equal(np.from_dlpack(x), CUBE)

    def test_indices_broadcast(self):
        places = np.int64([[[0], [2]]])
        self.agree(
            [(lambda x: knp.take_along_axis(x, places, axis=1), lambda x: np.take_along_axis(x, places, axis=1))], CUBE
        )

    def test_repeats_that_are_arrays_are_read(self):
        counts = np.array([2, 0, 1])
        self.same(knp.repeat(CUBE, kiln.array(counts), axis=1), np.repeat(CUBE, counts, axis=1))
        self.refuses(
            Unimplemented,
            "no part of a jitted function.*shape of its result",
            kiln.jit(lambda x, n: knp.repeat(x, n, axis=1)),
            CUBE,
            counts,
        )

    def test_what_does_not_fit(self):
        x = knp.asarray(CUBE)
        for error, function in (
            (ShapeError, lambda: knp.split(x, 5)),
            (ShapeError, lambda: knp.expand_dims(x, axis=5)),
            (ShapeError, lambda: knp.squeeze(x, axis=0)),
            (InvalidArgument, lambda: knp.pad(x, 1, "best")),
            (InvalidArgument, lambda: knp.repeat(x, -1)),
            (GraphError, lambda: knp.permute_dims(x, (0, 1))),
            (ShapeError, lambda: knp.tril(x[0, 0])),
            (InvalidArgument, lambda: knp.meshgrid(x, indexing="xz")),
        ):
            with self.assertRaises(error):
                function()


if __name__ == "__main__":
    unittest.main()
