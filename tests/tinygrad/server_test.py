"""Which of a server's devices KILN, KILN:1, … are, where it has several kinds."""

import os
import pathlib
import sys
import types
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import device
import kiln

# As a server with two CPU devices and two GPUs lists them.
ROWS = [types.SimpleNamespace(name=name) for name in ("CPU:0", "CPU:1", "CUDA:0", "CUDA:1")]
TWO_KINDS = types.SimpleNamespace(target="a.server:7437", devices=lambda: ROWS)


def setUpModule():
    global plugin, server
    os.environ["KILN_DEVICES"] = "CPU:2, CPU:1"
    unittest.addModuleCleanup(os.environ.pop, "KILN_DEVICES")
    plugin = device.start("T", "--cpu_devices=3")
    from kiln.tinygrad import server


class Devices(unittest.TestCase):
    def test_unnamed_they_are_of_the_first_ones_kind(self):
        self.assertEqual(server.named_devices(TWO_KINDS, ()), ("CPU:0", "CPU:1"))

    def test_named_they_are_those_in_that_order(self):
        self.assertEqual(server.named_devices(TWO_KINDS, ("CUDA:1", "CUDA:0")), ("CUDA:1", "CUDA:0"))
        self.assertEqual(server.named_devices(TWO_KINDS, ("CUDA:0", "CPU:0")), ("CUDA:0", "CPU:0"))

    def test_one_that_is_not_there_is_named_with_those_that_are(self):
        with self.assertRaises(kiln.NotFound) as raised:
            server.named_devices(TWO_KINDS, ("CUDA:0", "CUDA:2"))
        self.assertIn("CUDA:2", str(raised.exception))
        self.assertIn("CPU:0, CPU:1, CUDA:0, CUDA:1", str(raised.exception))

    def test_the_environment_names_them(self):
        """For programs that do not call connect()."""
        from tinygrad import Tensor

        for name, there in (("KILN", "CPU:2"), ("KILN:1", "CPU:1"), ("KILN:2", "CPU:2")):
            x = (Tensor([1.0, 2.0], device=name) + 1).realize()
            self.assertEqual(x.uop.base.buf_uop.buffer._buf.buffer.device, there)
            self.assertEqual(x.tolist(), [2.0, 3.0])
        with unittest.mock.patch.dict(os.environ, KILN_DEVICES=""):
            self.assertEqual(server.devices_of_environment(), ())


if __name__ == "__main__":
    unittest.main()
