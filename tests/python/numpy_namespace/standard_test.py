"""What the array API standard asks beside functions: namespace, dtypes, attributes; and numpy's protocols."""

import unittest

import agreement
import numpy as np

import kiln
import kiln.numpy as knp
from kiln.errors import InvalidArgument, PlaceError, ShapeError, Unimplemented

X = np.float32([[1, -2, 3], [4, 5, -6]])


class Standard(agreement.Agreement):
    def test_the_namespace(self):
        x = kiln.array(X)
        self.assertIs(x.__array_namespace__(), knp)
        self.assertIs(x.__array_namespace__(api_version="2024.12"), knp)
        with self.assertRaisesRegex(ValueError, "no version '2020.01'"):
            x.__array_namespace__(api_version="2020.01")
        self.same(kiln.jit(lambda x: x.__array_namespace__().sinh(x))(X), np.sinh(X))
        self.assertEqual(knp.__array_api_version__, "2024.12")
        for name in knp.__all__:
            self.assertTrue(hasattr(knp, name), name)

    def test_inspection(self):
        info = knp.__array_namespace_info__()
        self.assertEqual(info.devices(), ["CPU:0", "CPU:1"])
        self.assertEqual(info.default_device(), "CPU:0")
        self.assertEqual(
            info.default_dtypes(),
            {"real floating": knp.float64, "complex floating": None, "integral": knp.int64, "indexing": knp.int64},
        )
        self.assertEqual(list(info.dtypes(kind="real floating")), ["float32", "float64"])
        self.assertEqual(info.dtypes(kind="complex floating"), {})
        self.assertEqual(
            sorted(info.dtypes(kind=("bool", "unsigned integer"))), ["bool", "uint16", "uint32", "uint64", "uint8"]
        )
        self.assertEqual(knp.zeros((1,) * info.capabilities()["max dimensions"]).ndim, 64)

    def test_dtypes(self):
        for name in ("float16", "float32", "float64"):
            ours, theirs = knp.finfo(getattr(knp, name)), np.finfo(name)
            self.assertEqual(
                (ours.bits, ours.eps, ours.max, ours.min, ours.smallest_normal, ours.dtype.name),
                (theirs.bits, theirs.eps, theirs.max, theirs.min, theirs.smallest_normal, name),
            )
        self.assertEqual(knp.finfo(knp.bfloat16).max, 3.3895313892515355e38)
        self.assertEqual((knp.iinfo(kiln.array(X).astype("int8")).max, knp.iinfo("uint64").max), (127, 2**64 - 1))
        self.assertTrue(
            knp.isdtype(knp.int8, ("bool", "signed integer"))
            and knp.isdtype(knp.float16, "real floating")
            and knp.isdtype("uint8", knp.uint8)
        )
        self.assertFalse(knp.isdtype(knp.int8, "unsigned integer") or knp.isdtype(knp.float32, "complex floating"))
        for a in ("bool", "int8", "uint8", "int32", "uint64", "float32", "float64"):
            for b in ("bool", "int16", "uint32", "int64", "float16", "float64"):
                self.assertEqual(knp.result_type(a, b).name, np.result_type(a, b).name)
                self.assertEqual(knp.can_cast(a, b), np.can_cast(a, b), (a, b))
        self.assertEqual(
            (knp.result_type("int8", 3).name, knp.result_type(2.5, kiln.array(X)).name, knp.result_type(1, True).name),
            ("int8", "float32", "int64"),
        )

    def test_attributes(self):
        x = kiln.array(X)
        self.assertEqual((x.ndim, x.size, x.shape, x.device, x.dtype), (2, 6, (2, 3), "CPU:0", np.float32))
        self.same(x.T, X.T)
        self.same(kiln.array(X[None]).mT, np.swapaxes(X[None], 1, 2))
        moved = x.to_device("CPU:1")
        self.assertEqual((moved.device, x.to_device("CPU:0") is x), ("CPU:1", True))
        self.same(moved, X)
        self.assertEqual(kiln.jit(lambda x: x * len(x.device))(X).shape, (2, 3))
        self.refuses(InvalidArgument, "no values on CPU:1", kiln.jit(lambda x: x.to_device("CPU:1")), X)
        self.assertEqual(
            (complex(x[0, 1]), float(x[0, 1]), int(x[1, 0]), bool(x[0, 0]), [10, 20, 30][kiln.array(2)]),
            (-2, -2.0, 4, True, 30),
        )
        self.assertEqual(x.__dlpack_device__(), (1, 0))
        y = x
        y += 1
        y //= 2
        self.same(y, (X + 1) // 2)
        self.same(x, X)

    def test_places_outside_are_index_errors(self):
        x = kiln.array(X)
        for use in (
            lambda: x[2],
            lambda: x[0, 3],
            lambda: x[-3],
            lambda: x[0, 0, 0],
            lambda: x[..., 3],
            lambda: x[X[0] > 0],
            lambda: x[..., ...],
            lambda: x[:, 5],
            lambda: kiln.jit(lambda x: x[5])(X),
            lambda: kiln.array(1.0)[0],
            lambda: x.sum(axis=2),
            lambda: knp.expand_dims(x, axis=4),
        ):
            with self.assertRaises(IndexError):
                use()
        with self.assertRaises(ShapeError) as caught:
            x[2]
        self.assertEqual((type(caught.exception), caught.exception.code), (PlaceError, "OUT_OF_BOUNDS"))

    def test_parts(self):
        x = kiln.array(X)
        for key in (
            (1, 2),
            (0,),
            (-1, -3),
            True,
            False,
            np.True_,
            np.array(False),
            (slice(None), 1),
            None,
            ([1, 0], [2, 0]),
            (..., 0),
        ):
            self.same(x[key], X[key])
            self.same(kiln.jit(lambda x: x[key])(X), X[key])
        for key in (kiln.array(np.zeros((0, 3), bool)), kiln.array(np.zeros(0, bool))):
            self.assertEqual(x[key].size, 0)
        for key in (x > 2, kiln.array(True), kiln.array(False), kiln.array([1, 0])):
            self.same(x[key], X[np.asarray(key)])

    def test_a_class_of_ones_own_changes_no_results(self):
        class Mine(kiln.Array):
            pass

        found = kiln.array(X) + 1
        self.assertIs(type(found), kiln.Array)
        self.assertIs(type(kiln.zeros(3)), kiln.Array)
        self.same(Mine(found.client, found.buffer) * 2, (X + 1) * 2)

    def test_sets_are_read(self):
        x = np.float32([[3, 1, 3], [np.nan, 1, 7]])
        held = kiln.array(x)
        values, places, inverse, counts = np.unique(
            x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
        )
        self.same(tuple(knp.unique_all(held)), (values, places, inverse.reshape(x.shape), counts))
        self.same(tuple(knp.unique_counts(held)), (values, counts))
        self.same(tuple(knp.unique_inverse(held)), (values, inverse.reshape(x.shape)))
        self.same(knp.unique_values(held), values)
        self.same(knp.nonzero(held > 2), np.nonzero(x > 2))
        for function in (knp.unique_all, knp.unique_values, knp.nonzero, knp.flatnonzero):
            self.refuses(Unimplemented, "no part of a jitted function: the shape of its result", kiln.jit(function), x)

    def test_numpys_functions_are_ours(self):
        functions = [
            lambda x: np.arctan2(x, 2.0),
            lambda x: np.sort(x, axis=0),
            lambda x: np.argsort(x),
            lambda x: np.einsum("ij,ij->i", x, x),
            lambda x: np.roll(x, 1, 1),
            lambda x: np.pad(x, 1, mode="edge"),
            lambda x: np.median(x, axis=1),
            lambda x: np.tril(x, 1),
            lambda x: np.std(x, axis=0, ddof=1),
            lambda x: np.hypot(x, x),
            lambda x: np.isfinite(x),
            lambda x: np.remainder(x, 2.5),
            lambda x: x % 2.5,
            lambda x: np.cumprod(x, axis=1),
            lambda x: np.tensordot(x, x.T, 1),
            lambda x: np.power(x, 2),
            lambda x: np.round(x * 0.3, 1),
            lambda x: np.repeat(x, 2, axis=1),
            lambda x: np.flip(x, 1),
            lambda x: np.tan(x),
            lambda x: np.count_nonzero(x > 0, axis=0),
        ]
        self.agree([(f, f) for f in functions], X)
        methods = [
            lambda x: np.add.reduce(x),
            lambda x: np.maximum.reduce(x, axis=1, keepdims=True),
            lambda x: np.multiply.accumulate(x, axis=1),
            lambda x: np.add.outer(x, x[0]),
            lambda x: np.logical_or.reduce(x > 4, axis=None),
        ]
        self.agree([(f, f) for f in methods], X)
        square = X[:, :2] + 9 * np.eye(2, dtype=np.float32)
        for f in (np.linalg.inv, np.linalg.det, np.linalg.norm):
            self.same(kiln.jit(f)(square), f(square), tolerance=1e-5)
        self.assertIs(
            type(np.linalg.inv(kiln.array(square))), np.ndarray
        )  # numpy's own, which raises where there is none


if __name__ == "__main__":
    unittest.main()
