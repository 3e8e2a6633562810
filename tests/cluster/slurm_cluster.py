"""A Slurm cluster that is this machine alone: slurmctld, a slurmd for each node, and munge, which says who is who, as
anywhere. Each node has an address of its own on loopback, 127.0.0.10 and up. Nothing of it outlives the test, not where the
test is killed either: tests/cluster/keeper.py sees to that.

Slurm's daemons want root; of what the machine's own Slurm is set up to do nothing is read or changed."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import support

FIRST_ADDRESS = 10  # of 127.0.0.0
KEEPER = pathlib.Path(__file__).resolve().parent / "keeper.py"
TRIES = 3  # another program may take a port between the choice and the start
PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "squeue", "munged")

CONFIGURATION = """ClusterName=kiln
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdParameters=config_overrides
"""


def missing():
    """Why there can be no such cluster here, or nothing."""
    if os.geteuid() != 0:
        return "slurmd wants to be root"
    absent = [program for program in PROGRAMS if not shutil.which(program)]
    return absent and "%s: not installed; ./dev test and ./dev cluster install Slurm and munge" % ", ".join(absent) or ""


def run(*command, **keywords):
    return subprocess.run(command, check=True, capture_output=True, text=True, **keywords).stdout


class DaemonEnded(AssertionError):
    """While the cluster came up."""


class Slurm:
    def __init__(self, nodes, settings="", of_node="", gres="", prepare=None):
        """`settings` are lines of slurm.conf, `of_node` words of each node's line, and `gres` is gres.conf. In them {folder}
        is the cluster's, where `prepare(folder)` may first put what they name. SLURM_CONF is set for this process and those
        that it starts."""
        self.addresses = {"n%d" % node: "127.0.0.%d" % (FIRST_ADDRESS + node) for node in range(nodes)}
        for left in reversed(range(TRIES)):
            self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-slurm-"))
            os.environ["SLURM_CONF"] = str(self.folder / "slurm.conf")
            # Its session is its own: what ends the test from a terminal is not for it.
            self._keeper = subprocess.Popen([sys.executable, str(KEEPER), str(self.folder)], stdin=subprocess.PIPE, text=True,
                                            start_new_session=True)  # fmt: skip
            try:
                if prepare:
                    prepare(self.folder)
                self._start(settings, of_node, gres)
                return
            except DaemonEnded:
                self.stop()
                if not left:
                    raise
            except BaseException:
                self.stop()
                raise

    def _start(self, settings, of_node, gres):
        self._start_munge()
        names = {"folder": self.folder, "host": socket.gethostname().split(".")[0], "port": support.free_port()}
        text = (CONFIGURATION + settings).format(**names)
        for node, address in self.addresses.items():
            text += "NodeName=%s NodeHostname=%s NodeAddr=%s Port=%d CPUs=2 RealMemory=1000 %s\n" % (
                node, names["host"], address, support.free_port(), of_node)  # fmt: skip
        text += "PartitionName=all Nodes=%s Default=YES State=UP\n" % ",".join(self.addresses)
        for folder in [self.folder, *(self.folder / node for node in self.addresses)]:
            # PMIx makes a folder that no two nodes may share, so each has settings of its own.
            (folder / "tmp").mkdir(parents=True)
            (folder / "slurm.conf").write_text(text)
            (folder / "gres.conf").write_text(gres.format(**names))
            (folder / "mpi.conf").write_text("PMIxCliTmpDirBase=%s\n" % (folder / "tmp"))
        self._daemon("slurmctld", "-D", "-f", self.folder / "slurm.conf")
        for node in self.addresses:
            self._daemon("slurmd", "-D", "-N", node, "-f", self.folder / node / "slurm.conf")
        idle = lambda: run("sinfo", "--noheader", "--format=%t %D").split() == ["idle", str(len(self.addresses))]
        self._eventually(idle, "the nodes do not come up")

    def _eventually(self, condition, else_says):
        """Some minutes are far more than it takes."""
        end = time.monotonic() + 300
        while True:
            try:
                if condition():
                    return
            except subprocess.CalledProcessError:  # slurmctld does not answer yet
                pass
            ended = [path.stem for path in self.folder.glob("*.ended")]
            if ended:
                raise DaemonEnded("%s: daemons %s have ended:\n%s" % (else_says, ended, self.log()))
            if time.monotonic() > end:
                raise AssertionError("%s:\n%s" % (else_says, self.log()))
            time.sleep(0.1)

    def _daemon(self, *command):
        self._keeper.stdin.write(json.dumps(list(map(str, command))) + "\n")
        self._keeper.stdin.flush()

    def _start_munge(self):
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        home = self.folder / "munge"
        home.mkdir()
        self.folder.chmod(0o755)
        shutil.chown(home, "munge")
        home.chmod(0o755)
        shutil.chown(key, "munge")
        key.chmod(0o400)
        self._daemon("setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged", "--foreground",
                     "--key-file=%s" % key, "--socket=%s" % (home / "socket"), "--pid-file=%s" % (home / "pid"),
                     "--seed-file=%s" % (home / "seed"), "--log-file=%s" % (home / "log"))  # fmt: skip
        self._eventually((home / "socket").exists, "munged does not start")

    def log(self):
        """What the daemons said."""
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.out")))

    def stop(self):
        self._keeper.stdin.close()
        status = self._keeper.wait(timeout=300)
        if status or self.folder.exists():
            raise AssertionError("the keeper of %s ended with %d" % (self.folder, status))
