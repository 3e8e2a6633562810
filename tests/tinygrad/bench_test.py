"""`./dev bench tinygrad` at its smallest: a warm step is one round trip, and gives what it gave."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))

import tinygrad_bench


@unittest.skipIf(sys.version_info < (3, 11), "tinygrad 0.14 wants Python 3.11")
class Bench(unittest.TestCase):
    def test_a_warm_step_is_one_round_trip(self):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            status = tinygrad_bench.main(["--small", "--models=gpt2", "--runs=T,K,L", "--steps=2"])
        self.assertEqual(status, 0)
        heading, *rows = printed.getvalue().splitlines()
        self.assertEqual(len(rows), 3)
        for run, row in zip("TKL", rows):
            row = dict(zip(("model", "run", "first", "step", "trips", "sent", "received", "fallbacks"), row.split()))
            self.assertEqual((row["model"], row["run"], row["trips"], row["fallbacks"]), ("gpt2", run, "1", "0"))
            self.assertLess(int(row["sent"]), 1000)


if __name__ == "__main__":
    unittest.main()
