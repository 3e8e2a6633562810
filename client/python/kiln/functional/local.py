"""kiln.local: a server of one's own, on this machine, for as long as its client is open.

    with kiln.local() as client:
        print(kiln.array([1, 2, 3]).sum())

It serves on a socket in a folder of this user's own, so that nobody else on the machine reaches it.
It ends with the client, or with this process; where that is killed, the server stays.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Deque, Optional

from kiln.errors import NoServer
from kiln.functional import programs

if TYPE_CHECKING:
    from kiln.client import Client

_SERVING = " event=serving "
# What a socket's path may have, less its name.
_LONGEST = 90


def _folder() -> str:
    """A new folder that only this user may enter."""
    folder = tempfile.mkdtemp(prefix="kiln-")
    if len(folder) <= _LONGEST:
        return folder
    os.rmdir(folder)
    return tempfile.mkdtemp(prefix="kiln-", dir="/tmp")


def binary() -> str:
    """The path of kilnd: KILN_KILND's, the package kilnd's, or that on PATH. NoServer if there is none."""
    found, missing = programs.find("kilnd", "KILN_KILND")
    if found is None:
        raise NoServer("kiln.local starts a kilnd, and %s" % missing,
                       remedy="pip install ./kilnd-*.whl, by its file, as it is not on PyPI; "
                              "KILN_KILND=/path/to/kilnd; or kiln.connect() to a server that runs")  # fmt: skip
    return found


class Server:
    """A kilnd that this process has started: `address`."""

    def __init__(self, *flags: str):
        path = binary()
        self._folder = _folder()
        self.address = "unix:%s/kilnd.sock" % self._folder
        try:
            self._process = subprocess.Popen([path, "--listen=%s" % self.address, *flags], stderr=subprocess.PIPE,
                                             stdin=subprocess.DEVNULL, text=True)  # fmt: skip
        except OSError:
            os.rmdir(self._folder)
            raise
        self._owner = os.getpid()
        self._at_exit: Callable[[], None] = self.stop
        self._said: Deque[str] = deque(maxlen=20)
        if not self._serves():
            self.stop()
            self._process.stderr.close()  # type: ignore[union-attr]
            raise NoServer("%s did not serve: %s" % (path, " ".join("".join(self._said).split()) or "it said nothing"))
        # What it logs must not fill the pipe.
        self._reader = threading.Thread(target=self._read_on, name="kiln-local", daemon=True)
        self._reader.start()

    def _serves(self) -> bool:
        """Waits until it does, or has ended."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line)
            if _SERVING in line:
                return True
        return False

    def _read_on(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr:
            for line in self._process.stderr:
                self._said.append(line)

    def ends_with(self, client: Any) -> None:
        """Its client's close() ends it, and so does this process."""
        client._server = self
        self._at_exit = client.close
        atexit.register(client.close)

    def stop(self) -> None:
        """Ends it, after what it runs. Twice is once; a forked child ends nothing."""
        atexit.unregister(self._at_exit)
        if self._owner == os.getpid() and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()
        if self._owner == os.getpid():
            shutil.rmtree(self._folder, ignore_errors=True)


def local(*flags: str, **options: Any) -> "Client":
    """Starts a kilnd with these flags ("--cpu_devices=2") and connects to it; `options` are connect()'s.

    The binary is KILN_KILND's, the package kilnd's, or on PATH. The end of the client, or of a `with`, ends it. Raises
    NoServer where there is no binary, or it does not serve, and what connect() does.
    """
    from kiln.client import connect  # which imports this package

    server = Server(*flags)
    try:
        client = connect(server.address, **options)
    except BaseException:
        server.stop()
        raise
    server.ends_with(client)
    return client
