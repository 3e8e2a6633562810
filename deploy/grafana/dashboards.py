"""Writes the dashboards for Grafana beside it, and into the chart, from one table: a dashboard has rows, a row has panels,
and a panel has its queries, each with what its lines are called.

A query is of the servers that the variable `instance` chooses (SERVERS). Where a time is asked for, Grafana knows how often
Prometheus scrapes: $__rate_interval. tests/tidy/dashboards_test.py has the files be as this writes them, and every query
name metrics and labels that there are; ./dev watch-tools asks them of a Prometheus.

    python deploy/grafana/dashboards.py
"""

import json
import pathlib

SERVERS = 'instance=~"$instance"'
RATE = "[$__rate_interval]"
# Of Grafana's grid: 24 columns; three panels beside each other.
WIDTH, HEIGHT = 8, 8


def rate(metric, by="", where=""):
    inner = "rate(%s{%s}%s)" % (metric, ",".join(filter(None, [SERVERS, where])), RATE)
    return "sum by (%s) (%s)" % (by, inner) if by else "sum(%s)" % inner


def quantile(share, metric, by="", where=""):
    return "histogram_quantile(%s, %s)" % (share, rate(metric + "_bucket", ", ".join(filter(None, [by, "le"])), where))


def now(metric, by="", how="sum", where=""):
    inner = "%s{%s}" % (metric, ",".join(filter(None, [SERVERS, where])))
    return "%s by (%s) (%s)" % (how, by, inner) if by else inner


CALLS = "grpc_server_call_duration_seconds"

# name: (title, rows); a row: (title, panels); a panel: (title, unit, [(query, what its lines are called)]).
DASHBOARDS = {
    "fleet": ("Kiln: fleet", [
        ("Servers", [
            ("Ready", "short", [(now("kiln_ready"), "{{instance}}")]),
            ("Releases", "short", [("count by (version, build) (kiln_build_info{%s})" % SERVERS, "{{version}} {{build}}")]),
            ("Sessions", "short", [(now("kiln_sessions"), "{{instance}}")]),
        ]),
        ("Calls", [
            ("Calls a second", "reqps", [(rate(CALLS + "_count", "grpc_method"), "{{grpc_method}}")]),
            ("Calls that failed", "reqps", [(rate(CALLS + "_count", "grpc_status", 'grpc_status!="OK"'), "{{grpc_status}}")]),
            ("Time of Execute", "s", [
                (quantile(share, CALLS, where='grpc_method="kiln.v1.KernelService/Execute"'), name)
                for share, name in ((0.5, "p50"), (0.99, "p99"))]),
        ]),
        ("Where the time goes", [
            ("Parts of executions, p99", "s", [(quantile(0.99, "kiln_execute_seconds", "phase"), "{{phase}}")]),
            ("Bytes a second", "Bps", [(rate("kiln_bytes_total", "direction"), "{{direction}}")]),
            ("Predicted wait", "s", [(now("kiln_predicted_wait_seconds", "instance", "max"), "{{instance}}")]),
        ]),
        ("What went wrong", [
            ("Refused for a limit", "reqps", [(rate("kiln_rejections_total", "limit"), "{{limit}}")]),
            ("Deadlines missed", "reqps", [(rate("kiln_deadline_missed_total", "where"), "{{where}}")]),
            ("Callers that went away", "reqps", [(rate("kiln_cancelled_total", "where"), "{{where}}")]),
        ]),
        ("Processes", [
            ("Cores", "short", [("rate(process_cpu_seconds_total{%s}%s)" % (SERVERS, RATE), "{{instance}}")]),
            ("Memory", "bytes", [(now("process_resident_memory_bytes"), "{{instance}}")]),
            ("Handles", "short", [(now("kiln_handles"), "{{instance}}")]),
        ]),
    ]),
    "tenants": ("Kiln: tenants", [
        ("Devices", [
            ("Time on devices, of a second", "percentunit", [(rate("kiln_device_busy_seconds_total", "tenant"), "{{tenant}}")]),
            ("Had, over what was due", "short", [(now("kiln_share_ratio", "tenant, device", "avg"), "{{tenant}} {{device}}")]),
            ("Memory", "bytes", [
                (now("kiln_tenant_memory_bytes", "tenant", where='kind="in_use"'), "{{tenant}}"),
                (now("kiln_tenant_memory_bytes", "tenant", where='kind="guaranteed"'), "{{tenant}}, guaranteed")]),
        ]),
        ("Quotas", [
            ("Used of the limit", "percentunit", [
                ("max by (tenant, quota) (kiln_quota_used{%s} / kiln_quota_limit{%s})" % (SERVERS, SERVERS),
                 "{{tenant}} {{quota}}")]),
            ("Refused for a limit", "reqps", [(rate("kiln_rejections_total", "limit"), "{{limit}}")]),
            ("Calls nobody is known for", "reqps", [
                (rate(CALLS + "_count", "grpc_status", 'grpc_status=~"UNAUTHENTICATED|PERMISSION_DENIED"'), "{{grpc_status}}"),
                (rate("kiln_issuers_unanswered_total"), "issuers that gave no keys")]),
        ]),
    ]),
    "devices": ("Kiln: devices", [
        ("Work", [
            ("Busy, of a second", "percentunit", [(rate("kiln_device_busy_seconds_total", "instance, device"), "{{instance}} {{device}}")]),
            ("Waiting", "short", [(now("kiln_device_queue_entries", "instance, device"), "{{instance}} {{device}}")]),
            ("Predicted wait", "s", [(now("kiln_predicted_wait_seconds", "instance, device", "max"), "{{instance}} {{device}}")]),
        ]),
        ("State", [
            ("Up", "short", [(now("kiln_device_up", "instance, device", "min"), "{{instance}} {{device}}")]),
            ("Memory in use, of the limit", "percentunit", [
                ('kiln_memory_bytes{%s,kind="in_use"} / ignoring(kind) kiln_memory_bytes{%s,kind="limit"}' % (SERVERS, SERVERS),
                 "{{instance}} {{device}}")]),
            ("Memory, and models' weights in it", "bytes", [
                (now("kiln_memory_bytes", "device, kind"), "{{device}} {{kind}}"),
                (now("kiln_model_memory_bytes", "model, version"), "{{model}} {{version}}")]),
        ]),
        ("Turns", [
            ("From a turn to the first step", "s", [(quantile(share, "kiln_queue_seconds"), name)
                                                    for share, name in ((0.5, "p50"), (0.99, "p99"))]),
            ("Runs that let others go first", "ops", [(rate("kiln_run_pauses_total", "device"), "{{device}}")]),
            ("Executions run together", "ops", [(rate("kiln_batched_requests_total"), "executions"),
                                                (rate("kiln_batched_runs_total"), "runs")]),
        ]),
    ]),
    "compiler": ("Kiln: compiler", [
        ("Programs", [
            ("Looked for", "ops", [(rate("kiln_cache_lookups_total", "result, reason"), "{{result}} {{reason}}")]),
            ("Found, of those looked for", "percentunit", [
                ("%s / %s" % (rate("kiln_cache_lookups_total", where='result="hit"'), rate("kiln_cache_lookups_total")), "hits")]),
            ("Compilations", "ops", [(rate("kiln_compile_seconds_count", "result"), "{{result}}")]),
        ]),
        ("Time", [
            ("Of a compilation", "s", [(quantile(share, "kiln_compile_seconds"), name)
                                       for share, name in ((0.5, "p50"), (0.99, "p99"))]),
            ("Compiling, threads at once", "short", [(rate("kiln_compile_seconds_sum", "instance"), "{{instance}}")]),
            ("Workers that ended", "ops", [(rate("kiln_compile_worker_exits_total", "cause"), "{{cause}}")]),
        ]),
    ]),
}  # fmt: skip


