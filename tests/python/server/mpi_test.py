"""One server over four processes of an MPI job: devices and programs of all of them, and the death of one.

What takes longer, every collective among it, is tests/cluster/cluster.py."""

import os
import pathlib
import shutil
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import sharding_test
import support
import numpy as np

import kiln
from kiln.v1 import device_service_pb2

sys.path.insert(0, str(support.ROOT / "examples"))

import data_parallel

RANKS = 4
HEALTHY, UNHEALTHY = device_service_pb2.Device.HEALTHY, device_service_pb2.Device.UNHEALTHY


def launcher(*flags):
    """mpirun as any user may call it, on however few cores."""
    if shutil.which("mpirun") is None:
        raise unittest.SkipTest("there is no mpirun: ./dev setup installs openmpi-bin")
    if os.geteuid() == 0:
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return ("mpirun", "--oversubscribe", "-n", str(RANKS), *flags)


class FourRanks(unittest.TestCase):
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = cls.start(*cls.FLAGS)
        cls.addClassCleanup(cls.stop_server)
        cls.client = kiln.connect(cls.server.address)
        cls.addClassCleanup(cls.client.close)

    @classmethod
    def start(cls, *flags):
        return support.Server(*flags, launcher=launcher())

    @classmethod
    def stop_server(cls):
        cls.server.stop()


class Sharding(FourRanks, sharding_test.OnFourDevices):
    """Those of one process: programs whose values are split over ranks, and split anew."""


class Devices(FourRanks):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.FLAGS = ("--data_folder=%s" % cls.folder,)
        super().setUpClass()

    def test_files_go_to_any(self):
        array = np.random.default_rng(2).random(5_000_001, np.float32)  # more than is read at a time
        np.save(self.folder / "a.npy", array)
        for rank in range(RANKS):
            with self.client.load("a.npy", device="CPU:%d" % rank)[""] as buffer:
                self.assertEqual(buffer.numpy().tobytes(), array.tobytes())

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
                other.copy_from(buffer)
                self.assertEqual(other.numpy().tobytes(), array.tobytes())


    def test_training_on_four_ranks_is_training_on_one_device(self):
        with support.running("--cpu_devices=4") as one_process:
            with kiln.connect(one_process.address) as client:
                alone, _ = data_parallel.train(client, data_parallel.DEVICES[:1], epochs=1)
                within, _ = data_parallel.train(client, data_parallel.DEVICES, deterministic=True, epochs=1)
        across, _ = data_parallel.train(self.client, data_parallel.DEVICES, deterministic=True, epochs=1)
        any_order, _ = data_parallel.train(self.client, data_parallel.DEVICES, epochs=1)
        for one, two, three, four in zip(alone, within, across, any_order):
            self.assertEqual(two.tobytes(), three.tobytes())
            for weights in (three, four):
                np.testing.assert_allclose(weights, np.repeat(one, RANKS, 0), rtol=1e-5, atol=1e-5)


class Deaths(unittest.TestCase):
    def test_the_rest_goes_on(self):
        server = support.Server("--rank_silence_seconds=3", launcher=launcher("--enable-recovery"))
        self.addCleanup(server.stop)
        with kiln.connect(server.address) as client:
            buffers = [client.buffer(np.full(5000, i, np.float32), device="CPU:%d" % i) for i in range(RANKS)]
            client.all_reduce(buffers)
            os.kill(server.rank_processes()[2], signal.SIGKILL)
            with self.assertRaises(kiln.Unavailable) as caught:
                client.all_reduce(buffers)
            self.assertEqual((caught.exception.code, caught.exception.field), ("PARTICIPANT_MISSING", "CPU:2"))
            self.assertIn("rank 2 on ", str(caught.exception))
            with self.assertRaises(kiln.Unavailable) as caught:
                client.buffer(np.zeros(3, np.float32), device="CPU:2").numpy()
            self.assertEqual((caught.exception.code, caught.exception.field), ("PARTICIPANT_MISSING", "CPU:2"))
            health = {device.name: device.health for device in client.devices()}
            self.assertEqual(health, {"CPU:0": HEALTHY, "CPU:1": HEALTHY, "CPU:2": UNHEALTHY, "CPU:3": HEALTHY})
            rest = [client.buffer(np.full(5000, i, np.float32), device="CPU:%d" % i) for i in (0, 1, 3)]
            client.all_reduce(rest)
            np.testing.assert_array_equal(rest[2].numpy(), np.full(5000, 4))


if __name__ == "__main__":
    unittest.main()
