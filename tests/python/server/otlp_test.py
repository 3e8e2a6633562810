"""Traces at an OpenTelemetry collector: what it gets, and what becomes of the server's calls where it is slow or gone."""

import contextlib
import hashlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import grpc

import support  # finds the package
import admin
import graphs
import kiln
from collector import Collector
from kiln.transport import wire
from kiln.v1 import kernel_service_pb2

EXECUTE, SUBMIT = "kiln.v1.KernelService/Execute", "kiln.v1.KernelService/Submit"
SPAN = "b7ad6b7169203331"
# More calls than one request and the backlog of one tenant hold (server/otlp/backlog.h).
MANY = 1000


def traceparent(number, sampled=True):
    return ("traceparent", "00-%032x-%s-0%d" % (number, SPAN, sampled))


class Caller:
    """Executes x + y."""

    def __init__(self, server, *metadata):
        self.channel = grpc.insecure_channel(server.address)
        self.metadata = metadata
        compile_request = kernel_service_pb2.CompileRequest(graph=graphs.elementwise("ADD"))
        compiled = wire.stub(self.channel, "KernelService.Compile")(compile_request, metadata=metadata)
        self.request = graphs.of_zeros(compiled)
        self.stub = wire.stub(self.channel, "KernelService.Execute")

    def __call__(self, *metadata):
        self.stub(self.request, metadata=(*self.metadata, *metadata))


@contextlib.contextmanager
def exporting(collector, *flags, ratio=0):
    url = collector if isinstance(collector, str) else collector.url
    with support.running("--otlp_endpoint=" + url, "--trace_sample_ratio=%g" % ratio, *flags) as server:
        yield server


def records(server, result):
    return admin.Admin(server).samples()["kiln_otlp_records_total", result]


