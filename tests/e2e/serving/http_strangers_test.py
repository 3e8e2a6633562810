"""The open inference protocol over HTTP (--http_listen): what strangers send, and how it ends."""

import contextlib
import http.client
import json
import pathlib
import re
import socket
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "python"), str(HERE)]

import numpy as np
import serving_models as models
import support
from serving_http import HttpTest, given


class Strangers(HttpTest):
    @classmethod
    def fill(cls):
        cls.folder.put("double", models.scale(2))

    def tearDown(self):
        self.healthy()

    def test_a_connection_serves_many_requests(self):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.connect()
            local = connection.sock.getsockname()
            for path in ("/v2", "/v2/models/double", "/v2/nothing", "/v2/health/live"):
                connection.request("GET", path)
                connection.getresponse().read()
                self.assertEqual(connection.sock.getsockname(), local)

    def test_paths_and_methods_that_are_none(self):
        for method, path, status in (("GET", "/", 404), ("GET", "/v1", 404), ("GET", "/v2/models/double/infer", 405),
                                     ("DELETE", "/v2", 405), ("GET", "/../../etc/passwd", 404),
                                     ("GET", "/v2/models/%2e%2e", 404)):  # fmt: skip
            with self.subTest(path):
                said = self.ask(method, path)
                self.assertEqual(said[0], status)
                self.assertIn("error", said[2])
        self.assertEqual(self.ask("GET", "/v2/models/double/infer")[1]["Allow"], "POST")

    def test_bodies_that_are_wrong(self):
        def one(**tensor):
            return json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], **tensor}]})

        cases = {
            "nothing": "", "no JSON": "nonsense", "half": '{"inputs": [', "an array": "[]", "deep": "[" * 100000,
            "deep data": one(data=0).replace('"data": 0', '"data": ' + "[" * 5000 + "]" * 5000),
            "many arrays": '{"inputs": [' + "[]," * 500000 + "0]}", "huge number": one(data=[1]).replace("[1]}", "[1e400]}"),
            "too large a number": one(data=[1e39]), "text": one(data=["1"]), "none": one(data=[]), "no data": one(),
            "huge shape": one(shape=[1 << 62, 1 << 62], data=[1]), "negative shape": one(shape=[-1], data=[1]),
            "unknown": one(data=[1], more=1), "no UTF-8": b'{"inputs": "\xff"}', "long": '{"id": "%s"}' % ("x" * (9 << 20)),
        }  # fmt: skip
        for name, body in cases.items():
            with self.subTest(name):
                status, _, said = self.ask("POST", "/v2/models/double/infer", body)
                self.assertEqual(status, 400, said)
                self.assertLess(len(said["error"]), 1000)

    def test_lengths_that_are_wrong(self):
        header = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2],
                                         "parameters": {"binary_data_size": 8}}]}).encode()  # fmt: skip
        data = np.array([1, 2], np.float32).tobytes()
        path = "/v2/models/double/infer"
        right = self.ask("POST", path, header + data, Inference_Header_Content_Length=str(len(header)))
        self.assertEqual((right[0], right[2]["outputs"][0]["data"]), (200, [2, 4]), right)
        for length in ("0", "-1", "x", str(len(header) - 1), str(len(header) + 1), "99999999999999999999"):
            self.assertEqual(self.ask("POST", path, header + data, Inference_Header_Content_Length=length)[0], 400, length)
        for body in (header + data[:-1], header + data + b"x", header):
            self.assertEqual(self.ask("POST", path, body, Inference_Header_Content_Length=str(len(header)))[0], 400)

    def test_heads_that_are_wrong(self):
        post = b"POST /v2/models/double/infer HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        for sent, status in ((post + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411), (post + b"\r\n", 411),
                             (post + b"Content-Length: 99999999999\r\n\r\n", 413),
                             (post + b"Content-Length: 2\r\nContent-Encoding: gzip\r\n\r\n{}", 415),
                             (post + b"Content-Length: 2\r\nAuthorization: Bearer \xff\x01\r\n\r\n{}", 400),
                             (b"GET /v2 HTTP/1.1\r\nA: " + b"a" * 40000 + b"\r\n\r\n", 431),
                             (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400)):  # fmt: skip
            with self.subTest(sent[:100]), self.raw(sent) as connection:
                self.assertEqual(connection.makefile("rb").readline().split()[1], b"%d" % status)

    def test_pages_of_browsers_are_told_off(self):
        self.assertEqual(self.infer([1], Origin="http://evil.example")[0], 403)
        self.assertEqual(self.ask("GET", "/v2", Host="evil.example:%d" % self.port)[0], 421)
        self.assertEqual(self.ask("GET", "/v2", Host="localhost:%d" % self.port)[0], 200)

    def test_who_stops_in_the_middle_and_who_sends_slowly(self):
        head = b"POST /v2/models/double/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n"
        with contextlib.ExitStack() as open_ones:
            for sent in (b"", b"P", head[:40], head, head + b'{"inputs"'):
                for _ in range(10):
                    open_ones.enter_context(self.raw(sent))
            self.healthy()  # beside them
        with self.raw(head + b"{" * 50) as connection:
            connection.shutdown(socket.SHUT_WR)
            self.assertEqual(connection.recv(1), b"")

    def test_two_hundred_connections(self):
        with contextlib.ExitStack() as open_ones:
            body = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[21]}]}'
            sent = b"POST /v2/models/double/infer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            connections = [open_ones.enter_context(self.raw(sent)) for _ in range(200)]
            for connection in connections:
                answer = http.client.HTTPResponse(connection)
                answer.begin()
                self.assertEqual(json.loads(answer.read())["outputs"][0]["data"], [42])

    def test_large_tensors_travel_binary(self):
        x = np.arange(256, dtype=np.float32)
        self.assertEqual(self.client.infer("double", [given("x", x)]).as_numpy("y").tolist(), (2 * x).tolist())
        status, _, said = self.infer([0] * (3 << 20))
        self.assertEqual(status, 400)
        self.assertIn("binary", said["error"])


class Ends(unittest.TestCase):
    def test_a_server_that_stops_ends_connections_that_are_idle(self):
        with support.running("--http_listen=127.0.0.1:0") as server:
            port = int(re.search(r"event=http .*\bport=(\d+)", "".join(server.log)).group(1))
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                connection.sendall(b"GET /v2 HTTP/1.1\r\n\r\n")
                self.assertIn(b" 200 ", connection.recv(1 << 16))
                server.stop()
                self.assertEqual(connection.recv(1), b"")
            self.assertEqual(server.process.returncode, 0)
            with self.assertRaises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), timeout=60)

    def test_an_open_address_is_refused(self):
        refused = subprocess.run([str(support.KILND), "--http_listen=0.0.0.0:0", "--check_config"], capture_output=True, text=True)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("--insecure", refused.stderr)


if __name__ == "__main__":
    unittest.main()
