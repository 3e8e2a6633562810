"""no_contraction: a jitted step and the same operations run one by one are equal to the last bit."""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import device
import support

STEP = """
import sys
import numpy as np
import kiln.tinygrad
from tinygrad import Tensor, TinyJit

if "by_call" in sys.argv:
    kiln.tinygrad.connect(no_contraction=True)
rng = np.random.default_rng(4)
arrays = [rng.standard_normal((64, 64)).astype(np.float32) for _ in range(3)]
w, m, x = (Tensor(array).realize() for array in arrays)

def step(w, m, x):
    return (m * x + w * 0.99).realize()

captured = TinyJit(step)
for _ in range(4):
    jitted = captured(w, m, x)
product, rest = (m * x).realize(), (w * 0.99).realize()
eager = (product + rest).realize()
w, m, x, jitted, eager = (array.astype(np.float64) for array in (*arrays, jitted.numpy(), eager.numpy()))
most = np.abs(jitted - eager) / (np.abs(m * x) + np.abs(w * 0.99))
print(int((jitted != eager).sum()), most.max())
"""


class Contraction(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if sys.version_info < (3, 11):
            raise unittest.SkipTest("tinygrad 0.14 wants Python 3.11")
        server = support.Server()
        cls.addClassCleanup(server.stop)
        cls.address = server.address

    def different(self, level, *words, **environment):
        """How many of the elements, and by how much at most, in |a * b| + |c| of each."""
        variables = {**os.environ, "KILN_ADDR": self.address, "KILN_LEVEL": level, "DEV": "KILN", "PARALLEL": "0",
                     "PYTHONPATH": str(support.PACKAGE), **environment}  # fmt: skip
        run = subprocess.run([sys.executable, "-c", STEP, *words], env=variables, capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        count, most = run.stdout.split()
        return int(count), float(most)

    def test_bits_are_equal_at_every_level(self):
        for level in "TKL":
            with self.subTest(level=level):
                self.assertEqual(self.different(level, "by_call"), (0, 0.0))
        self.assertEqual(self.different("T", KILN_NO_CONTRACTION="1"), (0, 0.0))

    def test_without_it_they_differ_by_a_rounding(self):
        """Or rather three: that of a product, which is there or not, and those of the two sums.

        With u = 2^-24, what rounding to nearest changes in 1: u |ab| + u |ab + c| + u |ab(1 + u) + c|.
        """
        count, most = self.different("T")
        self.assertGreater(count, 64 * 64 / 8)
        self.assertLess(count, 64 * 64 / 2)
        self.assertLessEqual(most, 3 * 2.0**-24 * (1 + 2.0**-24))


if __name__ == "__main__":
    unittest.main()
