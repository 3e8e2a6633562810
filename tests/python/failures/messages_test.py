"""What a user gets wrong on the first day: each is told what was wrong, and what would be right."""

import asyncio
import datetime
import http.server
import pathlib
import socket
import sys
import threading
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support
import graphs
import grpc
import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from fake_server import FakeServer

import kiln
import kiln.aio
from kiln.transport import addresses

# An address, what is said of it, and what would be right.
WRONG = (
    ("http://localhost:7437", "address of the web", 'kiln.connect("localhost:7437")'),
    ("https://gpu.example:443/kiln", "address of the web", 'kiln.connect("gpu.example:443", tls=True)'),
    ("grpc://box", "no grpc://", 'kiln.connect("box:7437")'),
    ("localhost", "localhost is no host and port", '"localhost:7437"'),
    ("localhost:", "is no host and port", '"localhost:7437"'),
    ("localhost:port", "is no host and port", '"localhost:7437"'),
    ("::1", "is no host and port", '"[::1]:7437"'),
    ("localhost:70000", "a port that there is not", "65535"),
    ("a:1,,b:2", "an address is empty", '"a:7437,b:7437"'),
    ("a:1,b", "b is no host and port", '"b:7437"'),
    ("", "an address is empty", "host:port"),
)


class Addresses(unittest.TestCase):
    def test_what_is_none_is_said_before_anybody_is_asked(self):
        for address, said, right in WRONG:
            with self.subTest(address):
                for connect in (kiln.connect, lambda address: asyncio.run(kiln.aio.connect(address))):
                    with self.assertRaises(kiln.InvalidArgument) as caught:
                        connect(address)
                    self.assertIn(said, caught.exception.message)
                    self.assertIn(right, caught.exception.remedy)
                    self.assertEqual(caught.exception.code, "BAD_ARGUMENT")

    def test_lists_and_what_grpc_knows(self):
        for given, wanted in (("a:1, b:2", ["a:1", "b:2"]), (["a:1", "[::1]:2"], ["a:1", "[::1]:2"]),
                              ("unix:/a", ["unix:/a"]), ("ipv4:10.0.0.1:1,10.0.0.2:2", ["ipv4:10.0.0.1:1,10.0.0.2:2"]),
                              ("dns:///a", ["dns:///a"]), ("unix:///a,b:1", ["unix:///a", "b:1"])):  # fmt: skip
            self.assertEqual(addresses.addresses_of(given), wanted)

    def test_a_host_that_nobody_knows(self):
        unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        with mock.patch.object(addresses.socket, "getaddrinfo", side_effect=unknown):
            self.assertIn("not known", addresses.absent("gpu.example:7437"))


class NothingBeside(unittest.TestCase):
    """The message is all that is said: no thread of gRPC's ends with a traceback of its own."""

    def said(self, connect):
        fell, before = [], set(threading.enumerate())
        with mock.patch.object(threading, "excepthook", fell.append):
            for _ in range(8):
                with self.assertRaises(kiln.NoServer):
                    connect()
            for thread in set(threading.enumerate()) - before:
                thread.join(60)
        return [str(one.exc_value) for one in fell]

    def test_nobody_is_there(self):
        with socket.socket() as taken:  # bound, and not listening: connections are refused
            taken.bind(("127.0.0.1", 0))
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            self.assertEqual(self.said(lambda: kiln.connect(address, timeout=0.3)), [])

    def test_tls_to_plain(self):
        with support.running() as server:
            self.assertEqual(self.said(lambda: kiln.connect(server.address, tls=True, timeout=2)), [])


class Quiet(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


class OtherThanKilnd(unittest.TestCase):
    def test_a_web_server(self):
        web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
        self.addCleanup(web.server_close)
        self.addCleanup(web.shutdown)
        threading.Thread(target=web.serve_forever, daemon=True).start()
        self.refuse("is no kilnd (it begins with", "kilnd --listen", "127.0.0.1:%d" % web.server_port)

    def test_no_socket_there(self):
        self.refuse("no server is at unix:/no/such/socket", "kilnd running", "unix:/no/such/socket")

    def refuse(self, said, right, *arguments, **options):
        for connect in (kiln.connect, lambda *a, **o: asyncio.run(kiln.aio.connect(*a, **o))):
            with self.assertRaises(kiln.NoServer) as caught:
                connect(*arguments, **options)
            self.assertIn(said, caught.exception.message)
            self.assertIn(right, caught.exception.remedy)


def certificate():
    """A key and a certificate of its own, PEM, for localhost."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")]), datetime.datetime.now()
    made = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
            .not_valid_before(now - datetime.timedelta(days=2)).not_valid_after(now + datetime.timedelta(days=2))
            .sign(key, hashes.SHA256()))  # fmt: skip
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return secret, made.public_bytes(pem)


class Tls(unittest.TestCase):
    refuse = OtherThanKilnd.refuse

    def test_one_side_speaks_it_and_the_other_does_not(self):
        server = FakeServer({}, credentials=grpc.ssl_server_credentials([certificate()]))
        self.addCleanup(server.server.stop, None)
        self.refuse("speaks TLS, and this client does not", "tls=True", server.address)
        with support.running() as plain:
            self.refuse("speaks no TLS, and this client does", "without tls=", plain.address, tls=True)


class Calls(support.ServerTest):
    def refused(self, kind, said, right, call, *arguments, **options):
        with self.assertRaises(kind) as caught:
            call(*arguments, **options)
        self.assertIn(said, caught.exception.message)
        self.assertIn(right, caught.exception.remedy)

    def test_no_data_folder(self):
        for call in (self.client.load, self.client.tensors):
            self.refused(kiln.Unimplemented, "no folder of files", "--data_folder=PATH", call, "weights.npy")

        async def awaited():
            async with await kiln.aio.connect(self.server.address) as client:
                for call in (client.load, client.tensors):
                    with self.assertRaisesRegex(kiln.Unimplemented, "--data_folder=PATH"):
                        await call("weights.npy")

        asyncio.run(awaited())

    def test_options(self):
        graph = graphs.elementwise("ADD")
        for said, right, options in (("no option 'fastmath'", "is fast_math meant?", {"fastmath": True}),
                                     ("no option 'gpu'", "there are no_contraction", {"gpu": 1}),
                                     ("fast_math='no'", "True or False", {"fast_math": "no"}),
                                     ("beam=-1", "an integer, 0 or more", {"beam": -1})):  # fmt: skip
            self.refused(kiln.InvalidArgument, said, right, self.client.compile, graph, **options)
            self.refused(kiln.InvalidArgument, said, right, kiln.connect, self.server.address, **options)

    def test_what_is_no_graph(self):
        graph = kiln.Graph()
        tensor = graph.param("x", (3,), "float32") + 1
        arrays = "its program takes the arrays"
        for given, right in ((tensor, "graph.output(x)"), (lambda x: x, "kiln.jit"), (np.ones(3), arrays),
                             (kiln.array([1, 2]), arrays), ("add.uop", "kiln.Graph")):  # fmt: skip
            said = "a graph is wanted, and not %s" % type(given).__name__
            for call in (self.client.compile, self.client.explain, lambda it: self.client.gradient(it, [0])):
                self.refused(kiln.GraphError, said, right, call, given)


if __name__ == "__main__":
    unittest.main()
