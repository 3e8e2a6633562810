"""`./dev bench models` at its smallest: in each precision Kiln's numbers are onnxruntime's; wrong ones are found."""

import contextlib
import io
import pathlib
import sys
import unittest
import unittest.mock

TESTS = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(TESTS / "python"), str(TESTS / "bench"), str(TESTS / "bench" / "whole_models")]

import support

try:
    import onnxruntime  # noqa: F401
except ImportError:
    onnxruntime = None
import ml_dtypes
import numpy as np

import model_kiln
import model_party
import models
import models_bench

BESIDE = ["onnxruntime"] + ["OpenVINO"] * model_party.there("OpenVINO")


def run(*words):
    """What the bench returns, and the rows of each table that it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = models_bench.main(["--small", "--turns=1", "--threads=1", *words])
    tables = [[]]
    for line in printed.getvalue().splitlines():
        if line.startswith("|"):
            tables[-1].append([cell.strip() for cell in line.split("|")[1:-1]])
        elif not line:
            tables.append([])
    return status, printed.getvalue(), [table[2:] for table in tables]


@unittest.skipUnless(support.KILND.exists() and onnxruntime, "wants kilnd and onnxruntime")
class Bench(unittest.TestCase):
    def small(self, precision):
        status, printed, (rows, firsts) = run("--precision=" + precision, "--on=" + ",".join(["Kiln", *BESIDE]))
        self.assertEqual(status, 0, printed)
        beside = [on for on in BESIDE if precision in model_party.LIBRARIES[on].precisions]
        self.assertEqual([row[:4] for row in rows],
                         [[model, precision, "1", on]
                          for model in models.MODELS for on in ["Kiln", *beside]])  # fmt: skip
        for row in rows:  # but for the float32 model itself, it is not without roundings that it is near
            self.assertLess(float(row[8]), models_bench.TOLERANCE[precision])
            self.assertTrue(precision == "float32" or float(row[8]) > 1e-4, row)
        self.assertEqual([row[:3] for row in firsts], [[model, precision, "1"] for model in models.MODELS])
        for row in firsts:
            *parts, rest, whole, compiled, megabytes = map(float, row[3:])
            self.assertAlmostEqual(sum(parts) + rest, whole, delta=0.06)  # two digits of each
            self.assertTrue(0 < compiled <= parts[models_bench.PARTS.index("compile")] + 0.01, row)
            self.assertLess(abs(rest), 0.1 + whole / 5)
            self.assertGreater(megabytes, 1)

    def test_small_in_float32(self):
        self.small("float32")

    def test_small_in_bfloat16(self):
        self.small("bfloat16")

    def test_small_in_int8(self):
        self.small("int8")

    def test_wrong_values_are_said(self):
        with unittest.mock.patch.dict(models_bench.TOLERANCE, bfloat16=1e-6):
            status, printed, _ = run("--models=minilm", "--precision=bfloat16", "--on=Kiln")
        self.assertEqual(status, 1)
        self.assertIn("Kiln of minilm in bfloat16: values are wrong", printed)

    def test_an_unknown_name_is_refused(self):
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            models_bench.main(["--precision=float32,int4"])
        self.assertIn("int4: there are float32, bfloat16, int8", said.getvalue())

    def test_a_library_that_ends_fails_the_bench(self):
        ends = lambda *words, small: [sys.executable, "-c", "nothing"]  # noqa: E731
        with unittest.mock.patch.object(model_party, "command", ends):
            with unittest.mock.patch.object(models_bench, "prepare"):
                status, printed, (rows, *_) = run("--models=minilm", "--on=Kiln")
        self.assertEqual((status, rows), (1, []), printed)
        self.assertIn("Kiln ended before it answered: NameError", printed)


@unittest.skipUnless(support.KILND.exists(), "wants kilnd")
class Words(support.ServerTest):
    """What a product and a convolution are in each precision, beside the same in numpy."""

    def computed(self, b, make, x):
        b.graph.output(make(b.graph.param("x", x.shape, "float32")))
        names = ["w%d" % (i + 1) for i in range(len(b.arrays))]
        return self.client.compile(b.graph)(x=x, **dict(zip(names, b.arrays)))

    def product(self, b):
        x = np.random.default_rng(3).standard_normal((5, 32)).astype(np.float32)
        weight = models.Weights()((32, 7), 0.5)
        return x, weight, self.computed(b, lambda x: b.product(b.entering(x), b.factor((32, 7), 0.5)), x)

    def near(self, found, wanted):
        self.assertEqual(found.dtype, np.float32)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)

    def test_product_in_float32(self):
        x, weight, found = self.product(model_kiln.Kiln())
        self.near(found, x @ weight)

    def test_product_in_bfloat16(self):
        x, weight, found = self.product(model_kiln.Narrow())
        short = [array.astype(ml_dtypes.bfloat16).astype(np.float32) for array in (x, weight)]
        self.near(found, short[0] @ short[1])
        self.assertGreater(np.abs(found - x @ weight).max(), 1e-4)

    def test_product_in_int8(self):
        class Rows(model_kiln.Quantized):
            entering = staticmethod(lambda x: x)

        x, weight, found = self.product(Rows(()))
        across, down = np.abs(x).max(1, keepdims=True) / np.float32(127), np.abs(weight).max(0) / np.float32(127)
        sums = np.rint(x / across).astype(np.int64) @ np.rint(weight / down).astype(np.int64)
        self.near(found, sums * across * down)
        self.assertGreater(np.abs(found - x @ weight).max(), 1e-4)

    def test_convolution_in_int8(self):
        x = np.random.default_rng(3).standard_normal((1, 4, 6, 6)).astype(np.float32)
        b, scale, source = model_kiln.Quantized([0.02]), np.float32(0.02), models.Weights()
        found = self.computed(
            b, lambda x: b.conv(b.entering(x), b.factor((3, 4, 3, 3), 0.5), b.weight((3,), 0.1), 1, 1), x)  # fmt: skip
        weight, bias = source((3, 4, 3, 3), 0.5), source((3,), 0.1)
        values = np.pad(np.clip(np.rint(x / scale), -127, 127), ((0, 0), (0, 0), (1, 1), (1, 1))).astype(np.int64)
        down = np.abs(weight).max((1, 2, 3)) / np.float32(127)
        windows = np.lib.stride_tricks.sliding_window_view(values, (3, 3), (2, 3))
        sums = np.einsum("nchwij,ocij->nohw", windows, np.rint(weight / down[:, None, None, None]).astype(np.int64))
        self.near(found, sums * (scale * down)[:, None, None] + bias[:, None, None])


if __name__ == "__main__":
    unittest.main()
