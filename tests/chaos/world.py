"""What a run takes place in: one kilnd at a time, its owner, the ways to it, and what all threads know of each other.

The server is killed and begun again on the same port and the same cache folder. Every second one writes a capture in
the place of using the cache folder, which do not go together.
"""

from __future__ import annotations

import collections
import datetime
import pathlib
import random
import socket
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Deque, Dict, List, Tuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import admin  # noqa: E402
import grpc  # noqa: E402
import proxy  # noqa: E402
import support  # noqa: E402

from kiln.transport import wire  # noqa: E402
from machine import Machine  # noqa: E402
from model import Book, Wrong  # noqa: E402
from owner import TENANTS, Owner  # noqa: E402

# A way of its own for each of these; the rest share one.
ROUTES = ("alpha", "beta", "apart", "rest")
# For whatever must come, on however slow a machine.
PATIENCE = 600.0
DATED_SECONDS = 6 * 3600
FLAGS = ("--cpu_devices=2", "--cpu_threads=2", "--compile_threads=2", "--admin_listen=127.0.0.1:0",
         "--program_cache_bytes=%d" % (16 << 20), "--keepalive_seconds=20", "--trace_buffer_bytes=262144")  # fmt: skip
# gRPC would wait for up to two minutes before it tries again.
EAGER = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1000),
         ("grpc.min_reconnect_backoff_ms", 100), ("grpc.use_local_subchannel_pool", 1))  # fmt: skip


def free_port() -> int:
    """That no client's end of a connection is given while the server is away."""
    least = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    end = least if least > 4096 else 32768  # where there is no such port
    while True:
        port = random.SystemRandom().randrange(max(1024, end - 16000), end)
        with socket.socket() as trial:
            try:
                trial.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class World:
    def __init__(self, seed: int, say: Callable[[str], None], pace: float = 1.0):
        """`pace`: faults last so many times as long as they do otherwise."""
        self._temporary = tempfile.TemporaryDirectory(prefix="kiln-chaos-")
        self.folder = pathlib.Path(self._temporary.name)
        self.cache = self.folder / "cache"
        self.cache.mkdir(mode=0o700)
        self.captures: List[pathlib.Path] = []
        self.seed, self.say, self.pace = seed, say, pace
        self.book = Book()
        self.owner = Owner(self.folder, datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=DATED_SECONDS))
        self.machine = Machine(self.folder, self.cache)
        # Of the server, so that who made something knows whether it may be gone: how often it was begun to be killed,
        # and how often it was dead for certain.
        self.kills_begun = self.kills_done = 0
        self.ended = threading.Event()  # the run is over
        self.faults: List[str] = []  # what went wrong
        # What spies try: (tenant, what, value). Of this server.
        self.published: Deque[Tuple[str, str, Any]] = collections.deque(maxlen=200)
        self._lock = threading.Lock()
        self.port = free_port()
        self.server = self._begin()
        self.routes: Dict[str, proxy.Proxy] = {name: proxy.Proxy(self.port) for name in ROUTES}

    def _begin(self) -> support.Server:
        if self.kills_begun % 2 == 0:
            kept = ["--program_cache_dir=%s" % self.cache]
        else:
            self.captures.append(self.folder / ("%d.kilncap" % self.kills_begun))
            kept = ["--capture=%s" % self.captures[-1], "--capture_max_bytes=%d" % (256 << 20)]
        return support.Server(*FLAGS, *kept, "--tenants=%s" % self.owner.tenants, "--tls_certificate=%s" % self.owner.certificate,
                              "--tls_key=%s" % self.owner.key, port=self.port, environment=self.machine.environment)  # fmt: skip

    def kill_server(self) -> None:
        """With -9, and begins another."""
        self.kills_begun += 1
        self.server.kill()
        self.published.clear()
        self.kills_done += 1

    def begin_server(self) -> None:
        self.server = self._begin()

    def fail(self, what: str) -> None:
        with self._lock:
            self.faults.append(what)
        self.ended.set()

    # -- Ways to the server

    def route(self, tenant: str) -> proxy.Proxy:
        return self.routes.get(tenant, self.routes["rest"])

    def channel(self, address: str) -> grpc.Channel:
        trusted = grpc.ssl_channel_credentials(self.owner.authority.read_bytes())
        return grpc.secure_channel(address, trusted, [*wire.CHANNEL_OPTIONS, *EAGER])

    def metadata(self, tenant: str, session: bytes = b"") -> List[Tuple[str, Any]]:
        shown = [("authorization", "Bearer " + self.owner.secret_file(tenant).read_text())]
        return shown + ([("kiln-session-bin", session)] if session else [])

    def admin(self) -> admin.Admin:
        return admin.Admin(self.server)

    # -- Waiting

    def wait(self, what: str, condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
        """Until `condition()` is true, which it must come to be."""
        end = time.monotonic() + patience
        while True:
            found = condition()
            if found:
                return found
            if self.faults:
                raise Wrong("the run had failed before %s" % what)
            if time.monotonic() > end:
                raise Wrong("%s: not within %d s" % (what, patience))
            time.sleep(0.02)

    def logged(self, words: str, since: int) -> bool:
        """Whether the server has said `words` since it had said `since` lines."""
        return any(words in line for line in self.server.log[since:])

    def close(self) -> None:
        for each in self.routes.values():
            each.close()
        if self.server.process.poll() is None:
            self.server.kill()
        self._temporary.cleanup()


__all__ = ["DATED_SECONDS", "PATIENCE", "TENANTS", "World", "support", "wire"]
