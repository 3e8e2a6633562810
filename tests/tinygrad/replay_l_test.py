"""TinyJit on Kiln, level L."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import device
import replay_cases


def setUpModule():
    ReplayTest.plugin = device.start("L")


class ReplayTest(replay_cases.ReplayCases, unittest.TestCase):
    pass


if __name__ == "__main__":
    unittest.main()
