"""`./dev bench calls` at its smallest."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))

import calls_bench


class Bench(unittest.TestCase):
    def check(self, *flags):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertEqual(calls_bench.main(["--rounds=3", *flags]), 0)
        rows = [row.rsplit(None, 3) for row in printed.getvalue().splitlines()[1:]]
        self.assertEqual(len(rows), 5)
        for _, one, other, ratio in rows:
            self.assertGreater(min(float(one), float(other), float(ratio)), 0)

    def test_small(self):
        self.check()

    def test_isolation(self):
        self.check("--isolation")


if __name__ == "__main__":
    unittest.main()
