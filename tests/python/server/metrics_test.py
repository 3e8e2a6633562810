"""What a server counts, read from its admin port: exact numbers after known calls, and readiness while it drains."""

import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import grpc

import admin
import graphs
import kiln
import support
from kiln.transport import wire
from kiln.v1 import buffer_service_pb2, kernel_service_pb2


class Calls:
    """Calls of a server, one message each."""

    def __init__(self, server, token=None):
        self.channel = grpc.insecure_channel(server.address)
        self.metadata = [("authorization", "Bearer " + token)] if token else []

    def call(self, name, request, **options):
        method = wire.METHODS[name]
        stub = self.channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)
        return stub(request, metadata=self.metadata, **options)

    def refused(self, name, request, **options):
        try:
            self.call(name, request, **options)
        except grpc.RpcError as error:
            return error.code()
        raise AssertionError("%s was not refused" % name)

    def compile(self, graph):
        return self.call("KernelService.Compile", kernel_service_pb2.CompileRequest(graph=graph))


def execution(compiled):
    """An Execute of elementwise("ADD") with results by value."""
    request = kernel_service_pb2.ExecuteRequest(graph_hash=compiled.graph_hash, result_mode=kernel_service_pb2.RESULT_INLINE)
    for slot in range(2):
        tensor = request.arguments.add(slot=slot).tensor
        tensor.dtype = compiled.signature.parameters[slot].dtype
        tensor.shape.append(4)
        tensor.data = bytes(16)
    return request


class MetricsTest(unittest.TestCase):
    FLAGS = ("--admin_listen=127.0.0.1:0", "--graph_limits_max_nodes=100", "--cpu_devices=2")

    def setUp(self):
        self.server = support.Server(*self.FLAGS)
        self.addCleanup(self.server.stop)
        self.admin = admin.Admin(self.server)
        self.calls = Calls(self.server)

    def test_known_calls_give_known_numbers(self):
        graph = graphs.elementwise("ADD")
        compiled = self.calls.compile(graph)
        self.calls.compile(graph)
        request = execution(compiled)
        for _ in range(5):
            self.calls.call("KernelService.Execute", request)
        wrong = graphs.elementwise("ADD", sources=1)
        self.assertEqual(self.calls.refused("KernelService.Compile", kernel_service_pb2.CompileRequest(graph=wrong)),
                         grpc.StatusCode.INVALID_ARGUMENT)  # fmt: skip
        large = graphs.elementwise("ADD", shape=[1] * 200)
        self.assertEqual(self.calls.refused("KernelService.Compile", kernel_service_pb2.CompileRequest(graph=large)),
                         grpc.StatusCode.RESOURCE_EXHAUSTED)  # fmt: skip
        unknown = kernel_service_pb2.ExecuteRequest(graph_hash=bytes(32))
        code = self.calls.refused("KernelService.Execute", unknown)

        found = self.admin.samples()
        method = "kiln.v1.KernelService/"
        calls = "grpc_server_call_duration_seconds_count"
        self.assertEqual(found[calls, method + "Compile", "OK"], 2)
        self.assertEqual(found[calls, method + "Compile", "INVALID_ARGUMENT"], 1)
        self.assertEqual(found[calls, method + "Compile", "RESOURCE_EXHAUSTED"], 1)
        self.assertEqual(found[calls, method + "Execute", "OK"], 5)
        self.assertEqual(found[calls, method + "Execute", code.name], 1)
        self.assertEqual({key[1:] for key in found if key[0] == calls and key[1].startswith(method)},
                         {(method + "Compile", "OK"), (method + "Compile", "INVALID_ARGUMENT"),
                          (method + "Compile", "RESOURCE_EXHAUSTED"), (method + "Execute", "OK"),
                          (method + "Execute", code.name)})  # fmt: skip
        self.assertEqual(found["kiln_cache_lookups_total", "miss", "compiled"], 1)
        self.assertEqual(found["kiln_cache_lookups_total", "hit", "memory"], 6)
        self.assertEqual(found["kiln_cache_lookups_total", "miss", "need_graph"], 1)
        self.assertEqual(found["kiln_cache_lookups_total", "miss", "failed"], 1)
        self.assertEqual(found["kiln_compile_seconds_count", "ok"], 1)
        self.assertEqual(found["kiln_compile_seconds_count", "refused"], 1)
        self.assertEqual(found["kiln_compile_seconds_count", "fault"], 0)
        self.assertEqual(found["kiln_rejections_total", "nodes"], 1)
        self.assertEqual(sum(value for key, value in found.items() if key[0] == "kiln_rejections_total"), 1)
        for phase in ("decode", "cache", "h2d", "device", "encode"):
            self.assertEqual(found["kiln_execute_seconds_count", phase], 5, phase)
        self.assertEqual(found["kiln_execute_seconds_count", "compile"], 0)
        self.assertEqual(found["kiln_queue_seconds_count",], 5)
        busy = {key[1:]: value for key, value in found.items() if key[0] == "kiln_device_busy_seconds_total"}
        self.assertEqual(set(busy), {("CPU:0", "")})
        self.assertGreater(busy["CPU:0", ""], 0)
        self.assertAlmostEqual(busy["CPU:0", ""], found["kiln_execute_seconds_sum", "device"], delta=1e-7)
        self.assertGreater(found["kiln_bytes_total", "received"], 5 * request.ByteSize() + 2 * graph.ByteSize())
        self.assertGreater(found["kiln_bytes_total", "sent"], 5 * 16)

    def test_a_draining_server_is_alive_and_not_ready(self):
        with kiln.connect(self.server.address):
            os.kill(self.server.process.pid, signal.SIGTERM)
            answers = set()
            with contextlib.suppress(OSError, http.client.HTTPException):  # until it is gone
                while True:
                    answers.add(self.admin.get("/readyz")[0])
                    answers.add(self.admin.get("/healthz")[0])
        self.assertIn(503, answers)
        self.assertIn(200, answers)


