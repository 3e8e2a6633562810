"""`./dev bench tinygrad` and `./dev bench sort` at their smallest.

A warm step is one round trip, and gives what it gave; what is sorted is sorted."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))

import sort_bench
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

    def test_sorts_of_every_level_are_numpys(self):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            status = sort_bench.main(["--small", "--sizes=12", "--runs=T,K,L", "--rounds=1"])
        self.assertEqual(status, 0)
        heading, *rows = [row.split() for row in printed.getvalue().splitlines()]
        self.assertEqual(heading, ["elements", "run", "cold", "s", "warm", "ms"])
        sorts = [[operation, "12", run] for operation in ("sort", "argsort", "topk", "stencil") for run in "TKL"]
        self.assertEqual([row[:3] for row in rows], [*sorts, ["keccak", "300", "T"]])
        self.assertTrue(all(float(row[3]) > 0 and float(row[4]) > 0 for row in rows))

    def test_what_takes_minutes_is_left_out_and_said(self):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertEqual(sort_bench.main(["--sizes=1000000", "--runs=CPU", "--hash=CPU", "--stencil=CPU"]), 0)
        rows = [row.split() for row in printed.getvalue().splitlines()[1:]]
        self.assertEqual([row[0] for row in rows], ["sort", "argsort", "topk", "stencil", "hash"])
        self.assertTrue(all(row[2:] == ["CPU", "left", "out", "(minutes)"] for row in rows))


if __name__ == "__main__":
    unittest.main()
