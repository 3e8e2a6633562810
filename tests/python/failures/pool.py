"""Several servers behind HAProxy, which sends each call to the next one."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

import admin

HAPROXY = shutil.which("haproxy", path=os.environ.get("PATH", "") + ":/usr/sbin")

CONFIGURATION = """
defaults
    mode http
    timeout connect 5s
    timeout client 1m
    timeout server 1m
frontend all
    bind fd@%d proto h2
    default_backend pool
backend pool
    balance roundrobin
    option httpchk
    http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host localhost
    default-server inter 200ms fall 1 rise 1
"""


class Pool:
    """Servers, and HAProxy before them."""

    def __init__(self, servers):
        """Servers with an admin port are asked there for their health."""
        self.servers = servers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.set_inheritable(True)
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self._folder = tempfile.TemporaryDirectory()
        rows = "".join("    server s%d %s proto h2%s\n" % (i, one.address, self._checks(one))
                       for i, one in enumerate(servers))  # fmt: skip
        file = pathlib.Path(self._folder.name) / "haproxy.cfg"
        file.write_text(CONFIGURATION % self._listener.fileno() + rows)
        self._proxy = subprocess.Popen([HAPROXY, "-f", str(file)], stderr=subprocess.DEVNULL, close_fds=False)

    def _checks(self, server):
        if "event=admin" not in "".join(server.log):
            return ""
        return " check check-proto h1 port %d" % admin.Admin(server).port

    def stop(self):
        self._proxy.send_signal(signal.SIGTERM)
        self._proxy.wait()
        self._listener.close()
        self._folder.cleanup()
        for server in self.servers:
            server.stop()
