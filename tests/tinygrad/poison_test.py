"""One failed program poisons nothing that comes after it: memory handed to a new tensor starts clean."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import device
import numpy as np

import kiln

SIZES = (8, 64, 1000, 4096)


def setUpModule():
    global plugin
    plugin = device.start("T")


class Poison(unittest.TestCase):
    def fail(self):
        """A program that reads beyond its buffer, and the memory that it would have written, given back."""
        from tinygrad import Tensor, Variable

        for size in SIZES:
            x = Tensor(np.ones(size, np.float32)).realize()
            bad = (x[: Variable("n", 1, 2 * size).bind(size + 1)].sum() + x).realize()
            with self.assertRaises(kiln.KilnError) as caught:
                bad.numpy()
            self.assertEqual(caught.exception.code, "OUT_OF_BOUNDS")
            del bad, x

    def test_what_is_computed_afterwards_is_right(self):
        from tinygrad import Tensor

        rng = np.random.default_rng(6)
        self.fail()
        for iteration in range(40):
            size = SIZES[iteration % len(SIZES)]
            a, b = (rng.standard_normal(size).astype(np.float32) for _ in range(2))
            results = {}
            for name in ("KILN", "CPU"):
                x, y = Tensor(a, device=name), Tensor(b, device=name)
                z = (x * y + iteration).realize()
                results[name] = [(z.exp2() - x).realize().numpy(), z.numpy(), (z.sum() + y).realize().numpy()]
            for mine, theirs in zip(results["KILN"], results["CPU"]):
                np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)

    def test_a_tensor_that_was_assigned_whole_is_healthy(self):
        from tinygrad import Tensor, Variable

        x, y = Tensor(np.ones(16, np.float32)).realize(), Tensor(np.ones(16, np.float32)).realize()
        x.assign(x + y[: Variable("n", 1, 32).bind(17)].sum()).realize()
        with self.assertRaises(kiln.KilnError):
            x.numpy()
        x.assign(Tensor(np.full(16, 3, np.float32))).realize()
        np.testing.assert_array_equal(x.numpy(), np.full(16, 3, np.float32))


if __name__ == "__main__":
    unittest.main()
