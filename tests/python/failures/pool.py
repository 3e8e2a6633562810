"""Several servers, and the ways by which clients come to them: HAProxy, which sends each call to the next one; nginx, which
does so with connections; and a list that clients have."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

import admin

PATH = os.environ.get("PATH", "") + ":/usr/sbin"
NGINX_STREAM = pathlib.Path("/usr/lib/nginx/modules/ngx_stream_module.so")
HAPROXY = shutil.which("haproxy", path=PATH)
NGINX = NGINX_STREAM.exists() and shutil.which("nginx", path=PATH)

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


# docs/balancers.md has it, with names in place of addresses; tests/python/failures/nginx_test.py runs it as it stands.
NGINX_CONFIGURATION = """
load_module %s;
events { worker_connections 1024; }
stream {
    upstream pool {
        zone pool 256k;
        least_conn;
%s    }
    server {
        listen 127.0.0.1:%d;
        proxy_pass pool;
        proxy_connect_timeout 5s;
        proxy_timeout 1h;
    }
}
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
        self._proxy = self._start(pathlib.Path(self._folder.name))

    def _start(self, folder):
        rows = "".join("    server s%d %s proto h2%s\n" % (i, one.address, self._checks(one))
                       for i, one in enumerate(self.servers))  # fmt: skip
        file = folder / "haproxy.cfg"
        file.write_text(CONFIGURATION % self._listener.fileno() + rows)
        return subprocess.Popen([HAPROXY, "-f", str(file)], stderr=subprocess.DEVNULL, close_fds=False)

    def _checks(self, server):
        if "event=admin" not in "".join(server.log):
            return ""
        return " check check-proto h1 port %d" % admin.Admin(server).port

    def address_for(self, client):
        """Where the client of this number goes."""
        return self.address

    def stop(self):
        self._proxy.send_signal(signal.SIGTERM)
        self._proxy.wait()
        self._listener.close()
        self._folder.cleanup()
        for server in self.servers:
            server.stop()


class Nginx(Pool):
    def _start(self, folder):
        rows = "".join("        server %s max_fails=1 fail_timeout=1s;\n" % one.address for one in self.servers)
        file = folder / "nginx.conf"
        file.write_text(NGINX_CONFIGURATION % (NGINX_STREAM, rows, int(self.address.split(":")[1])))
        # It inherits the socket, so that no other program can take its port meanwhile.
        return subprocess.Popen([NGINX, "-p", str(folder), "-c", str(file), "-e", "stderr", "-g", "daemon off; pid %s/pid;" % folder],
                                stderr=subprocess.DEVNULL, close_fds=False,
                                env={**os.environ, "NGINX": "%d;" % self._listener.fileno()})  # fmt: skip


class Listed:
    """No balancer: each client has all addresses, and begins at another one."""

    def __init__(self, servers):
        self.servers = servers
        self._addresses = [server.address for server in servers]

    def address_for(self, client):
        first = client % len(self._addresses)
        return ",".join(self._addresses[first:] + self._addresses[:first])

    def stop(self):
        for server in self.servers:
            server.stop()
