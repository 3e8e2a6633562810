"""nginx before two servers, as deploy/nginx.conf and docs/balancers.md have it, but for addresses: nginx takes them, calls
pass, clients go to their servers or stay by way of it, and what is no call ends there."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import grpc
import numpy as np
import support

import kiln

NGINX = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
CONFIGURATION = support.ROOT / "deploy" / "nginx.conf"
STREAM_MODULE = pathlib.Path("/usr/lib/nginx/modules/ngx_stream_module.so")


def page_s_stream():
    """The configuration by connections that docs/balancers.md shows."""
    (text,) = re.findall(r"```nginx\n(.*?)```", (support.ROOT / "docs" / "balancers.md").read_text(), re.DOTALL)
    return text


def certificate(folder):
    """For localhost, signed by itself."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "server.key", "-out",
                    folder / "server.pem", "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost"], check=True, capture_output=True)  # fmt: skip


class Proxy:
    """nginx with such a file, before `addresses`."""

    def __init__(self, folder, addresses, text):
        self.certificate = str(folder / "server.pem")
        self._listener = socket.create_server(("127.0.0.1", 0))
        # nginx inherits the socket, so that no other program can take its port meanwhile.
        self._listener.set_inheritable(True)
        self.port = self._listener.getsockname()[1]
        here = {"0.0.0.0:7437": "127.0.0.1:%d" % self.port, "gpu1.example:7437": addresses[0],
                "gpu2.example:7437": addresses[1], "/etc/kiln/server": str(folder / "server"),
                "/etc/kiln/ca.pem": self.certificate, "kiln.example": "localhost",
                "modules/": str(STREAM_MODULE.parent) + "/"}  # fmt: skip
        for shipped, its in here.items():
            text = text.replace(shipped, its)
        assert ".example" not in text, text
        (folder / "nginx.conf").write_text(text)
        self.words = [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr",
                      "-g", "daemon off; pid %s/pid;" % folder]  # fmt: skip
        self._process = None

    def check(self):
        return subprocess.run([*self.words, "-t"], capture_output=True, text=True, timeout=60)

    def start(self):
        self._process = subprocess.Popen(self.words, stderr=subprocess.DEVNULL, close_fds=False,
                                         env={**os.environ, "NGINX": "%d;" % self._listener.fileno()})  # fmt: skip

    def connect(self, **options):
        return kiln.connect("localhost:%d" % self.port, tls=self.certificate, **options)

    def stop(self):
        if self._process:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait()
        self._listener.close()


@unittest.skipUnless(NGINX, "nginx is not installed; ./dev test installs it")
class NginxTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        certificate(self.folder)

    def proxy(self, *flags, number=2, text=None):
        tls = ["--tls_certificate=%s" % (self.folder / "server.pem"), "--tls_key=%s" % (self.folder / "server.key")]
        self.servers = [support.Server(*tls, *flags) for _ in range(number)]
        for server in self.servers:
            self.addCleanup(server.stop)
        made = self.before([server.address for server in self.servers] * (2 // number), text)
        made.start()
        return made

    def before(self, addresses, text=None):
        made = Proxy(self.folder, addresses, text or CONFIGURATION.read_text())
        self.addCleanup(made.stop)
        return made

    def test_nginx_has_nothing_to_say(self):
        checked = self.before(["127.0.0.1:1", "127.0.0.1:2"]).check()
        self.assertEqual(checked.returncode, 0, checked.stderr)
        for word in ("warn", "emerg", "error"):
            self.assertNotIn("[%s]" % word, checked.stderr)

    def test_clients_go_to_the_server_behind_it(self):
        proxy = self.proxy("--advertise=localhost:0")
        reached = set()
        for _ in range(20):  # which of them each meets is chance
            with proxy.connect() as client:
                reached.add(client.target)
                for i in range(3):
                    with client.buffer(np.full(1000, i, np.float32)) as buffer:
                        self.assertEqual(buffer.numpy().sum(), 1000 * i)
        self.assertLessEqual(reached, {"localhost:%d" % server.port for server in self.servers})
        self.assertGreater(len(reached), 1)

    @unittest.skipUnless(STREAM_MODULE.exists(), "nginx's module stream is not installed; ./dev test installs it")
    def test_a_connection_stays_at_its_server(self):
        """Where clients cannot reach the servers: as the page has it, by connections."""
        proxy = self.proxy(text=page_s_stream())
        self.assertEqual(proxy.check().returncode, 0, proxy.check().stderr)
        for _ in range(4):
            with proxy.connect() as client:
                self.assertEqual(client.target, "localhost:%d" % proxy.port)
                for i in range(20):
                    with client.buffer(np.full(1000, i, np.float32)) as buffer:
                        self.assertEqual(buffer.numpy().sum(), 1000 * i)

    def test_calls_streams_and_data_pass(self):
        """By way of it, to the one server that there is."""
        proxy = self.proxy(number=1)
        data = np.arange(3_000_000, dtype=np.float32)
        with proxy.connect() as client:
            self.assertEqual(client.target, "localhost:%d" % proxy.port)
            with client.buffer(data) as buffer:
                np.testing.assert_array_equal(buffer.numpy(), data)
            for i in range(1100):  # more calls on one connection than nginx lets pass by itself
                self.assertEqual(client.devices()[0].name, "CPU:0", i)
            with self.assertRaises(kiln.KilnError) as raised:
                client.empty((1 << 40,), "float64")
            self.assertEqual(raised.exception.code, "OUT_OF_MEMORY")

    def test_one_that_is_gone_is_left_out(self):
        proxy = self.proxy()
        self.servers[0].kill()
        for _ in range(4):
            with proxy.connect() as client:
                self.assertEqual(client.devices()[0].name, "CPU:0")

    def test_where_nobody_is_it_says_so_in_grpcs_words(self):
        proxy = self.proxy()
        for server in self.servers:
            server.kill()
        credentials = grpc.ssl_channel_credentials(pathlib.Path(proxy.certificate).read_bytes())
        with grpc.secure_channel("localhost:%d" % proxy.port, credentials) as channel:
            call = channel.unary_unary("/kiln.v1.DeviceService/List")
            with self.assertRaises(grpc.RpcError) as raised:
                call(b"", timeout=30)
        self.assertIs(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(raised.exception.details(), "no server of the pool answers")

    def test_what_is_no_grpc_is_refused(self):
        proxy = self.proxy(number=1)
        asked = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", proxy.certificate,
                                "https://localhost:%d/" % proxy.port], capture_output=True, text=True, timeout=60)  # fmt: skip
        self.assertEqual(asked.stdout, "415")


if __name__ == "__main__":
    unittest.main()
