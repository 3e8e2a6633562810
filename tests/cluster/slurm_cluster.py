"""A Slurm cluster that is this machine alone: slurmctld, a slurmd for each node, and munge, which says who is who, as
anywhere. Each node has an address of its own on loopback, 127.0.0.10 and up, and nothing of it outlives it but the
temporary folder's name.

Slurm's daemons want root; of what the machine's own Slurm is set up to do nothing is read or changed."""

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

import support

FIRST_ADDRESS = 10  # of 127.0.0.0
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


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Slurm:
    def __init__(self, nodes, settings="", of_node="", gres="", prepare=None):
        """`settings` are lines of slurm.conf, `of_node` words of each node's line, and `gres` is gres.conf. In them {folder}
        is the cluster's, where `prepare(folder)` may first put what they name. SLURM_CONF is set for this process and those
        that it starts."""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-slurm-"))
        self.addresses = {"n%d" % node: "127.0.0.%d" % (FIRST_ADDRESS + node) for node in range(nodes)}
        self._daemons = []
        try:
            if prepare:
                prepare(self.folder)
            self._start(settings, of_node, gres)
        except BaseException:
            self.stop()
            raise

    def _start(self, settings, of_node, gres):
        self._start_munge()
        names = {"folder": self.folder, "host": socket.gethostname().split(".")[0], "port": free_port()}
        text = (CONFIGURATION + settings).format(**names)
        for node, address in self.addresses.items():
            text += "NodeName=%s NodeHostname=%s NodeAddr=%s Port=%d CPUs=2 RealMemory=1000 %s\n" % (
                node, names["host"], address, free_port(), of_node)  # fmt: skip
        text += "PartitionName=all Nodes=%s Default=YES State=UP\n" % ",".join(self.addresses)
        os.environ["SLURM_CONF"] = str(self.folder / "slurm.conf")
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
        if not support.eventually(lambda: idle() or time.sleep(0.1)):
            raise AssertionError("the nodes do not come up:\n%s\n%s" % (run("sinfo", "--long"), self.log()))

    def _daemon(self, *command):
        with open(self.folder / ("%d.out" % len(self._daemons)), "w") as output:
            self._daemons.append(subprocess.Popen(list(map(str, command)), stdout=output, stderr=output))

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
        if not support.eventually((home / "socket").exists):
            raise AssertionError("munged does not start: " + self.log())

    def log(self):
        """What the daemons said."""
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.out")))

    def stop(self):
        for daemon in reversed(self._daemons):
            daemon.terminate()
            daemon.wait(timeout=60)
        shutil.rmtree(self.folder)
