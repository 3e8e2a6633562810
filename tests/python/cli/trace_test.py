"""What a server keeps of recent calls: parts that lie within the call, the caller's trace, and nobody else's calls."""

import hashlib
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import grpc

import support  # finds the package
import graphs
import kiln
from kiln.transport import wire
from kiln.v1 import debug_service_pb2, kernel_service_pb2

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
EXECUTE = "KernelService.Execute"


class Caller:
    """Calls of a server, with metadata."""

    def __init__(self, server, *metadata):
        self.channel = grpc.insecure_channel(server.address)
        self.metadata = metadata

    def call(self, name, request, *metadata):
        return wire.stub(self.channel, name)(request, metadata=(*self.metadata, *metadata))

    def execution(self):
        """Compiles x + y, and what runs it."""
        graph = graphs.elementwise("ADD")
        compiled = self.call("KernelService.Compile", kernel_service_pb2.CompileRequest(graph=graph))
        inline = kernel_service_pb2.RESULT_INLINE
        request = kernel_service_pb2.ExecuteRequest(graph_hash=compiled.graph_hash, result_mode=inline)
        for slot in range(2):
            tensor = request.arguments.add(slot=slot).tensor
            tensor.dtype = compiled.signature.parameters[slot].dtype
            tensor.shape.append(4)
            tensor.data = bytes(16)
        return request

    def trace(self, **asked):
        return self.call("DebugService.Trace", debug_service_pb2.TraceRequest(**asked))

    def executions(self):
        return [call for call in self.trace().calls if call.method == EXECUTE]

    def code(self, name, request):
        try:
            self.call(name, request)
        except grpc.RpcError as error:
            return error.code()
        raise AssertionError("%s was not refused" % name)


class TraceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = support.Server()
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        self.caller = Caller(self.server)

    def test_a_call_has_its_callers_trace_and_parts_within_it(self):
        request = self.caller.execution()
        self.caller.call(EXECUTE, request)
        self.caller.call(EXECUTE, request, ("traceparent", "00-%s-%s-01" % (TRACE, SPAN)))
        self.caller.call(EXECUTE, request, ("traceparent", "00-%s-%s-01" % (TRACE.upper(), SPAN)))
        before, found, after = self.caller.executions()[-3:]
        self.assertEqual(found.trace_id.hex(), TRACE)
        self.assertEqual(found.parent_span_id.hex(), SPAN)
        for call in (before, after):
            self.assertNotEqual(call.trace_id.hex(), TRACE)
            self.assertEqual(len(call.trace_id), 16)
            self.assertEqual(call.parent_span_id, b"")
        self.assertEqual(len({call.span_id for call in (before, found, after)}), 3)
        self.assertEqual((found.device, found.status, found.tenant), ("CPU:0", 0, ""))
        names = [part.name for part in found.parts]
        self.assertEqual(names, ["decode", "verify", "cache", "arguments", "turn", "upload", "queue", "device", "results",
                                 "encode"])  # fmt: skip
        self.assertEqual(found.parts[0].begin_ns, found.begin_ns)
        for part in found.parts:
            self.assertLessEqual(part.begin_ns, part.end_ns, part.name)
            self.assertLessEqual(found.begin_ns, part.begin_ns, part.name)
            self.assertLessEqual(part.end_ns, found.end_ns, part.name)

    def test_grpcs_older_header_is_passed_over(self):
        request = self.caller.execution()
        binary = b"\0\0" + bytes.fromhex(TRACE) + b"\1" + bytes.fromhex(SPAN) + b"\2\1"
        self.caller.call(EXECUTE, request, ("grpc-trace-bin", binary))
        self.caller.call(EXECUTE, request, ("grpc-trace-bin", binary), ("traceparent", "00-%s-%s-01" % (TRACE, SPAN)))
        alone, beside = self.caller.executions()[-2:]
        self.assertNotEqual(alone.trace_id.hex(), TRACE)
        self.assertEqual(alone.parent_span_id, b"")
        self.assertEqual((beside.trace_id.hex(), beside.parent_span_id.hex()), (TRACE, SPAN))

    def test_a_compilation_shows_its_stages(self):
        for isolation in ("off", "on"):
            with self.subTest(isolation), support.running("--compile_isolation=" + isolation) as server:
                caller = Caller(server)
                caller.execution()
                caller.execution()
                first, second = [call for call in caller.trace().calls if call.method == "KernelService.Compile"]
                self.assertEqual([part.name for part in first.parts], ["verify", "compile"])
                stages = [stage.name for stage in first.stages]
                self.assertEqual(stages, ["wait"] + ["worker"] * (isolation == "on")
                                 + ["import", "schedule", "kernels", "code", "load"])  # fmt: skip
                before = first.parts[1].begin_ns
                for stage in first.stages:
                    self.assertLessEqual(before, stage.begin_ns, stage.name)
                    self.assertLess(stage.begin_ns, stage.end_ns, stage.name)
                    before = stage.end_ns
                self.assertLessEqual(before, first.parts[1].end_ns)
                self.assertEqual([part.name for part in second.parts], ["verify", "cache"])
                self.assertEqual(len(second.stages), 0)

    def test_a_compilation_that_fails_shows_where(self):
        refused = {
            ("import",): graphs.elementwise("ADD", sources=1),
            ("import", "schedule", "kernels"): graphs.elementwise("ADD", shape=(1 << 40,)),  # it would run for too long
        }
        for isolation in ("off", "on"):
            flags = ("--compile_isolation=" + isolation, "--graph_limits_max_run_seconds=1")
            with self.subTest(isolation), support.running(*flags) as server:
                caller = Caller(server)
                for expected, graph in refused.items():
                    asked = kernel_service_pb2.CompileRequest(graph=graph)
                    code = caller.code("KernelService.Compile", asked)
                    call = [call for call in caller.trace().calls if call.method == "KernelService.Compile"][-1]
                    self.assertEqual(call.status, code.value[0])
                    self.assertEqual([part.name for part in call.parts], ["verify", "compile"])
                    stages = [stage.name for stage in call.stages]
                    self.assertEqual(stages, ["wait"] + ["worker"] * (isolation == "on") + list(expected))
                    self.assertEqual([stage.failed for stage in call.stages], [False] * (len(stages) - 1) + [True])
                    before = call.parts[1].begin_ns
                    for stage in call.stages:
                        self.assertLessEqual(before, stage.begin_ns, stage.name)
                        self.assertLessEqual(stage.begin_ns, stage.end_ns, stage.name)
                        before = stage.end_ns
                    self.assertLessEqual(before, call.parts[1].end_ns)

    def test_a_call_that_fails_shows_how_far_it_came(self):
        unknown = kernel_service_pb2.ExecuteRequest(graph_hash=bytes(32))
        self.assertEqual(self.caller.code(EXECUTE, unknown), grpc.StatusCode.NOT_FOUND)
        failed = self.caller.executions()[-1]
        self.assertEqual(failed.status, grpc.StatusCode.NOT_FOUND.value[0])
        self.assertEqual([part.name for part in failed.parts], ["decode", "verify", "cache"])

    def test_commands_of_a_stream_have_entries_of_their_own(self):
        found = []

        def there():
            found[:] = [call for call in self.caller.trace().calls if call.method == "KernelService.Submit.execute"]
            return found

        with kiln.connect(self.server.address) as client:
            self.assertEqual(client.arange(3).numpy().tolist(), [0, 1, 2])
        self.assertTrue(support.eventually(there))
        command = found[-1]
        self.assertEqual((command.device, command.status, len(command.trace_id)), ("CPU:0", 0, 16))
        names = [part.name for part in command.parts]
        self.assertEqual(names[0], "decode")
        self.assertLess(names.index("turn"), names.index("device"))
        for part in command.parts:
            self.assertLessEqual(command.begin_ns, part.begin_ns, part.name)
            self.assertLessEqual(part.end_ns, command.end_ns, part.name)

        def stream():
            return [call for call in self.caller.trace().calls if call.span_id == command.parent_span_id]

        self.assertTrue(support.eventually(stream))  # it has ended when the server has noticed
        self.assertEqual([call.method for call in stream()], ["KernelService.Submit"])

    def test_kernels_are_timed_for_who_asks(self):
        request = self.caller.execution()
        self.caller.call(EXECUTE, request)
        self.caller.trace(launch_seconds=60)
        self.caller.call(EXECUTE, request)
        runs = self.caller.trace().runs
        kernels = [run for run in runs if run.kernel]
        self.assertEqual({run.device for run in runs}, {"CPU:0"})
        self.assertEqual(len(kernels), 1)
        self.assertLessEqual(kernels[0].begin_ns, kernels[0].end_ns)
        for seconds in (-1, float("nan"), float("inf")):
            for wrong in (dict(seconds=seconds), dict(launch_seconds=seconds)):
                request = debug_service_pb2.TraceRequest(**wrong)
                self.assertEqual(self.caller.code("DebugService.Trace", request), grpc.StatusCode.INVALID_ARGUMENT)

    def test_the_command_writes_what_perfetto_reads(self):
        self.caller.call(EXECUTE, self.caller.execution(), ("traceparent", "00-%s-%s-01" % (TRACE, SPAN)))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "trace.json"
            support.cli("trace", "--server", self.server.address, "-o", str(path))
            events = json.loads(path.read_text())["traceEvents"]
        lines = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
        calls = [event for event in events if event["name"] == EXECUTE and event["args"]["trace_id"] == TRACE]
        self.assertEqual(calls[-1]["args"]["parent_span_id"], SPAN)
        self.assertTrue(lines[calls[-1]["pid"], calls[-1]["tid"]].startswith("calls "))
        runs = [event for event in events if event["name"] == "run"]
        self.assertEqual({lines[event["pid"], event["tid"]] for event in runs}, {"CPU:0"})


