"""`./dev bench first_request` at its smallest: the second start compiles nothing, and answers."""

import contextlib
import io
import pathlib
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(TESTS / "python"), str(TESTS / "bench")]

import first_request_bench


class Bench(unittest.TestCase):
    def test_small(self):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            status = first_request_bench.main(["--models=magika,silero_vad", "--starts=1"])
        ready, _, *rows = printed.getvalue().splitlines()
        self.assertEqual(status, 0, printed.getvalue())
        self.assertRegex(ready, r"which compiled [1-9]\d* programs, then .*, which compiled 0$")
        self.assertEqual([row.split()[0] for row in rows], ["magika", "silero_vad"])
        for row in rows:
            median, worst, later = map(float, row.split()[1:])
            self.assertEqual(median, worst)  # of one start
            self.assertGreaterEqual(later, 0)


if __name__ == "__main__":
    unittest.main()
