"""`./dev bench models` at its smallest: Kiln's numbers are onnxruntime's."""

import contextlib
import io
import pathlib
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(TESTS / "python"), str(TESTS / "bench")]

import support

try:
    import onnxruntime  # noqa: F401
except ImportError:
    onnxruntime = None
import models_bench


@unittest.skipUnless(support.KILND.exists() and onnxruntime, "wants kilnd and onnxruntime")
class Bench(unittest.TestCase):
    def test_small(self):
        words = ["--small", "--turns=1", "--threads=1", "--on=Kiln,onnxruntime"]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertEqual(models_bench.main(words), 0, printed.getvalue())
        rows = [line.split("|")[1:4] for line in printed.getvalue().splitlines()[2:]]
        self.assertEqual([[cell.strip() for cell in row] for row in rows],
                         [[model, "1", on] for model in ("resnet50", "gpt2") for on in ("Kiln", "onnxruntime")])  # fmt: skip


if __name__ == "__main__":
    unittest.main()
