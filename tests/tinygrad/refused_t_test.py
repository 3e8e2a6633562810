"""What is refused, level T."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import device
import refused_cases


def setUpModule():
    RefusedTest.plugin = device.start("T", "--cpu_devices=2")


class RefusedTest(refused_cases.RefusedCases, unittest.TestCase):
    level = "T"


if __name__ == "__main__":
    unittest.main()
