"""`./dev watch-tools`: a kilnd watched and called by tools of others, and what they say beside what was done to it.

Not part of ./dev test: it fetches what it needs (Debian's prometheus, four Go modules, a package of npm's). A tool that
cannot be had is a row "absent"; a row that fails makes the command fail.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import support  # finds the package
import admin
import callers
import work
from witnesses import BIN, OUT, PROBE, ROOT, Absent, OpenTelemetry, Prometheus, check_equal, chrome_model, eventually, go_tool, installed
from work import ALL_CALLS, BYTES, EXECUTE, SPAN, TRACE

PARTS = {"decode", "verify", "cache", "arguments", "turn", "upload", "queue", "device", "results", "encode"}


class Table:
    """Rows as they are checked."""

    def __init__(self):
        self.states = []

    def check(self, who, what, function):
        """What `function` returns; None if that failed, or its tool is absent."""
        said = None
        try:
            said = function()
            state, text = "ok", said if isinstance(said, str) else ""
        except Absent as absent:
            state, text = "absent", str(absent)
        except Exception as fault:  # of whatever kind: it is this row's, and others follow
            state, text = "FAILED", "%s: %s" % (type(fault).__name__, fault)
        self.states.append(state)
        print("%-7s %-18s %-52s %s" % (state, who, what, text), flush=True)
        return said

    def end(self):
        counts = {state: self.states.count(state) for state in ("ok", "absent", "FAILED")}
        print("%(ok)d ok, %(absent)d absent, %(FAILED)d failed" % counts)
        return 1 if counts["FAILED"] else 0


def promtool(table, page):
    def metrics():
        done = subprocess.run([installed("promtool"), "check", "metrics"], input=page, capture_output=True, text=True)
        check_equal((done.returncode, done.stdout + done.stderr), (0, ""))
        return "%d lines" % len(page.splitlines())

    def config():
        path = ROOT / "deploy" / "prometheus" / "prometheus.yml"
        done = subprocess.run([installed("promtool"), "check", "config", path], capture_output=True, text=True)
        check_equal((done.returncode, done.stderr), (0, ""))
        return "%s rules" % re.search(r"(\d+) rules found", done.stdout).group(1)

    table.check("promtool", "check metrics: the page as it is", metrics)
    table.check("promtool", "check config: deploy/prometheus with its rules", config)


def scraped(table, prometheus, exports):
    """Prometheus scrapes, and answers with what was done."""
    calls = 'grpc_server_call_duration_seconds_%%s{grpc_method="%s",grpc_status="OK"%%s}' % EXECUTE
    rows = [
        ("up, after a scrape", 'up{job="kilnd"}', 1),
        ("it is ready", "kiln_ready", 1),
        ("calls of Execute that were OK", calls % ("count", ""), ALL_CALLS),
        ("of these in the bucket of ten seconds", calls % ("bucket", ',le="10"'), ALL_CALLS),
        ("programs that were compiled: one a tenant", 'kiln_cache_lookups_total{result="miss",reason="compiled"}', 2),
        ("alice's memory", 'kiln_tenant_memory_bytes{tenant="alice",kind="in_use",device="CPU:0"}', BYTES),
        ("tenants whose time on the device was counted", "count(kiln_device_busy_seconds_total > 0)", 2),
        ("tenants that had a share of it", "count(max_over_time(kiln_share_ratio[10m]) > 0)", 2),
    ]
    if exports:
        rows.append(("records exported: a call, its run, its kernel", 'kiln_otlp_records_total{result="sent"}', 3))
    for what, query, wanted in rows:
        def number():
            eventually(lambda: prometheus.number(query) == wanted)
            check_equal(prometheus.number(query), wanted)
            return "%d" % wanted

        table.check("prometheus", what, number)


def ruled(table, prometheus, stop_server):
    """It evaluates our queries and rules, and finds what they are to find."""
    def page():
        queries = re.findall(r"\| `([^`]+)` \|$", (ROOT / "docs" / "metrics.md").read_text(), re.M)
        assert queries, "there are none"
        for query in queries:
            prometheus.query(query)
        return "%d queries" % len(queries)

    def dashboards():
        """As Grafana asks them, of all servers; most have an answer, after so little work."""
        files = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
        queries = [target["expr"].replace("$instance", ".*").replace("$__rate_interval", "10m") for file in files
                   for panel in json.loads(file.read_text())["panels"] for target in panel.get("targets", [])]  # fmt: skip
        answered = [query for query in queries if prometheus.query(query)]
        assert 2 * len(answered) > len(queries), "%d of %d" % (len(answered), len(queries))
        return "%d queries, %d with an answer" % (len(queries), len(answered))

    def rules():
        found = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        names = re.findall(r"- alert: (\w+)", (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
        check_equal(sorted(rule["name"] for rule in found), sorted(names))
        check_equal({rule["health"] for rule in found}, {"ok"})
        return "%d rules" % len(found)

    def alert(name):
        """It fires when it has lasted as long as its rule says; until then it is pending."""
        def state():
            states = [alert["state"] for alert in prometheus.get("alerts")["alerts"] if alert["labels"]["alertname"] == name]
            return states and states[0]

        def there():
            found = eventually(state)
            assert found, "there is none"
            return found

        return there

    table.check("prometheus", "answers every query of docs/metrics.md", page)
    table.check("prometheus", "answers every query of deploy/grafana", dashboards)
    table.check("prometheus", "evaluates every rule of deploy/prometheus", rules)
    table.check("prometheus", "alert: alice has all of her device_bytes", alert("KilnTenantAtItsLimit"))
    stop_server()
    table.check("prometheus", "alert: the server is down", alert("KilnDown"))


def probed(table, server):
    def probe(*words):
        done = subprocess.run([go_tool(PROBE), "-addr=" + server.address, *words], capture_output=True, text=True)
        said = (done.stdout + done.stderr).strip().splitlines()
        return done.returncode, said[-1] if said else ""

    def serves(*words):
        check_equal(probe(*words), (0, "status: SERVING"))
        return "SERVING"

    def unknown():
        status, said = probe("-service=CPU:7")
        assert status != 0 and "NotFound" in said, (status, said)
        return "NotFound"

    table.check("grpc_health_probe", "the server serves", serves)
    table.check("grpc_health_probe", "CPU:0 serves", lambda: serves("-service=CPU:0"))
    table.check("grpc_health_probe", "a device that is not there is not known", unknown)


def collected(table, collector):
    """What the collector says that it got of the call with our trace: a block of text for each span."""
    blocks = lambda: [block for block in collector.text().split("\nSpan #") if TRACE in block]
    name = lambda block: re.search(r"Name +: (.+)", block).group(1)

    def call():
        found = eventually(lambda: [block for block in blocks() if name(block) == EXECUTE])
        check_equal(len(found), 1)
        for part in ("Kind           : Server", "Parent ID      : " + SPAN, "rpc.system: Str(grpc)",
                     "rpc.method: Str(Execute)", "rpc.grpc.status_code: Int(0)", "kiln.tenant: Str(bob)"):  # fmt: skip
            assert part in found[0], "no %r" % part
        return "kind, parent, attributes"

    def parts():
        names = [name(block) for block in blocks()]
        kernels = set(names) - PARTS - {EXECUTE, "run"}
        check_equal((len(names), PARTS | {EXECUTE, "run"} <= set(names), len(kernels)), (len(PARTS) + 3, True, 1))
        return "%d spans" % len(names)

    def others():
        """No call but this one came, since only its caller asked."""
        traces = set(re.findall(r"Trace ID +: (\w+)", collector.text()))
        check_equal(traces, {TRACE})
        assert "service.name: Str(kilnd)" in collector.text(), "no name of the service"
        return "service.name kilnd"

    table.check("otelcol", "the call that named its trace is there", call)
    table.check("otelcol", "with its parts, its run and its kernel", parts)
    table.check("otelcol", "and no other, all from a resource with a name", others)


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
        for events in lines.values():
            events.sort(key=lambda event: (event["ts"], -event["dur"]))
            open_until = []
            for event in events:
                begin, end = round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)
                while open_until and open_until[-1] <= begin:
                    open_until.pop()
                assert not open_until or end <= open_until[-1], "%r crosses what it lies in" % event
                open_until.append(end)
        return "%d events on %d lines" % (sum(map(len, lines.values())), len(lines))

    def model():
        lines = chrome_model(path)
        assert lines.get("devices, CPU:0", 0) >= ALL_CALLS, lines
        assert "calls, calls 1" in lines, lines
        return ", ".join("%s: %d" % row for row in sorted(lines.items()))

    if table.check("kiln trace", "writes a file", written):
        table.check("kiln trace", "its events nest", nested)
        table.check("tracerbench", "its reader of Chrome's format takes it", model)


def main():
    BIN.mkdir(parents=True, exist_ok=True)
    table = Table()
    started = []

    def start(who, make):
        made = table.check(who, "starts", make)
        if made is not None:
            started.append(made)
        return made

    with tempfile.NamedTemporaryFile("w", suffix=".txtpb") as file:
        file.write(work.TENANTS)
        file.flush()
        collector = start("otelcol", OpenTelemetry)
        # Only who asks is exported: so it is known what comes.
        server = support.Server("--tenants=" + file.name, "--admin_listen=127.0.0.1:0", "--trace_sample_ratio=0",
                                "--otlp_endpoint=" + ("none" if collector is None else collector.url))  # fmt: skip
        try:
            port = admin.Admin(server)
            prometheus = start("prometheus", lambda: Prometheus(port.port))
            work.do(server)
            promtool(table, port.get("/metrics")[1])
            if prometheus is not None:
                scraped(table, prometheus, exports=collector is not None)
            probed(table, server)
            drawn(table, server)
            if collector is not None:
                collected(table, collector)
            if prometheus is not None:
                ruled(table, prometheus, server.stop)
        finally:
            server.stop()
            for tool in started:
                tool.stop()
    callers.rows(table)
    return table.end()


if __name__ == "__main__":
    sys.exit(main())
