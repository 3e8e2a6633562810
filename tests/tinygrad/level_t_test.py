"""tinygrad on Kiln, level T."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import device
import level_cases


def setUpModule():
    LevelTest.plugin = device.start("T")


class LevelTest(level_cases.LevelCases, unittest.TestCase):
    pass


if __name__ == "__main__":
    unittest.main()
