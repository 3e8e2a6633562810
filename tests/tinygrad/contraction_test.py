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
w, m, x = (Tensor(rng.standard_normal((64, 64)).astype(np.float32)).realize() for _ in range(3))

def step(w, m, x):
    return (m * x + w * 0.99).realize()

captured = TinyJit(step)
for _ in range(4):
    jitted = captured(w, m, x)
product, rest = (m * x).realize(), (w * 0.99).realize()
eager = (product + rest).realize()
print(int((jitted.numpy() != eager.numpy()).sum()), float(np.abs(jitted.numpy() - eager.numpy()).max()))
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
        """Elements, and by how much."""
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
        count, most = self.different("T")
        self.assertGreater(count, 0)
        self.assertLess(most, 1e-6)


if __name__ == "__main__":
    unittest.main()