def panel(number, x, y, row):
    title, unit, queries = row
    return {
        "id": number, "type": "timeseries", "title": title, "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"x": x, "y": y, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 5}}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [{"refId": chr(ord("A") + i), "expr": query, "legendFormat": name,
                     "datasource": {"type": "prometheus", "uid": "${datasource}"}}
                    for i, (query, name) in enumerate(queries)],
    }  # fmt: skip


def dashboard(name):
    title, rows = DASHBOARDS[name]
    panels, y, number = [], 0, 0
    for heading, of_row in rows:
        number += 1
        panels.append({"id": number, "type": "row", "title": heading, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": 3 * WIDTH, "h": 1}})  # fmt: skip
        for i, each in enumerate(of_row):
            number += 1
            panels.append(panel(number, i * WIDTH, y + 1, each))
        y += 1 + HEIGHT
    source = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    servers = {"name": "instance", "label": "servers", "type": "query", "datasource": {"type": "prometheus", "uid": "${datasource}"},
               "query": "label_values(kiln_build_info, instance)", "refresh": 2, "multi": True, "includeAll": True,
               "allValue": ".*", "current": {"text": "All", "value": "$__all"}}  # fmt: skip
    return {"uid": "kiln-" + name, "title": title, "tags": ["kiln"], "schemaVersion": 38, "editable": True, "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"}, "templating": {"list": [source, servers]}, "panels": panels,
            "links": [{"title": "Kiln", "type": "dashboards", "tags": ["kiln"], "asDropdown": True}]}  # fmt: skip


def text(name):
    return json.dumps(dashboard(name), indent=1) + "\n"


HERE = pathlib.Path(__file__).parent
# Helm reads nothing outside of a chart.
FOLDERS = [HERE, HERE.parent / "helm" / "kiln" / "files" / "dashboards"]

if __name__ == "__main__":
    for folder in FOLDERS:
        folder.mkdir(exist_ok=True)
        for each in DASHBOARDS:
            (folder / ("kiln-%s.json" % each)).write_text(text(each))
