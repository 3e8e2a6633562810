"""The examples that have a numpy twin: the same numbers, and as short as they are said to be."""

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

import edges
import heat
import k_means
import logistic_regression
import twins

# Each, and a smaller size than its own.
TWINS = {logistic_regression: 2500, k_means: 25000, heat: 64, edges: 256}


class Examples(unittest.TestCase):
    def test_twins(self):
        with support.running() as server, unittest.mock.patch.dict(os.environ, {"KILN_ADDR": server.address}):
            for example, size in TWINS.items():
                with self.subTest(example.__name__), contextlib.redirect_stdout(io.StringIO()) as printed:
                    theirs, ours, apart, nbytes = example.main(size, rounds=1)
                    self.assertEqual(len(printed.getvalue().splitlines()), 1)
                    self.assertGreater(min(theirs, ours), 0)
                    self.assertLess(apart, 1e-4)
                    self.assertGreaterEqual(nbytes, 4 * size)

    def test_all_together(self):
        with contextlib.ExitStack() as stack:
            mains = [stack.enter_context(unittest.mock.patch.object(example, "main", return_value=example.__name__))
                     for example in TWINS]  # fmt: skip
            self.assertEqual(twins.main(rounds=2), [example.__name__ for example in TWINS])
            for one in mains:
                one.assert_called_once_with(rounds=2)

    def test_each_is_short(self):
        for example in TWINS:
            function = getattr(example.with_kiln, "_function", example.with_kiln)
            self.assertLessEqual(len(inspect.getsource(function).splitlines()), 15, example)


if __name__ == "__main__":
    unittest.main()
