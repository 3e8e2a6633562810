"""Sorting on Kiln, level K."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import device
import sort_cases


def setUpModule():
    SortTest.plugin = device.start("K", "--cpu_memory_bytes=%d" % (32 << 20))


class SortTest(sort_cases.SortCases, unittest.TestCase):
    pass


if __name__ == "__main__":
    unittest.main()
