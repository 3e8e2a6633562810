"""Each thing that can go wrong between a client and a server is one clear exception."""

import pathlib
import subprocess
import sys
import textwrap
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import graphs
import grpc
import numpy as np
from fake_server import FakeServer, abort, listing

import kiln
from kiln import errors
from kiln.v1 import error_pb2, kernel_service_pb2


class Connecting(unittest.TestCase):
    def fake(self, answers, **arguments):
        server = FakeServer(answers, **arguments)
        self.addCleanup(server.server.stop, None)
        return server

    def test_no_server(self):
        with self.assertRaises(kiln.NoServer) as caught:
            kiln.connect("127.0.0.1:1", connect_timeout=0.2)
        self.assertIn("127.0.0.1:1", str(caught.exception))
        self.assertIn("kilnd", caught.exception.remedy)
        self.assertIsInstance(caught.exception, ConnectionError)

    def test_wrong_version(self):
        server = self.fake({"DeviceService.List": lambda request, context: listing((7, 9))})
        with self.assertRaises(kiln.WrongVersion) as caught:
            kiln.connect(server.address)
        self.assertIn("7 to 9", str(caught.exception))

    def test_tokens(self):
        def answer(request, context):
            if ("authorization", "Bearer right") not in context.invocation_metadata():
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "this token opens nothing")
            return listing()

        server = self.fake({"DeviceService.List": answer})
        for token in ("wrong", None):
            with self.assertRaises(kiln.Unauthenticated) as caught:
                kiln.connect(server.address, token=token)
            self.assertIn("token", caught.exception.remedy)
        kiln.connect(server.address, token="right").close()

    def test_what_is_no_kilnd(self):
        with self.assertRaises(kiln.Unimplemented):
            kiln.connect(self.fake({}).address)

    def test_an_unknown_device(self):
        server = self.fake({"DeviceService.List": lambda request, context: listing()})
        with self.assertRaises(kiln.NotFound) as caught:
            kiln.connect(server.address, device="CUDA:7")
        self.assertEqual(caught.exception.code, "UNKNOWN_DEVICE")
        self.assertIn("CPU:0", caught.exception.remedy)

    def test_details_travel_whole(self):
        said = dict(code=error_pb2.GRAPH_TOO_LARGE, node=3, op="ADD", slot=0, limit="nodes", limit_value=10, used=12,
                    retry_after_ms=1500)  # fmt: skip

        def refuse(request, context):
            abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "12 nodes of 10", **said)

        server = self.fake({"DeviceService.List": lambda request, context: listing(), "KernelService.Compile": refuse})
        with kiln.connect(server.address) as client:
            with self.assertRaises(kiln.ResourceExhausted) as caught:
                client.compile(graphs.elementwise("ADD"))
        error = caught.exception
        self.assertEqual((error.code, error.node, error.op, error.slot, error.tag), ("GRAPH_TOO_LARGE", 3, "ADD", 0, None))
        self.assertEqual((error.limit, error.limit_value, error.used, error.retry_after), ("nodes", 10, 12, 1.5))
        self.assertEqual(error.detail, error_pb2.ErrorDetail(**said))
        self.assertIsInstance(error, MemoryError)

    def test_a_deadline(self):
        gate = threading.Event()
        self.addCleanup(gate.set)

        def wait(request, context):
            gate.wait()
            return kernel_service_pb2.CompileResponse()

        server = self.fake({"DeviceService.List": lambda request, context: listing(), "KernelService.Compile": wait})
        with kiln.connect(server.address, timeout=0.2) as client, self.assertRaises(kiln.DeadlineExceeded):
            client.compile(graphs.elementwise("ADD"))

    def test_every_status_has_a_class(self):
        for status, kind in errors.BY_STATUS.items():
            self.assertIs(kind.status, status)
            self.assertIsInstance(kind("text"), kiln.KilnError)
        for code in errors.REMEDIES:
            self.assertIn(code, error_pb2.ErrorCode.keys())


class LostConnections(unittest.TestCase):
    def test_in_the_middle_of_an_upload(self):
        server = support.Server()
        self.addCleanup(server.stop)
        client = kiln.connect(server.address, lease=2)  # for as long it hopes
        self.addCleanup(client.close)

        def kill_half_way(done, total):
            if done * 2 > total:
                server.kill()

        with self.assertRaises((kiln.ConnectionLost, kiln.NoServer)) as caught:
            client.buffer(np.zeros(64 << 20, np.uint8), progress=kill_half_way)
        self.assertIn(server.address, str(caught.exception))
        with self.assertRaises(kiln.Unavailable):
            client.devices()

    def test_in_the_middle_of_a_download(self):
        server = support.Server()
        self.addCleanup(server.stop)
        client = kiln.connect(server.address, lease=2)  # for as long it hopes
        self.addCleanup(client.close)
        buffer = client.empty((64 << 20,), "uint8")
        with self.assertRaises(kiln.Unavailable):
            buffer.numpy(progress=lambda done, total: done and server.kill())


_CHILD = """
    import os, sys
    sys.path.insert(0, sys.argv[1])
    import support, graphs, kiln
    import numpy as np
    client = kiln.connect(sys.argv[2], lease=2)
    kept = [client.empty((1 << 20,), "uint8"), client.buffer(np.ones(5))[2:]]
    def die(done, total):
        if done * 2 >= total:
            os.kill(os.getpid(), 9)
    if sys.argv[3] == "upload":
        client.buffer(np.zeros(64 << 20, np.uint8), progress=die)
    else:
        program = client.compile(graphs.elementwise("ADD", shape=(1 << 22,)))
        x = client.buffer(np.ones(1 << 22, np.float32))
        results = program.run({0: x, 1: x}, out="buffers").results
        stub = client._connection.stub("KernelService.Execute", raw_request=True)
        request = b"".join(program._request(program._prepare({0: x, 1: x})[0], False, False))
        calls = [stub.future(request, metadata=client._connection.session.metadata) for _ in range(3)]
        os.kill(os.getpid(), 9)
"""


class KilledClients(support.ServerTest):
    """What a client had, sent and did not finish is gone within its lease."""

    def run_child(self, what):
        buffer = self.client.empty((1 << 20,), "uint8")
        before = self.in_use()
        arguments = [str(pathlib.Path(__file__).parent), self.server.address, what]
        child = subprocess.run([sys.executable, "-c", textwrap.dedent(_CHILD), *arguments], stdout=subprocess.PIPE)
        self.assertEqual(child.returncode, -9)
        self.settle(before)
        # The server is well, and so are other clients' buffers.
        self.assertEqual(self.client.compile(graphs.elementwise("ADD"))(np.ones(4, "f"), np.ones(4, "f")).tolist(), [2] * 4)
        buffer.fill(1)
        self.assertEqual(buffer.read(0, 2).tolist(), [1, 1])
        buffer.free()

    def test_in_the_middle_of_an_upload(self):
        self.run_child("upload")

    def test_in_the_middle_of_an_execute(self):
        self.run_child("execute")


if __name__ == "__main__":
    unittest.main()
