"""A server of models with a port for HTTP, as its tests have it."""

import contextlib
import http.client
import json
import pathlib
import re
import socket
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "python"), str(HERE)]

import serving_models as models
import support
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException


def given(name, array, binary=True):
    made = triton.InferInput(name, list(array.shape), triton.np_to_triton_dtype(array.dtype))
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def wanted(name, binary=True):
    return triton.InferRequestedOutput(name, binary_data=binary)


class HttpTest(unittest.TestCase):
    """A server over a folder's models, with a port for HTTP."""

    TOKEN = None  # of who looks whether it is ready

    @classmethod
    def setUpClass(cls):
        cls.folder = models.Folder(cls)
        cls.fill()
        cls.server = support.Server("--models=%s" % cls.folder.path, "--http_listen=127.0.0.1:0", *cls.flags())
        cls.addClassCleanup(cls.server.stop)
        cls.port = next(int(found.group(1)) for line in cls.server.log
                        for found in [re.search(r"event=http .*\bport=(\d+)", line)] if found)  # fmt: skip
        cls.address = "127.0.0.1:%d" % cls.port
        cls.client = triton.InferenceServerClient(cls.address, connection_timeout=60, network_timeout=60)
        cls.addClassCleanup(cls.client.close)
        if not support.eventually(lambda: cls.ask("GET", "/v2/health/ready", token=cls.TOKEN)[0] == 200):
            raise AssertionError("it is not ready:\n" + "".join(cls.server.log[-20:]))

    @classmethod
    def flags(cls):
        return ()

    @classmethod
    def ask(cls, method, path, body=None, token=None, **headers):
        """(status, headers, what its JSON says)."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            fields["Authorization"] = "Bearer " + token
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", cls.port, timeout=60)) as connection:
            connection.request(method, path, body, fields)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, answer.headers, json.loads(text) if text else None

    def infer(self, x, **headers):
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [len(x)], "data": x}]}
        return self.ask("POST", "/v2/models/double/infer", json.dumps(body), **headers)

    def healthy(self):
        status, _, answer = self.infer([1, 2, 3])
        self.assertEqual((status, answer["outputs"][0]["data"]), (200, [2, 4, 6]), answer)
        self.assertIsNone(self.server.process.poll())

    @contextlib.contextmanager
    def raw(self, sent=b""):
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(sent)
            yield connection

    def refused(self, status, words, call, *arguments, **more):
        with self.assertRaises(InferenceServerException) as caught:
            call(*arguments, **more)
        self.assertEqual(caught.exception.status(), str(status), caught.exception.message())
        for word in words:
            self.assertIn(word, caught.exception.message())
