"""kiln.local starts and ends a server of one's own; kiln.connect goes where KILN_ADDR says."""

import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support

import kiln
from kiln.errors import FailedPrecondition, NoServer

ENVIRONMENT = {"KILN_KILND": str(support.KILND), "KILN_GPUS": "none"}


@unittest.mock.patch.dict(os.environ, ENVIRONMENT)
class Local(unittest.TestCase):
    def test_it_ends_with_its_client(self):
        with kiln.local("--cpu_devices=2") as client:
            process = client._server._process
            socket = pathlib.Path(client.target[len("unix:") :])
            self.assertEqual(socket.parent.stat().st_mode & 0o777, 0o700)  # nobody else reaches it
            self.assertTrue(socket.is_socket())
            self.assertEqual(len(client.devices()), 2)
            self.assertEqual(kiln.array([1, 2]).sum().item(), 3)
            self.assertIsNone(process.poll())
        self.assertEqual(process.poll(), 0)
        self.assertFalse(socket.parent.exists())
        client.close()
        with self.assertRaises(FailedPrecondition):
            kiln.current()

    def test_it_ends_with_its_process(self):
        program = "import kiln; c = kiln.local(); print(kiln.array([1, 2]).sum(), c._server._process.pid)"
        environment = {**os.environ, "PYTHONPATH": str(support.PACKAGE)}
        said = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True).stdout
        total, process = said.split()
        self.assertEqual(total, "3")
        self.assertTrue(support.eventually(lambda: not running(int(process))))

    def test_without_a_binary(self):
        for environment, text in (({"KILN_KILND": "/no/such/kilnd"}, "KILN_KILND is /no/such/kilnd, which is no program"),
                                  ({"KILN_KILND": "", "PATH": "/nowhere"}, "there is no kilnd on PATH.*KILN_KILND=")):  # fmt: skip
            with unittest.mock.patch.dict(os.environ, environment), self.assertRaisesRegex(NoServer, text):
                kiln.local()

    def test_the_package_of_the_server(self):
        package = types.ModuleType("kilnd")
        package.path = lambda program: {"kilnd": str(support.KILND)}[program]
        with unittest.mock.patch.dict(os.environ, {"KILN_KILND": "", "PATH": "/nowhere"}), \
                unittest.mock.patch.dict(sys.modules, {"kilnd": package}), kiln.local():  # fmt: skip
            self.assertEqual(kiln.array([1, 2]).sum().item(), 3)

    def test_a_server_that_does_not_serve(self):
        with self.assertRaisesRegex(NoServer, "did not serve: .*no_such_flag"):
            kiln.local("--no_such_flag=1")

    def test_a_temporary_folder_with_a_long_name(self):
        with tempfile.TemporaryDirectory() as folder:
            deep = pathlib.Path(folder, "d" * 100)
            deep.mkdir()
            with unittest.mock.patch.object(tempfile, "tempdir", str(deep)), kiln.local() as client:
                self.assertEqual(kiln.array(3).item(), 3)
                self.assertLess(len(client.target), 108)
            self.assertEqual(list(deep.iterdir()), [])

    def test_connect_asks_the_environment(self):
        with support.running() as server, unittest.mock.patch.dict(os.environ, {"KILN_ADDR": server.address}):
            with kiln.connect() as first:
                self.assertEqual(first.target, server.address)
                with kiln.connect() as second:
                    self.assertIs(kiln.current(), second)
                self.assertIs(kiln.current(), first)
                self.assertEqual(kiln.array(4).item(), 4)
            kiln.connect()  # nobody keeps it
            gc.collect()
            self.assertEqual(kiln.array(5).item(), 5)
            kiln.current().close()


def running(process):
    try:
        os.kill(process, 0)
        return True
    except ProcessLookupError:
        return False


if __name__ == "__main__":
    unittest.main()
