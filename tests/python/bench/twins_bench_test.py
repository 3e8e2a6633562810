"""`./dev bench twins --smoke`, and what it takes for too slow."""

import contextlib
import io
import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))

import twins_bench
from twins import Figures


class Bench(unittest.TestCase):
    def run_it(self, *arguments):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            status = twins_bench.main(arguments)
        return status, printed.getvalue().splitlines()

    def test_smoke(self):
        status, lines = self.run_it("--smoke")
        self.assertEqual((status, len(lines)), (0, 5))
        for example, line in zip(twins_bench.TWINS, lines[1:]):
            name, *numbers = line.split()
            theirs, ours, size, ratio, apart = map(float, numbers)
            self.assertEqual(name, example.__name__)
            self.assertGreater(min(theirs, ours, ratio), 0)
            self.assertLessEqual(size, 64)
            self.assertLess(apart, 1e-4)

    def test_slower_than_numpy_is_a_failure_where_arrays_are_large(self):
        for nbytes, ours, wanted in ((65536, 9.0, 0), (65537, 1.09, 0), (65537, 1.11, 1)):
            rows = [("heat", Figures(1.0, ours, 0.0, nbytes)), ("edges", Figures(1.0, 0.5, 0.0, 1 << 20))]
            with mock.patch.object(twins_bench, "figures", lambda options: rows):
                status, lines = self.run_it()
            self.assertEqual((status, lines[3:]), (wanted, ["above 1.1 of numpy's time: heat"][:wanted]))


if __name__ == "__main__":
    unittest.main()