class OtlpTest(unittest.TestCase):
    def collector(self, **options):
        collector = Collector(**options)
        self.addCleanup(collector.stop)
        return collector

    def test_a_call_with_its_parts_run_and_kernels(self):
        collector = self.collector()
        with exporting(collector) as server:
            caller = Caller(server)
            caller()  # its caller does not say, and the ratio is 0
            caller(traceparent(1, sampled=False))
            caller(traceparent(2))
            collector.wait_for(lambda span: span.trace_id == "%032x" % 2)
        spans = collector.spans()
        self.assertEqual({span.trace_id for span in spans}, {"%032x" % 2})
        by_id = {span.span_id: span for span in spans}
        self.assertEqual(len(by_id), len(spans))
        (call,) = [span for span in spans if span.name == EXECUTE]
        self.assertEqual((call.kind, call.parent, call.status), (2, SPAN, 0))  # a server's, and no error
        self.assertEqual(call.attributes, {"rpc.system": "grpc", "rpc.service": "kiln.v1.KernelService",
                                           "rpc.method": "Execute", "rpc.grpc.status_code": 0,
                                           "kiln.device": "CPU:0"})  # fmt: skip
        self.assertEqual(call.resource["service.name"], "kilnd")
        self.assertRegex(call.resource["service.version"], r"^kiln-")
        self.assertEqual(len(call.resource["service.instance.id"]), 36)
        parts = [span.name for span in spans if span.parent == call.span_id]
        self.assertEqual(parts, ["decode", "verify", "cache", "arguments", "turn", "upload", "queue", "device", "results",
                                 "encode"])  # fmt: skip
        (device,) = [span for span in spans if span.name == "device"]
        (run,) = [span for span in spans if span.parent == device.span_id]
        (kernel,) = [span for span in spans if span.parent == run.span_id]
        self.assertEqual((run.name, run.attributes), ("run", {"kiln.device": "CPU:0", "kiln.launches": 1}))
        self.assertEqual(kernel.attributes, {"kiln.device": "CPU:0"})
        self.assertEqual(len(spans), 1 + len(parts) + 2)
        for span in spans:
            self.assertLessEqual(span.begin, span.end, span.name)
            if span is not call:
                parent = by_id[span.parent]
                self.assertLessEqual(parent.begin, span.begin, span.name)
                self.assertLessEqual(span.end, parent.end, span.name)

    def test_stages_are_children_of_the_compilation(self):
        collector = self.collector()
        with exporting(collector) as server:
            Caller(server, traceparent(3))  # compiles
            collector.wait_for(lambda span: span.name == "compile")
        spans = collector.spans()
        (compiled,) = [span for span in spans if span.name == "compile"]
        stages = [span for span in spans if span.parent == compiled.span_id]
        self.assertEqual([span.name for span in stages], ["wait", "import", "schedule", "kernels", "code", "load"])
        for span in stages:
            self.assertLessEqual(compiled.begin, span.begin, span.name)
            self.assertLessEqual(span.end, compiled.end, span.name)

    def test_a_failure_of_ours_and_one_of_the_callers(self):
        collector = self.collector()
        with exporting(collector, "--cpu_devices=2") as server:
            channel = grpc.insecure_channel(server.address)
            for number, name in enumerate(("KernelService.Execute", "DebugService.Export"), 1):
                stub = wire.stub(channel, name)
                method = wire.METHODS[name]
                with self.assertRaises(grpc.RpcError):
                    answer = stub(method.request(), metadata=[traceparent(number)])
                    self.assertTrue(method.streams_out)
                    list(answer)
            collector.wait_for(lambda span: span.name.endswith("/Export"))
        calls = {span.attributes["rpc.method"]: span for span in collector.spans() if span.kind == 2}
        self.assertEqual(calls["Execute"].status, 0)
        self.assertNotEqual(calls["Execute"].attributes["rpc.grpc.status_code"], 0)
        self.assertEqual(calls["Export"].status, 2)
        self.assertEqual(calls["Export"].attributes["rpc.grpc.status_code"], grpc.StatusCode.UNIMPLEMENTED.value[0])

    def test_commands_of_a_stream_are_linked_to_it(self):
        collector = self.collector()
        with exporting(collector, ratio=1) as server:
            with kiln.connect(server.address) as client:
                self.assertEqual(client.arange(3).numpy().tolist(), [0, 1, 2])
            collector.wait_for(lambda span: span.name == SUBMIT)
        spans = collector.spans()
        (stream,) = [span for span in spans if span.name == SUBMIT]
        commands = [span for span in spans if span.name.startswith(SUBMIT + " ")]
        for command in commands:
            self.assertEqual((command.kind, command.parent), (1, ""))
            self.assertEqual(command.links, [(stream.trace_id, stream.span_id)])
            self.assertNotEqual(command.trace_id, stream.trace_id)
        executed = next(span for span in commands if span.name == SUBMIT + " execute")
        below = {span.name for span in spans if span.trace_id == executed.trace_id}
        self.assertEqual(below & {"decode", "device", "run"}, {"decode", "device", "run"})

    def test_commands_of_a_stream_with_a_trace_are_its_children(self):
        collector = self.collector()
        with exporting(collector) as server:
            submit = wire.stub(grpc.insecure_channel(server.address), "KernelService.Submit")
            hello = kernel_service_pb2.SubmitRequest(command_id=1, hello=kernel_service_pb2.SubmitHello(protocol_min=1))
            fence = kernel_service_pb2.SubmitRequest(command_id=2, fence=kernel_service_pb2.FenceCommand())
            wrong = kernel_service_pb2.SubmitRequest(command_id=3, free=kernel_service_pb2.FreeCommand(handle=[5]))
            answers = list(submit(iter([hello, fence, wrong]), metadata=[traceparent(7)]))
            self.assertTrue(answers[-1].HasField("failed"))
            (stream,) = collector.wait_for(lambda span: span.name == SUBMIT)
        self.assertEqual((stream.trace_id, stream.parent), ("%032x" % 7, SPAN))
        commands = {span.attributes["kiln.command"]: span for span in collector.spans() if "kiln.command" in span.attributes}
        self.assertEqual(set(commands), {"fence", "free"})
        for command in commands.values():
            self.assertEqual((command.trace_id, command.parent, command.links), (stream.trace_id, stream.span_id, []))
            self.assertLessEqual(stream.begin, command.begin)
            self.assertLessEqual(command.end, stream.end)
        self.assertEqual(commands["fence"].attributes["rpc.grpc.status_code"], 0)
        self.assertNotEqual(commands["free"].attributes["rpc.grpc.status_code"], 0)

    def test_a_slow_collector_and_a_busy_tenant_cost_the_others_nothing(self):
        collector = self.collector()
        collector.open.clear()
        with tempfile.NamedTemporaryFile("w", suffix=".txtpb") as file:
            for name in ("alice", "bob"):
                digest = hashlib.sha256(name.encode()).hexdigest()
                file.write('tenant { name: "%s" token { sha256: "%s" } }\n' % (name, digest))
            file.flush()
            flags = ("--tenants=" + file.name, "--compile_isolation=off", "--admin_listen=127.0.0.1:0")
            with exporting(collector, *flags) as server:
                alice, bob = (Caller(server, ("authorization", "Bearer " + name)) for name in ("alice", "bob"))
                with self.assertRaises(grpc.RpcError):
                    bob.stub(bob.request, metadata=[("authorization", "Bearer mallory"), traceparent(1)])
                bob(traceparent(2))
                for _ in range(MANY):
                    alice(traceparent(3))
                self.assertGreater(records(server, "pushed_out"), 0)
                self.assertEqual(records(server, "sent"), 0)
                collector.open.set()
                alice(traceparent(4))
                # Each call is three records: itself, its run and its kernel.
                everything = 3 * (MANY + 2)
                ends = ("sent", "pushed_out", "gave_up")
                self.assertTrue(support.eventually(
                    lambda: sum(records(server, end) for end in ends) >= everything))
                self.assertEqual(sum(records(server, end) for end in ends), everything)
        calls = [span for span in collector.spans() if span.name == EXECUTE]
        tenants = {span.trace_id: span.attributes.get("kiln.tenant") for span in calls}
        self.assertEqual(tenants, {"%032x" % 2: "bob", "%032x" % 3: "alice", "%032x" % 4: "alice"})
        self.assertLess(len({span.span_id for span in calls}), MANY)

    def test_a_dead_collector_does_no_harm(self):
        with contextlib.closing(socket.socket()) as deaf:
            deaf.bind(("127.0.0.1", 0))  # and nobody listens
            url = "http://127.0.0.1:%d/v1/traces" % deaf.getsockname()[1]
            with exporting(url, "--admin_listen=127.0.0.1:0", ratio=1) as server:
                caller = Caller(server)
                for _ in range(MANY):
                    caller()
                self.assertGreater(records(server, "pushed_out"), 0)
                self.assertEqual(records(server, "sent"), 0)
                self.assertTrue(support.eventually(lambda: any("event=otlp_failed" in line for line in server.log)))
                self.assertEqual(len([line for line in server.log if "event=otlp_failed" in line]), 1)

    def test_a_collector_that_has_too_much_to_do_is_left_alone_for_a_while(self):
        collector = self.collector(plan=[(503, {"Retry-After": "2"})])
        with exporting(collector) as server:
            Caller(server)(traceparent(1))
            collector.wait_for(lambda span: span.name == EXECUTE)
        self.assertGreater(collector.times[1] - collector.times[0], 1.5)  # by itself it waits for a second at most
        self.assertEqual(len([span for span in collector.spans() if span.name == EXECUTE]), 1)

    def test_what_is_refused_is_not_sent_again(self):
        collector = self.collector(plan=[(400, {})])
        with exporting(collector, "--admin_listen=127.0.0.1:0") as server:
            caller = Caller(server)
            caller(traceparent(1))
            self.assertTrue(support.eventually(lambda: records(server, "refused") == 3))
            caller(traceparent(2))
            collector.wait_for(lambda span: span.trace_id == "%032x" % 2)
            self.assertTrue(support.eventually(lambda: records(server, "sent") == 3))
        self.assertEqual({span.trace_id for span in collector.spans()}, {"%032x" % 2})

    def test_a_server_that_stops_sends_what_it_has(self):
        collector = self.collector()
        with exporting(collector) as server:
            Caller(server)(traceparent(1))
        # It waits a second for the collector, which may be less than this machine takes.
        collector.wait_for(lambda span: span.name == EXECUTE)

    def test_the_environment_says_where_how_and_who(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        key, certificate = folder / "key", folder / "certificate"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)],
                       check=True, stderr=subprocess.DEVNULL)  # fmt: skip
        collector = self.collector(certificate=(certificate, key))
        said = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url[: -len("/v1/traces")],
                "OTEL_EXPORTER_OTLP_CERTIFICATE": str(certificate),
                "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20secret",
                "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test", "OTEL_SERVICE_NAME": "tuner"}  # fmt: skip
        with unittest.mock.patch.dict(os.environ, said), support.running() as server:
            Caller(server)(traceparent(1))
            call = collector.wait_for(lambda span: span.name == EXECUTE)[0]
        self.assertEqual((call.resource["service.name"], call.resource["deployment.environment"]), ("tuner", "test"))
        path, headers = collector.headers[0]
        self.assertEqual((path, headers["authorization"]), ("/v1/traces", "Bearer secret"))
        self.assertEqual(headers["Content-Type"], "application/x-protobuf")
        self.assertNotIn("secret", "".join(server.log))


if __name__ == "__main__":
    unittest.main()
