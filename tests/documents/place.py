"""A place where a page's commands run as they stand: a network, processes and folders of its own, so that `kilnd` may take
its usual port, names such as gpu.example lead to it, and /etc/kiln can be written. Nothing of it outlives it.

    place.py FOLDER SCRIPT      inside: what `run` has started, as its process 1

It takes namespaces of Linux, which root has, and others where the system lets users have their own."""

import fcntl
import os
import pathlib
import shutil
import socket
import stat
import struct
import subprocess
import sys

NAMES = ("gpu.example", "gpu1.example", "gpu2.example")
GROUPS = ("kiln:", "haproxy:")
# What scripts may use besides.
PRELUDE = r"""
# Starts a kilnd, and returns when it serves; `stop` ends the last one.
begin() {
  local log=kilnd.$((++begun)).log
  "$@" 2>"$log" &
  server=$!
  until grep -q 'event=serving' "$log"; do
    kill -0 $server 2>/dev/null || { cat "$log"; exit 1; }
    sleep 0.05
  done
}
stop() { kill -TERM $server; wait $server; }
begun=0
"""


def namespaces():
    mine = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return ["unshare", *mine, "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]


def refused():
    """Why there is no such place here, or nothing."""
    if not shutil.which("unshare"):
        return "there is no unshare"
    tried = subprocess.run([*namespaces(), "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True)
    return tried.returncode and "no namespaces are to be had: %s" % tried.stderr.strip() or ""


def run(folder, script, environment):
    """What the script printed, and its status; `folder`/work is where it runs, and has its files."""
    ran = subprocess.run([*namespaces(), sys.executable, __file__, str(folder), script], env=environment, timeout=120,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
    return ran.stdout, ran.returncode


def _loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14s", b"lo", 1, b""))  # SIOCSIFFLAGS: up


def _mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True)


def _copy_etc(etc):
    """What everybody may read of it, so no passwords and no keys; nor the settings of a kilnd that is installed here."""

    def left_out(folder, names):
        return [name for name in names if not _public(os.path.join(folder, name)) or os.path.join(folder, name) == "/etc/kiln"]

    shutil.copytree("/etc", etc, symlinks=True, ignore=left_out)


def _public(path):
    mode = os.lstat(path).st_mode
    if stat.S_ISDIR(mode):
        return mode & 0o005 == 0o005
    return stat.S_ISLNK(mode) or stat.S_ISREG(mode) and mode & 0o004


def _write(path, text):
    """Anew: through a link it would be a file of the machine."""
    path.unlink(missing_ok=True)
    path.write_text(text)


def inside(folder, script):
    _loopback()
    etc = folder / "etc"
    _copy_etc(etc)
    _write(etc / "hosts", "127.0.0.1 localhost %s\n127.0.0.2 new-server\n" % " ".join(NAMES))
    # This user's own: of others a user's namespace knows nothing.
    groups = [line for line in pathlib.Path("/etc/group").read_text().splitlines() if not line.startswith(GROUPS)]
    _write(etc / "group", "\n".join(groups + [name + "x:0:" for name in GROUPS]) + "\n")
    (etc / "kiln").mkdir()
    _mount("--bind", etc, "/etc")
    for empty in ("/mnt", "/run", "/usr/share/doc"):
        _mount("-t", "tmpfs", "tmpfs", empty)
    pathlib.Path("/run/kiln").mkdir()
    pathlib.Path("/mnt/programs").mkdir()
    pathlib.Path("/usr/share/doc/kiln").mkdir()
    shutil.copy(folder / "work" / "add.uop", "/usr/share/doc/kiln")
    os.chdir(folder / "work")
    os.execvp("bash", ["bash", "-euo", "pipefail", "-c", PRELUDE + script])


if __name__ == "__main__":
    inside(pathlib.Path(sys.argv[1]), sys.argv[2])
