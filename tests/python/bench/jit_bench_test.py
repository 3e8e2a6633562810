"""`./dev bench jit` at its smallest."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))

import jit_bench


class Bench(unittest.TestCase):
    def test_small(self):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertEqual(jit_bench.main(["--rounds=5", "--turns=2"]), 0)
        rows = [row.rsplit(None, 3) for row in printed.getvalue().splitlines()[1:]]
        self.assertEqual(len(rows), 6)
        for name, time, cpu, ratio in rows:
            self.assertGreater(min(float(time), float(ratio)), 0, name)
            self.assertGreaterEqual(float(cpu), 0, name)
        self.assertEqual(float(rows[0][3]), 1)


if __name__ == "__main__":
    unittest.main()
