"""KILN, KILN:1, … on a server with four devices, level K."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import device
import devices_cases


def setUpModule():
    DevicesTest.plugin = device.start("K", "--cpu_devices=4")


class DevicesTest(devices_cases.DevicesCases, unittest.TestCase):
    pass


if __name__ == "__main__":
    unittest.main()
