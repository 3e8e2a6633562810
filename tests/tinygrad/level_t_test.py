"""tinygrad on Kiln, level T."""

import unittest

import device
import level_cases


def setUpModule():
    LevelTest.plugin = device.start("T")


class LevelTest(level_cases.LevelCases, unittest.TestCase):
    pass


if __name__ == "__main__":
    unittest.main()
