"""What the Python client's tests share: the package from this tree, and a kilnd.

KILN_KILND names the server's binary, KILN_CLI that of the command line; by default they are those that Bazel built.
"""

import contextlib
import gc
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "client" / "python"
sys.path.insert(0, str(PACKAGE))

import generate  # noqa: E402: of client/python

generate.generate()

import kiln  # noqa: E402

KILND = pathlib.Path(os.environ.get("KILN_KILND", ROOT / "bazel-bin" / "server" / "kilnd"))
CLI = pathlib.Path(os.environ.get("KILN_CLI", ROOT / "bazel-bin" / "client" / "cli" / "kiln"))


def cli(*words):
    """What `kiln` prints, which must succeed."""
    if not CLI.exists():
        raise unittest.TestCase.failureException("%s is not built: bazel build //client/cli:kiln" % CLI)
    return subprocess.run([str(CLI), *words], check=True, capture_output=True, text=True).stdout


class Server:
    """A kilnd on a port of loopback, a free one unless it is given; stop() ends it, kill() at once.

    With a launcher (words of a command), it is several processes, one of which serves. `environment` is in addition
    to this process's."""

    def __init__(self, *flags, launcher=(), host="127.0.0.1", port=0, environment=None):
        if not KILND.exists():
            raise unittest.TestCase.failureException("%s is not built: bazel build //server:kilnd" % KILND)
        self.process = subprocess.Popen(
            [*launcher, str(KILND), "--listen=%s:%d" % (host, port), *flags], stderr=subprocess.PIPE, text=True,
            # What this machine has besides is no test's affair, unless it says so.
            env={"KILN_GPUS": "none", **os.environ, **(environment or {})},
        )
        self.log = []
        self.port = self._wait_for_port()
        self.address = "%s:%d" % (host, self.port)
        # Its log must not fill the pipe.
        self._reader = threading.Thread(target=self._read_on, daemon=True)
        self._reader.start()

    def _wait_for_port(self):
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"event=serving .*\bport=(\d+)", line)
            if found:
                return int(found.group(1))
        raise AssertionError("kilnd did not serve:\n" + "".join(self.log))

    def _read_on(self):
        with self.process.stderr:
            for line in self.process.stderr:
                self.log.append(line)

    def rank_processes(self):
        """By rank, what the server said of its processes: only with a launcher."""
        found = [re.search(r"event=rank rank=(\d+) .*\bprocess=(\d+)", line) for line in self.log]
        return {int(row.group(1)): int(row.group(2)) for row in found if row}

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            # A launcher that is told to stop kills; the server itself stops.
            os.kill(self.rank_processes().get(0, self.process.pid), signal.SIGTERM)
            self.process.wait(timeout=60)
        self._reader.join()


@contextlib.contextmanager
def running(*flags):
    """A server for a while."""
    server = Server(*flags)
    try:
        yield server
    finally:
        server.stop()


def eventually(condition):
    """Whether `condition()` comes true; a minute is far more than it takes."""
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            return False
    return True


def free_port():
    """A port for who has to know it before it is taken, or comes back to it: none of those that the system gives to whom any
    will do, so none of these takes it meanwhile. Two tests that ask at the same time may still be given one."""
    first_of_any = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    by_chance = random.SystemRandom()  # not what another test has, of the same seed
    while True:
        port = by_chance.randrange(10_000, max(first_of_any, 12_000))
        with socket.socket() as tried:
            try:
                tried.bind(("", port))
            except OSError:
                continue
            return port


def connect_anew(address):
    """3. For other processes, which import it from here: a test file is nobody's module."""
    with kiln.connect(address) as client:
        return int(client.arange(3).numpy().sum())


class ServerTest(unittest.TestCase):
    """One kilnd for a class, and a client of it."""

    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.FLAGS)
        cls.addClassCleanup(cls.server.stop)
        cls.client = kiln.connect(cls.server.address)
        cls.addClassCleanup(cls.client.close)

    def in_use(self):
        """(bytes, buffers) of the first device, when all that was dropped is given back."""
        gc.collect()
        self.client.flush_frees()
        device = self.client.devices()[0]
        return device.memory_in_use_bytes, device.buffers

    def settle(self, wanted):
        """Until in_use() is `wanted`: the server learns of an ended stream or a dead client in its own time."""
        eventually(lambda: self.in_use() == wanted)
        self.assertEqual(self.in_use(), wanted)
