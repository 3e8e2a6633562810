"""An OpenTelemetry collector for tests: takes OTLP over HTTP, and keeps the spans that it took."""

import gzip
import http.server
import ssl
import threading
import time

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

import support


class Span:
    """One that was taken, with its attributes as a dict."""

    def __init__(self, span, resource):
        self.name, self.kind = span.name, span.kind
        self.trace_id, self.span_id, self.parent = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
        self.begin, self.end = span.start_time_unix_nano, span.end_time_unix_nano
        self.attributes, self.resource = attributes(span.attributes), resource
        self.links = [(link.trace_id.hex(), link.span_id.hex()) for link in span.links]
        self.status = span.status.code


def attributes(pairs):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


class Collector(http.server.ThreadingHTTPServer):
    """On a free port of loopback. `plan` has what is answered first, one (status, headers) a request; then it takes
    all. While `open` is not set, requests wait for it."""

    def __init__(self, plan=(), certificate=None):
        super().__init__(("127.0.0.1", 0), Request)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = "%s://localhost:%d/v1/traces" % ("http" if certificate is None else "https", self.server_port)
        self.plan = list(plan)
        self.open = threading.Event()
        self.open.set()
        self.lock = threading.Lock()
        self.times, self.headers, self.taken = [], [], []
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)
        self._thread.start()

    def stop(self):
        self.open.set()
        self.shutdown()
        self.server_close()
        self._thread.join()

    def spans(self):
        with self.lock:
            return list(self.taken)

    def wait_for(self, wanted):
        """The spans for which `wanted(span)`, once there is one."""
        found = []

        def there():
            found[:] = [span for span in self.spans() if wanted(span)]
            time.sleep(0.01)  # leaves the machine to whoever makes them
            return found

        assert support.eventually(there), "no such span came"
        return found

    def handle_error(self, request, client_address):
        pass  # a server that stops hangs up


class Request(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        collector = self.server
        body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
        with collector.lock:
            collector.times.append(time.monotonic())
            collector.headers.append((self.path, dict(self.headers)))
            status, headers = collector.plan.pop(0) if collector.plan else (200, {})
        collector.open.wait()
        if status == 200:
            request = trace_service_pb2.ExportTraceServiceRequest.FromString(body)
            with collector.lock:
                for resource in request.resource_spans:
                    collector.taken += [Span(span, attributes(resource.resource.attributes))
                                        for scope in resource.scope_spans for span in scope.spans]  # fmt: skip
        self.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *words):
        pass
