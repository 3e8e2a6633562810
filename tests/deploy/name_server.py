"""A server of DNS that knows one name, with several addresses: what a name for a pool is to clients. And a way to run a
command that asks it, and nobody else; both want root, as DNS has one port."""

import errno
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import threading

# Each server has its own of these, so that tests may run beside each other.
ADDRESSES = ["127.0.53.%d" % last for last in range(1, 255)]


def bound():
    """A socket at DNS's port of the first address where there is none yet. OSError if there is no such address."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for address in ADDRESSES:
        try:
            made.bind((address, 53))
            return made
        except OSError as error:
            refused = error
            if error.errno != errno.EADDRINUSE:
                break
    made.close()
    raise refused


def missing():
    """Why there can be no such server here, or nothing."""
    try:
        bound().close()
    except OSError as error:
        return "port 53 is not to be had: %s" % error
    if not shutil.which("unshare"):
        return "there is no unshare"
    tried = subprocess.run(["unshare", "--mount", "mount", "--bind", os.devnull, "/etc/resolv.conf"], capture_output=True,
                           text=True)  # fmt: skip
    return tried.returncode and "no /etc/resolv.conf of its own is to be had: %s" % tried.stderr.strip() or ""


class NameServer:
    def __init__(self, name, addresses):
        self.asked = 0
        self._name, self._addresses = name.lower().encode().split(b"."), addresses
        self._socket = bound()
        self._address = self._socket.getsockname()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            message, sender = self._socket.recvfrom(4096)
            if not message:
                return
            self._socket.sendto(self._answer(message), sender)

    def _answer(self, message):
        labels, at = [], 12
        while message[at]:
            labels.append(message[at + 1 : at + 1 + message[at]].lower())
            at += 1 + message[at]
        question = message[12 : at + 5]  # its name, type and class
        (kind,) = struct.unpack_from(">H", message, at + 1)
        known = labels == self._name
        rows = self._addresses if known and kind == 1 else []  # of IPv6 there are none
        self.asked += bool(rows)
        # Type, class, seconds to keep it, length; the name is that of the question.
        rows = b"".join(struct.pack(">HHHIH", 0xC00C, 1, 1, 0, 4) + socket.inet_aton(row) for row in rows)
        flags = 0x8580 if known else 0x8583  # an answer of who knows; or there is no such name
        return struct.pack(">2sHHHHH", message[:2], flags, 1, len(rows) // 16, 0, 0) + question + rows

    def run(self, folder, command):
        """The command, for which this is the name server."""
        file = pathlib.Path(folder, "resolv.conf")
        file.write_text("nameserver %s\n" % self._address[0])
        inside = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
        return subprocess.run(["unshare", "--mount", "sh", "-c", inside, str(file), *command], capture_output=True, text=True,
                              env=os.environ, timeout=120)  # fmt: skip

    def stop(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"", self._address)
        self._thread.join()
        self._socket.close()
