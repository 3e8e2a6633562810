"""TLS and a token together: a server with a certificate of its own maker."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support  # noqa: F401: finds the package
import grpc
from fake_server import FakeServer, listing

import kiln


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost", "-keyout", str(cls.folder / "key"), "-out",
                        str(cls.folder / "certificate")], check=True, stderr=subprocess.DEVNULL)  # fmt: skip
        pair = ((cls.folder / "key").read_bytes(), (cls.folder / "certificate").read_bytes())
        cls.seen = []

        def answer(request, context):
            cls.seen.append(dict(context.invocation_metadata()).get("authorization"))
            return listing()

        cls.fake = FakeServer({"DeviceService.List": answer}, credentials=grpc.ssl_server_credentials([pair]))
        cls.addClassCleanup(cls.fake.server.stop, None)

    def test_a_file_of_roots_or_credentials(self):
        roots = self.folder / "certificate"
        for tls in (str(roots), grpc.ssl_channel_credentials(roots.read_bytes())):
            with kiln.connect(self.fake.address, tls=tls, token="secret") as client:
                self.assertEqual(client.devices()[0].name, "CPU:0")
        self.assertEqual(set(self.seen), {"Bearer secret"})

    def test_an_unknown_certificate_or_none_is_no_server(self):
        for tls in (True, False):
            with self.assertRaises(kiln.NoServer):
                kiln.connect(self.fake.address, tls=tls, connect_timeout=0.5)


if __name__ == "__main__":
    unittest.main()
