"""What tests read from a server's admin port (--admin_listen)."""

import contextlib
import http.client
import re

SAMPLE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Admin:
    """The admin port of a server."""

    def __init__(self, server):
        self.port = next(int(found.group(1)) for line in server.log
                         for found in [re.search(r"event=admin .*\bport=(\d+)", line)] if found)  # fmt: skip

    def get(self, path):
        """(status, body)."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def samples(self):
        """{(name, label's value, …): number}, labels in the order of the text."""
        status, text = self.get("/metrics")
        assert status == 200, text
        found = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, labels, value = SAMPLE.match(line).groups()
                key = (name, *(value for _, value in LABEL.findall(labels or "")))
                assert key not in found, line
                found[key] = float(value)
        return found
