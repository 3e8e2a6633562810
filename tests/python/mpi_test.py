"""One server over four processes of an MPI job: devices, programs and collectives of all of them, and their deaths."""

import os
import pathlib
import shutil
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import collectives_test
import graphs
import support
import numpy as np

import kiln

RANKS = 4


def launcher(*flags):
    """mpirun as any user may call it, on however few cores."""
    if shutil.which("mpirun") is None:
        raise unittest.SkipTest("there is no mpirun: ./dev setup installs openmpi-bin")
    if os.geteuid() == 0:
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return ("mpirun", "--oversubscribe", "-n", str(RANKS), *flags)


class Values(collectives_test.Values):
    """Those of one process, over eight devices of four."""

    @classmethod
    def setUpClass(cls):
        cls.server = support.Server("--cpu_devices=2", launcher=launcher())
        cls.addClassCleanup(cls.server.stop)
        cls.client = kiln.connect(cls.server.address)
        cls.addClassCleanup(cls.client.close)


class Devices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = support.Server(launcher=launcher())
        cls.addClassCleanup(cls.server.stop)
        cls.client = kiln.connect(cls.server.address)
        cls.addClassCleanup(cls.client.close)

    def test_they_say_where_they_are(self):
        devices = self.client.devices()
        self.assertEqual([device.name for device in devices], ["CPU:%d" % i for i in range(RANKS)])
        for rank, device in enumerate(devices):
            self.assertIn(", rank %d on " % rank, device.description)

    def test_memory_goes_to_any_and_between_any_two(self):
        random = np.random.default_rng(1)
        for count in (0, 1, 1000, 3_000_001):
            array = random.normal(size=count).astype(np.float32)
            for source in range(RANKS):
                buffer = self.client.buffer(array, device="CPU:%d" % source)
                self.assertEqual(buffer.numpy().tobytes(), array.tobytes())
                other = self.client.empty(array.shape, array.dtype, device="CPU:%d" % ((source + 1) % RANKS))
                self.client.copy(buffer, other)
                self.assertEqual(other.numpy().tobytes(), array.tobytes())


del collectives_test.OnEightDevices  # not a test here

if __name__ == "__main__":
    unittest.main()
