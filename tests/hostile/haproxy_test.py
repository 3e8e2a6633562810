"""kilnd behind HAProxy with deploy/haproxy.cfg: calls pass, and what gRPC's own port does not bound ends there."""

import os
import pathlib
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import numpy as np
import support

import kiln

HAPROXY = shutil.which("haproxy", path=os.environ.get("PATH", "") + ":/usr/sbin")
CONFIGURATION = support.ROOT / "deploy" / "haproxy.cfg"

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, SETTINGS, CONTINUATION = 1, 4, 9
# So much of one header block is more than any client has to say.
MANY = 1 << 20


def frame(kind, payload, flags=0, stream=0):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A header field of HPACK, literal and not indexed."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def certificate(folder):
    """A certificate for localhost that signs itself, and it with its key in one file."""
    key, cert, both = folder / "key.pem", folder / "cert.pem", folder / "both.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days",
                    "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
                   check=True, capture_output=True)  # fmt: skip
    both.write_bytes(cert.read_bytes() + key.read_bytes())
    return cert, both


@unittest.skipUnless(HAPROXY, "haproxy is not installed; ./dev test installs it")
class ProxyTest(support.ServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.folder.name)
        cls.certificate, both = certificate(folder)
        cls.listener = socket.create_server(("127.0.0.1", 0))
        cls.port = cls.listener.getsockname()[1]
        # HAProxy inherits the socket, so that no other program can take its port meanwhile.
        cls.listener.set_inheritable(True)
        cls.proxy = subprocess.Popen(
            [HAPROXY, "-f", str(CONFIGURATION)], stderr=subprocess.DEVNULL, close_fds=False,
            env={**os.environ, "KILN_LISTEN": "fd@%d" % cls.listener.fileno(), "KILN_CERTIFICATE": str(both),
                 "KILN_BACKEND": cls.server.address})  # fmt: skip

    @classmethod
    def tearDownClass(cls):
        cls.proxy.send_signal(signal.SIGTERM)
        cls.proxy.wait()
        cls.listener.close()
        cls.folder.cleanup()
        super().tearDownClass()

    def through(self):
        return kiln.connect("localhost:%d" % self.port, tls=str(self.certificate))

    def raw(self):
        context = ssl.create_default_context(cafile=str(self.certificate))
        context.set_alpn_protocols(["h2"])
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        return context.wrap_socket(connection, server_hostname="localhost")

    def test_calls_streams_and_data_pass(self):
        data = np.arange(3_000_000, dtype=np.float32)
        with self.through() as client, client.buffer(data) as buffer:
            np.testing.assert_array_equal(buffer.numpy(), data)

    def test_a_failure_keeps_its_detail(self):
        with self.through() as client, self.assertRaises(kiln.KilnError) as raised:
            client.empty((1 << 40,), "float64")
        self.assertEqual(raised.exception.code, "OUT_OF_MEMORY")

    def test_a_header_block_that_never_ends_is_ended(self):
        before = rss(self.server.process.pid)
        with self.raw() as connection:
            connection.sendall(PREFACE + frame(SETTINGS, b""))
            sent = 0
            with self.assertRaises(OSError):
                connection.sendall(frame(HEADERS, literal(b"x", b"y"), stream=1))
                while sent < 64 * MANY:
                    block = literal(b"name", b"v" * 100) * 100
                    connection.sendall(frame(CONTINUATION, block, stream=1))
                    sent += len(block)
            self.assertLess(sent, 8 * MANY)  # what the sockets between hold is counted
        self.assertLess(rss(self.server.process.pid) - before, 8 * MANY)
        with self.through() as client:
            self.assertTrue(client.features)

    def test_what_is_no_grpc_is_refused(self):
        with self.raw() as connection:
            fields = [(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/"), (b":authority", b"localhost")]
            connection.sendall(PREFACE + frame(SETTINGS, b"") +
                               frame(HEADERS, b"".join(literal(*field) for field in fields), flags=5, stream=1))  # fmt: skip
            answer = b""
            while b"\x8c" not in answer and len(answer) < 4096:  # :status 400, as HPACK has it
                more = connection.recv(4096)
                if not more:
                    break
                answer += more
        self.assertIn(b"\x8c", answer)

    def test_an_address_has_so_many_connections(self):
        held = []
        try:
            refused = 0
            for _ in range(80):
                try:
                    held.append(self.raw())
                except OSError:
                    refused += 1
            self.assertLessEqual(len(held), 64)
            self.assertGreaterEqual(refused, 16)
        finally:
            for connection in held:
                connection.close()
        self.assertTrue(support.eventually(self.is_served))

    def is_served(self):
        try:
            with self.through() as client:
                return bool(client.features)
        except kiln.KilnError:
            return False


def rss(pid):
    """Bytes in memory."""
    with open("/proc/%d/statm" % pid) as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    unittest.main()