class TenantsTest(unittest.TestCase):
    def test_a_tenant_sees_its_own(self):
        rights = {"alice": "", "bob": "", "operator": "right: ADMIN_RIGHT"}
        with tempfile.NamedTemporaryFile("w", suffix=".txtpb") as file:
            for name, right in rights.items():
                digest = hashlib.sha256(name.encode()).hexdigest()
                file.write('tenant { name: "%s" token { sha256: "%s" } right: EXECUTE_RIGHT right: DEBUG_RIGHT %s }\n'
                           % (name, digest, right))  # fmt: skip
            file.flush()
            with support.running("--tenants=%s" % file.name, "--compile_isolation=off") as server:
                callers = {name: Caller(server, ("authorization", "Bearer " + name)) for name in (*rights, "mallory")}
                for name in ("alice", "bob", "bob"):
                    callers[name].call(EXECUTE, callers[name].execution())
                self.assertEqual(callers["mallory"].code("DebugService.Trace", debug_service_pb2.TraceRequest()),
                                 grpc.StatusCode.UNAUTHENTICATED)  # fmt: skip
                self.assertEqual([call.tenant for call in callers["alice"].executions()], ["alice"])
                self.assertEqual([call.tenant for call in callers["bob"].executions()], ["bob"] * 2)
                self.assertEqual({run.tenant for run in callers["bob"].trace().runs}, {"bob"})
                seen = callers["operator"].trace()
                self.assertEqual([call.tenant for call in seen.calls if call.method == EXECUTE], ["alice", "bob", "bob"])
                self.assertEqual([call.tenant for call in seen.calls if call.status == 16], [""])
                asked = debug_service_pb2.TraceRequest(launch_seconds=1)
                self.assertEqual(callers["bob"].code("DebugService.Trace", asked), grpc.StatusCode.PERMISSION_DENIED)
                callers["operator"].call("DebugService.Trace", asked)


class OffTest(unittest.TestCase):
    def test_without_memory_nothing_is_kept(self):
        with support.running("--trace_buffer_bytes=0") as server:
            caller = Caller(server)
            caller.call(EXECUTE, caller.execution())
            kept = caller.trace()
            self.assertEqual((len(kept.calls), len(kept.runs)), (0, 0))


if __name__ == "__main__":
    unittest.main()
