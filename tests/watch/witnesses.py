"""Tools of others that watch a kilnd: fetched by their own ways, started beside it, stopped by stop()."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OUT = ROOT / "out" / "watch"
BIN = OUT / "bin"

GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4"
GHZ = "github.com/bojand/ghz/cmd/ghz@v0.93.0"
PROBE = "github.com/grpc-ecosystem/grpc-health-probe@v0.4.63"
BUILDER = "go.opentelemetry.io/collector/cmd/builder@v0.140.0"
# What a collector consists of that takes OTLP and says what it took.
COLLECTOR = """
dist: {name: otelcol, output_path: %s}
receivers:
  - gomod: go.opentelemetry.io/collector/receiver/otlpreceiver v0.140.0
exporters:
  - gomod: go.opentelemetry.io/collector/exporter/debugexporter v0.140.0
providers:
  - gomod: go.opentelemetry.io/collector/confmap/provider/envprovider v1.46.0
  - gomod: go.opentelemetry.io/collector/confmap/provider/fileprovider v1.46.0
"""
COLLECTOR_SETTINGS = """
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:%d"}}}}
exporters: {debug: {verbosity: detailed}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [debug]}}
"""
TRACE_MODEL = "@tracerbench/trace-model@8.0.0"


class Absent(Exception):
    """A tool that cannot be had here."""


def check_equal(found, wanted):
    assert found == wanted, "%r, not %r" % (found, wanted)


def free_port():
    """One that is free now: for tools that do not choose for themselves."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def eventually(condition, seconds=120):
    """What `condition()` is once it is true, or at the end of that time."""
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.2)
    return found


def fetched(words, **options):
    """Runs a command that fetches something."""
    try:
        subprocess.run(words, check=True, capture_output=True, text=True, **options)
    except FileNotFoundError:
        raise Absent("%s is not installed" % words[0])
    except subprocess.CalledProcessError as error:
        raise Absent("%s: %s" % (" ".join(map(str, words)), error.stderr.strip().splitlines()[-1:]))


def installed(name):
    if shutil.which(name) is None:
        raise Absent("%s is not installed" % name)
    return name


def go_tool(module):
    """A program of a Go module, built once."""
    path = BIN / module.rpartition("/")[2].partition("@")[0]
    if not path.exists():
        fetched(["go", "install", module], env={**os.environ, "GOBIN": str(BIN)})
    return path


class Tool:
    """A program that serves a port of loopback; what it says is in out/watch/."""

    def __init__(self, name, port, words):
        self.path = OUT / (name + ".log")
        self.log = open(self.path, "w")
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log)
        eventually(lambda: self.process.poll() is not None or self.answers(port))
        if self.process.poll() is not None or not self.answers(port):
            self.stop()
            raise AssertionError("it does not serve; %s says why" % self.path.relative_to(ROOT))

    @staticmethod
    def answers(port):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=10).close()
            return True
        except OSError:
            return False

    def text(self):
        return self.path.read_text()

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


class Prometheus(Tool):
    """With the rules of deploy/, and their scrape configuration but for times and the address."""

    def __init__(self, target):
        installed("prometheus")
        folder = OUT / "prometheus"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        deployed = (ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text()
        for ours, tests in (("127.0.0.1:7438", "127.0.0.1:%d" % target), ("15s", "1s"), ("5s", "1s")):
            assert ours in deployed, "deploy/prometheus/prometheus.yml has no %s any more" % ours
            deployed = deployed.replace(ours, tests)
        (folder / "prometheus.yml").write_text(deployed)
        shutil.copy(ROOT / "deploy" / "prometheus" / "alerts.yml", folder)
        port = free_port()
        self.url = "http://127.0.0.1:%d" % port
        super().__init__("prometheus", port, [
            "prometheus", "--config.file=%s" % (folder / "prometheus.yml"), "--storage.tsdb.path=%s" % (folder / "data"),
            "--web.listen-address=127.0.0.1:%d" % port])  # fmt: skip
        assert eventually(self.ready), "it does not become ready; %s says why" % self.path.relative_to(ROOT)

    def ready(self):
        try:
            with urllib.request.urlopen(self.url + "/-/ready") as answer:
                return answer.status == 200
        except OSError:  # 503 is one, too
            return False

    def get(self, path, **arguments):
        with urllib.request.urlopen("%s/api/v1/%s?%s" % (self.url, path, urllib.parse.urlencode(arguments))) as answer:
            return json.load(answer)["data"]

    def query(self, text):
        """The numbers of all samples that there are."""
        return [float(row["value"][1]) for row in self.get("query", query=text)["result"]]

    def number(self, text):
        """That of the one sample there is; None if there is none yet."""
        found = self.query(text)
        assert len(found) <= 1, "%s has %d samples" % (text, len(found))
        return found[0] if found else None


class OpenTelemetry(Tool):
    """OpenTelemetry's own collector, built of its modules."""

    def __init__(self):
        program = OUT / "otelcol" / "otelcol"
        if not program.exists():
            builder = go_tool(BUILDER)
            manifest = OUT / "otelcol.yml"
            manifest.write_text(COLLECTOR % program.parent)
            fetched([builder, "--config=%s" % manifest])
        port = free_port()
        settings = OUT / "otelcol-settings.yml"
        settings.write_text(COLLECTOR_SETTINGS % port)
        self.url = "http://127.0.0.1:%d/v1/traces" % port
        super().__init__("otelcol", port, [program, "--config=file:%s" % settings])


def chrome_model(path):
    """What TraceBench's reader of Chrome's format makes of a file: {line: events on it}."""
    folder = OUT / "node"
    folder.mkdir(parents=True, exist_ok=True)
    installed("node")
    if not (folder / "node_modules" / "@tracerbench").exists():
        fetched(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", folder, TRACE_MODEL])
    script = """
      const {buildModel} = require('@tracerbench/trace-model');
      const model = buildModel(JSON.parse(require('fs').readFileSync(process.argv[1])).traceEvents);
      const lines = {};
      for (const process of model.processes)
        for (const thread of process.threads) lines[process.name + ', ' + thread.name] = thread.events.length;
      console.log(JSON.stringify(lines));"""
    done = subprocess.run(["node", "-e", script, str(path)], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
