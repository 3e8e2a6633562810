"""synchronize() waits for all that was handed over, and raises what failed."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import device
import numpy as np
import kiln


def setUpModule():
    global plugin
    plugin = device.start("T", "--cpu_devices=2")


class Waiting(unittest.TestCase):
    def test_it_waits(self):
        from tinygrad import Device, Tensor

        x = Tensor(np.full((1024, 1024), 1 / 1024, np.float32)).realize()
        for name in ("KILN", "KILN:1"):
            y = x.to(name).realize()
            for _ in range(4):
                y = (y @ y).realize()
            Device[name].synchronize()
            # Nothing is under way, and no failure waits to be told.
            self.assertTrue(plugin.client()._connection.pipeline.idle)

    def test_it_raises_what_failed(self):
        from tinygrad import Device, Tensor, Variable

        x = Tensor(np.ones(8, np.float32)).realize()
        Device["KILN"].synchronize()
        too_far = x[: Variable("n", 1, 16).bind(12)].sum().realize()
        with self.assertRaises(kiln.KilnError):
            Device["KILN"].synchronize()
        Device["KILN"].synchronize()  # once
        del too_far
        self.assertEqual((x + 1).tolist(), [2.0] * 8)


if __name__ == "__main__":
    unittest.main()
