"""Sorting on Kiln, level T."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import device
import numpy as np
import sort_cases
from sort_cases import RNG


def setUpModule():
    SortTest.plugin = device.start("T", "--cpu_memory_bytes=%d" % (32 << 20))


class SortTest(sort_cases.SortCases, unittest.TestCase):
    def test_memory_grows_with_the_tensor(self):
        """Of 20,000 elements n × n would be 400 MB; the server has 32 MiB."""
        from tinygrad import Tensor

        array = RNG.integers(0, 9000, 20000).astype(np.int32)
        values, places = Tensor(array).sort()
        Tensor.realize(values, places)
        np.testing.assert_array_equal(places.numpy(), np.argsort(array, kind="stable"))
        np.testing.assert_array_equal(values.numpy(), np.sort(array))


if __name__ == "__main__":
    unittest.main()