class PagesTest(support.ServerTest):
    FLAGS = ("--admin_listen=127.0.0.1:0", "--cpu_devices=2")

    def setUp(self):
        self.admin = admin.Admin(self.server)

    def test_what_is_looked_up(self):
        kept = self.client.buffer([1.0] * 1000)
        self.client.fence()
        found = self.admin.samples()
        self.assertEqual(found["kiln_sessions",], 1)
        self.assertGreaterEqual(found["kiln_handles",], 1)
        self.assertGreaterEqual(found["kiln_memory_bytes", "CPU:0", "in_use"], 4000)
        self.assertEqual(found["kiln_memory_bytes", "CPU:1", "in_use"], 0)
        del kept
        self.assertEqual(found["kiln_device_up", "CPU:0"], 1)
        self.assertEqual(found["kiln_ready",], 1)
        self.assertEqual([key[1] for key in found if key[0] == "kiln_build_info"][0][:5], "kiln-")
        self.assertGreater(found["process_resident_memory_bytes",], 1 << 20)
        self.assertGreaterEqual(found["process_open_fds",], 3)

    def test_promtool_agrees(self):
        if shutil.which("promtool") is None:
            self.skipTest("promtool is not installed (Debian's package prometheus)")
        text = self.admin.get("/metrics")[1]
        done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        # As other servers write them, to be added up with theirs.
        self.assertEqual([bound for bound in re.findall(r'le="([^"]*)"', text) if len(bound) > len("0.0006")], [])
        rules = support.ROOT / "deploy" / "prometheus" / "prometheus.yml"
        subprocess.run(["promtool", "check", "config", rules], check=True, capture_output=True)

    def test_pages(self):
        self.assertEqual(self.admin.get("/healthz"), (200, "alive\n"))
        self.assertEqual(self.admin.get("/readyz"), (200, "CPU:0 up\nCPU:1 up\n"))
        status, page = self.admin.get("/")
        self.assertEqual(status, 200)
        self.assertIn('href="/metrics"', page)
        status, state = self.admin.get("/api/state")
        self.assertEqual(status, 200)
        state = json.loads(state)
        self.assertEqual([device["name"] for device in state["devices"]], ["CPU:0", "CPU:1"])
        self.assertRegex(state["server"]["build"], "^[0-9a-f]{16}$")
        self.assertEqual(self.admin.get("/other")[0], 404)


class TenantsTest(unittest.TestCase):
    def test_tenants_are_those_of_the_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txtpb") as file:
            for name in ("alice", "bob"):
                digest = hashlib.sha256(name.encode()).hexdigest()
                file.write('tenant { name: "%s" token { sha256: "%s" } quota { sessions: 1 } }\n' % (name, digest))
            file.flush()
            with support.running("--admin_listen=127.0.0.1:0", "--tenants=%s" % file.name) as server:
                compiled = None
                for name in ("alice", "bob", "bob"):
                    calls = Calls(server, token=name)
                    compiled = calls.compile(graphs.elementwise("ADD"))
                    calls.call("KernelService.Execute", execution(compiled))
                    if name == "alice":
                        calls.call("BufferService.Allocate", buffer_service_pb2.AllocateRequest(bytes=4096))
                stranger = Calls(server, token="mallory")
                self.assertEqual(stranger.refused("KernelService.Execute", execution(compiled)),
                                 grpc.StatusCode.UNAUTHENTICATED)  # fmt: skip
                self.check(admin.Admin(server).samples())

    def check(self, found):
        busy = {key[1:] for key in found if key[0] == "kiln_device_busy_seconds_total"}
        self.assertEqual(busy, {("CPU:0", "alice"), ("CPU:0", "bob")})
        self.assertEqual({key[1] for key in found if key[0] == "kiln_quota_used"}, {"alice", "bob"})
        self.assertEqual(found["kiln_quota_limit", "bob", "sessions"], 1)
        self.assertEqual(found["kiln_quota_used", "bob", "sessions"], 0)
        self.assertEqual(found["kiln_quota_used", "bob", "requests_in_flight"], 0)
        self.assertEqual(found["kiln_tenant_memory_bytes", "CPU:0", "alice", "in_use"], 4096)
        self.assertNotIn(("kiln_tenant_memory_bytes", "CPU:0", "alice", "guaranteed"), found)
        shares = {key[1:]: value for key, value in found.items() if key[0] == "kiln_share_ratio"}
        self.assertEqual(set(shares), {("CPU:0", "alice"), ("CPU:0", "bob")})
        self.assertGreater(min(shares.values()), 0)
        self.assertEqual(found["kiln_run_pauses_total", "CPU:0"], 0)  # never two tenants at once
        self.assertEqual(found["kiln_predicted_wait_seconds", "CPU:0"], 0)  # all has been done
        # Each has its own programs.
        self.assertEqual(found["kiln_cache_lookups_total", "miss", "compiled"], 2)
        calls = "grpc_server_call_duration_seconds_count"
        self.assertEqual(found[calls, "kiln.v1.KernelService/Execute", "OK"], 3)
        self.assertEqual(found[calls, "kiln.v1.KernelService/Execute", "UNAUTHENTICATED"], 1)
        self.assertNotIn("mallory", str(sorted(found)))


if __name__ == "__main__":
    unittest.main()
