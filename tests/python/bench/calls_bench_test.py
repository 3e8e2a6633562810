"""`./dev bench calls` at its smallest."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))

import calls_bench


class Bench(unittest.TestCase):
    def test_small(self):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertEqual(calls_bench.main(["--rounds=3"]), 0)
        rows = [row.rsplit(None, 3) for row in printed.getvalue().splitlines()[1:]]
        self.assertEqual(len(rows), 5)
        for _, waited, streamed, ratio in rows:
            self.assertGreater(min(float(waited), float(streamed), float(ratio)), 0)


if __name__ == "__main__":
    unittest.main()
