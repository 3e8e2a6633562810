"""examples/numpy_twins.py: the twins give the same numbers, and are as short as they are said to be."""

import contextlib
import inspect
import io
import os
import pathlib
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support

sys.path.insert(0, str(support.ROOT / "examples"))

import numpy_twins


class Examples(unittest.TestCase):
    def test_twins(self):
        with support.running() as server, unittest.mock.patch.dict(os.environ, {"KILN_ADDR": server.address}):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                rows = numpy_twins.main(scale=0.25, rounds=1)
        self.assertEqual([row[0] for row in rows], ["logistic regression", "k-means", "heat equation", "convolutions"])
        self.assertEqual(len(printed.getvalue().splitlines()), 4)
        for name, theirs, ours, apart in rows:
            with self.subTest(name):
                self.assertGreater(min(theirs, ours), 0)
                self.assertLess(apart, 1e-4)

    def test_each_is_short(self):
        for function in (numpy_twins.logistic, numpy_twins.k_means, numpy_twins.heat, numpy_twins.edges._function):
            self.assertLessEqual(len(inspect.getsource(function).splitlines()), 15, function)


if __name__ == "__main__":
    unittest.main()
