"""`./dev watch-tools`: a kilnd watched by tools of others, and what they say of it beside what was done to it.

Not part of ./dev test: it fetches what it needs (Debian's prometheus, two Go modules, a package of npm's). A tool that
cannot be had is a row "absent"; a row that fails makes the command fail.
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile

from witnesses import BIN, OUT, PROBE, ROOT, Absent, OpenTelemetry, Prometheus, chrome_model, eventually, go_tool, installed
from witnesses import support

import admin
import grpc
import graphs
from kiln.transport import wire
from kiln.v1 import buffer_service_pb2, kernel_service_pb2

TENANTS = """
tenant { name: "alice" token { sha256: "%s" } right: EXECUTE_RIGHT quota { device_bytes: 4096 } }
tenant { name: "bob" token { sha256: "%s" } right: EXECUTE_RIGHT weight: 3 }
tenant { name: "operator" token { sha256: "%s" } right: EXECUTE_RIGHT right: DEBUG_RIGHT right: ADMIN_RIGHT }
"""
TRACE = "0af7651916cd43dd8448eb211c80319c"
EXECUTE = "kiln.v1.KernelService/Execute"
CALLS = {"alice": 50, "bob": 150}


class Table:
    """Rows as they are checked."""

    def __init__(self):
        self.failed = 0

    def check(self, who, what, function):
        try:
            said = function()
            state = "ok"
        except Absent as absent:
            state, said = "absent", str(absent)
        except (AssertionError, OSError, ValueError, KeyError, StopIteration) as error:
            state, said = "FAILED", "%s: %s" % (type(error).__name__, error)
            self.failed += 1
        print("%-7s %-18s %-52s %s" % (state, who, what, said if isinstance(said, str) else ""), flush=True)
        return said if state == "ok" else None


def equal(found, wanted):
    assert found == wanted, "%r, not %r" % (found, wanted)
    return found


class Caller:
    """A tenant, who executes x + y."""

    def __init__(self, server, name):
        self.metadata = [("authorization", "Bearer " + name)]
        self.channel = grpc.insecure_channel(server.address)
        compiled = self.call("KernelService.Compile", kernel_service_pb2.CompileRequest(graph=graphs.elementwise("ADD")))
        inline = kernel_service_pb2.RESULT_INLINE
        self.request = kernel_service_pb2.ExecuteRequest(graph_hash=compiled.graph_hash, result_mode=inline)
        for slot in range(2):
            tensor = self.request.arguments.add(slot=slot).tensor
            tensor.dtype = compiled.signature.parameters[slot].dtype
            tensor.shape.append(4)
            tensor.data = bytes(16)

    def call(self, name, request, *metadata):
        return wire.stub(self.channel, name)(request, metadata=[*self.metadata, *metadata])

    def execute(self, *metadata):
        self.call("KernelService.Execute", self.request, *metadata)


def work(server):
    """What the tools are asked about: known calls of two tenants, memory of one, a trace."""
    callers = {name: Caller(server, name) for name in CALLS}
    for name, calls in CALLS.items():
        for _ in range(calls):
            callers[name].execute()
    callers["alice"].call("BufferService.Allocate", buffer_service_pb2.AllocateRequest(bytes=4096))
    callers["bob"].execute(("traceparent", "00-%s-b7ad6b7169203331-01" % TRACE))


def promtool(table, page):
    def metrics():
        done = subprocess.run([installed("promtool"), "check", "metrics"], input=page, capture_output=True, text=True)
        equal((done.returncode, done.stdout + done.stderr), (0, ""))

    def config():
        path = ROOT / "deploy" / "prometheus" / "prometheus.yml"
        done = subprocess.run([installed("promtool"), "check", "config", path], capture_output=True, text=True)
        equal((done.returncode, done.stderr), (0, ""))
        return "%s rules" % re.search(r"(\d+) rules found", done.stdout).group(1)

    table.check("promtool", "check metrics: the page as it is", metrics)
    table.check("promtool", "check config: deploy/prometheus with its rules", config)


def asked(table, prometheus, stop_server):
    """Prometheus scrapes, and answers with what was done."""
    value = lambda text, wanted: lambda: equal(eventually(lambda: prometheus.number(text) == wanted) and wanted, wanted)
    calls = sum(CALLS.values()) + 1
    rows = (
        ("up, after a scrape", 'up{job="kilnd"}', 1),
        ("calls of Execute that were OK", 'grpc_server_call_duration_seconds_count{grpc_method="%s",grpc_status="OK"}'
         % EXECUTE, calls),
        ("programs that were compiled: one a tenant", 'kiln_cache_lookups_total{result="miss",reason="compiled"}', 2),
        ("alice's memory", 'kiln_tenant_memory_bytes{tenant="alice",kind="in_use",device="CPU:0"}', 4096),
        ("calls that fell into a bucket of ten seconds", 'grpc_server_call_duration_seconds_bucket{grpc_method="%s",'
         'grpc_status="OK",le="10"}' % EXECUTE, calls),
        ("tenants whose time on the device was counted", "count(kiln_device_busy_seconds_total > 0)", 2),
        ("tenants with a share of it", "count(kiln_share_ratio > 0)", 2),
        ("records exported: calls, runs and kernels", 'kiln_otlp_records_total{result="sent"} > 0 and on() vector(1)', None),
    )  # fmt: skip
    for what, query, wanted in rows:
        if wanted is not None:
            table.check("prometheus", what, value(query, wanted))

    def page():
        queries = re.findall(r"\| `([^`]+)` \|$", (ROOT / "docs" / "metrics.md").read_text(), re.M)
        for query in queries:
            prometheus.query(query)
        return "%d queries" % len(queries)

    def rules():
        found = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        names = re.findall(r"- alert: (\w+)", (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
        equal(sorted(rule["name"] for rule in found), sorted(names))
        equal({rule["health"] for rule in found}, {"ok"})
        return "%d rules" % len(found)

    def alert(name):
        def there():
            return any(alert["labels"]["alertname"] == name for alert in prometheus.get("alerts")["alerts"])

        return lambda: equal(eventually(there), True) and None

    table.check("prometheus", "answers every query of docs/metrics.md", page)
    table.check("prometheus", "evaluates every rule of deploy/prometheus", rules)
    table.check("prometheus", "alert: alice has all of her device_bytes", alert("KilnTenantAtItsLimit"))
    stop_server()
    table.check("prometheus", "alert: the server is down", alert("KilnDown"))


def probed(table, server):
    def probe(*words):
        done = subprocess.run([go_tool(PROBE), "-addr=" + server.address, *words], capture_output=True, text=True)
        return done.returncode, (done.stdout + done.stderr).strip().splitlines()[-1]

    table.check("grpc_health_probe", "the server serves", lambda: equal(probe(), (0, "status: SERVING"))[1])
    table.check("grpc_health_probe", "CPU:0 serves", lambda: equal(probe("-service=CPU:0"), (0, "status: SERVING"))[1])
    table.check("grpc_health_probe", "a device that is not there does not",
                lambda: equal(probe("-service=CPU:7")[0] != 0, True) and None)  # fmt: skip


def collected(table, collector):
    """What the collector says that it got of the call with our trace."""
    blocks = lambda: [block for block in collector.text().split("\nSpan #") if TRACE in block]
    table.check("otelcol", "the call that named its trace is there",
                lambda: equal(eventually(lambda: any("Name           : " + EXECUTE in each for each in blocks())), True)
                and "trace %s" % TRACE)  # fmt: skip

    def parts():
        names = set(re.findall(r"Name +: (.+)", "".join(blocks())))
        equal({"decode", "queue", "device", "run", "encode"} <= names, True)
        return "%d spans" % len(blocks())

    def call():
        (block,) = [each for each in blocks() if "Name           : " + EXECUTE in each]
        for part in ("Kind           : Server", "Parent ID      : b7ad6b7169203331", "rpc.system: Str(grpc)",
                     "rpc.method: Str(Execute)", "rpc.grpc.status_code: Int(0)", "kiln.tenant: Str(bob)"):  # fmt: skip
            assert part in block, "no %r" % part

    table.check("otelcol", "with its parts, its run and its kernel", parts)
    table.check("otelcol", "with kind, parent and attributes", call)
    table.check("otelcol", "from a resource with a name",
                lambda: equal("service.name: Str(kilnd)" in collector.text(), True) and None)  # fmt: skip


def drawn(table, server):
    path = OUT / "trace.json"

    def written():
        words = [str(support.CLI), "trace", "--server", server.address, "-o", str(path)]
        subprocess.run(words, check=True, capture_output=True, env={"KILN_TOKEN": "operator"})
        return "%d bytes" % path.stat().st_size

    def nested():
        """As Perfetto and chrome://tracing draw it: on one line, events lie within each other or apart."""
        lines = {}
        for event in json.loads(path.read_text())["traceEvents"]:
            if event["ph"] == "X":
                lines.setdefault((event["pid"], event["tid"]), []).append(event)
        count = 0
        for events in lines.values():
            events.sort(key=lambda event: (event["ts"], -event["dur"]))
            open_until = []
            for event in events:
                begin, end = round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)
                while open_until and open_until[-1] <= begin:
                    open_until.pop()
                assert not open_until or end <= open_until[-1], "%r crosses what it lies in" % event
                open_until.append(end)
                count += 1
        return "%d events on %d lines" % (count, len(lines))

    def model():
        lines = chrome_model(path)
        assert lines["devices, CPU:0"] > sum(CALLS.values()), lines
        return "%d lines" % len(lines)

    if table.check("kiln trace", "writes a file", written):
        table.check("kiln trace", "its events nest", nested)
        table.check("tracebench", "its reader of Chrome's format takes it", model)


def main():
    BIN.mkdir(parents=True, exist_ok=True)
    table = Table()
    started = []

    def start(who, make):
        made = table.check(who, "starts", make)
        if made is not None:
            started.append(made)
        return made

    collector = start("otelcol", OpenTelemetry)
    with tempfile.NamedTemporaryFile("w", suffix=".txtpb") as file:
        file.write(TENANTS % tuple(hashlib.sha256(name.encode()).hexdigest() for name in ("alice", "bob", "operator")))
        file.flush()
        url = "none" if collector is None else collector.url
        server = support.Server("--tenants=" + file.name, "--compile_isolation=off", "--admin_listen=127.0.0.1:0",
                                "--otlp_endpoint=" + url)  # fmt: skip
        try:
            work(server)
            port = admin.Admin(server)
            prometheus = start("prometheus", lambda: Prometheus(port.port))
            promtool(table, port.get("/metrics")[1])
            probed(table, server)
            drawn(table, server)
            if collector is not None:
                collected(table, collector)
            if prometheus is not None:
                asked(table, prometheus, server.stop)
        finally:
            server.stop()
            for tool in started:
                tool.stop()
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
