"""A process that has used tinygrad on KILN forks: its child is told, never waits, and its tensors live on."""

import gc
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import device
import numpy as np

A = np.arange(12, dtype=np.float32).reshape(3, 4)


def setUpModule():
    global plugin
    plugin = device.start("T")


class Forks(unittest.TestCase):
    def test_a_child_is_told_and_its_parent_goes_on(self):
        from forks_test import TOLD, in_child, refusals
        from tinygrad import Tensor, TinyJit

        step = TinyJit(lambda x: (x * 2 + 1).realize())
        kept = Tensor(A).realize()
        for _ in range(3):
            step(kept)

        def child():
            told = refusals(kept.numpy, lambda: (Tensor(A) + 1).numpy(), lambda: step(kept).numpy(),
                            lambda: (kept @ kept.T).realize(), lambda: plugin.client().devices())  # fmt: skip
            gc.collect()
            return told

        for _ in range(2):
            self.assertEqual(in_child(child), [TOLD] * 5)
            np.testing.assert_array_equal(step(kept).numpy(), A * 2 + 1)
            np.testing.assert_array_equal(kept.numpy(), A)


if __name__ == "__main__":
    unittest.main()
