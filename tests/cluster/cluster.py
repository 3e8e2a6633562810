"""One server over four ranks, at length: every collective and death; under Slurm, and over a network of its own.

./dev cluster runs it. A part that this machine does not allow is skipped, and says why.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PYTHON = pathlib.Path(__file__).resolve().parent.parent / "python"
sys.path[:0] = [str(PYTHON), str(PYTHON / "server")]

import collectives_test
import mpi_test
import slurm_cluster
import support
import numpy as np

import kiln

RANKS = mpi_test.RANKS


def need(condition, reason):
    if not condition:
        raise unittest.SkipTest(reason)


def run(*command, **keywords):
    return subprocess.run(command, check=True, capture_output=True, text=True, **keywords).stdout


class Collectives(mpi_test.FourRanks, collectives_test.Values):
    """Those of one process, over eight devices of four."""

    FLAGS = ("--cpu_devices=2",)


class Deaths(unittest.TestCase):
    def test_or_the_server_stops(self):
        server = support.Server(
            "--rank_silence_seconds=3", "--rank_death=stop", launcher=mpi_test.launcher("--enable-recovery"))  # fmt: skip
        os.kill(server.rank_processes()[3], signal.SIGKILL)
        server.process.wait(timeout=60)
        server.stop()
        log = "".join(server.log)
        self.assertIn("event=rank_died rank=3", log)
        self.assertIn("event=stopped", log)

    def test_without_rank_0_the_others_end(self):
        server = support.Server("--rank_silence_seconds=3", launcher=mpi_test.launcher("--enable-recovery"))
        ranks = server.rank_processes()
        os.kill(ranks[0], signal.SIGKILL)
        server.process.wait(timeout=60)
        server.stop()
        for rank in range(1, RANKS):
            self.assertFalse(pathlib.Path("/proc/%d" % ranks[rank]).exists(), "rank %d" % rank)


class UnderSlurm(mpi_test.Devices):
    """As under mpirun: memory, copies and the training of the digits."""

    @classmethod
    def start(cls, *flags):
        need(not slurm_cluster.missing(), slurm_cluster.missing())
        slurm = slurm_cluster.Slurm(RANKS)
        cls.addClassCleanup(slurm.stop)
        return support.Server(*flags, launcher=("srun", "--mpi=pmix", "-N%d" % RANKS, "-n%d" % RANKS))


class Network:
    """Four network namespaces with a cable each to one bridge, and a way to start a process in each."""

    def __init__(self):
        need(os.geteuid() == 0, "network namespaces want root")
        need(shutil.which("ip"), "there is no ip: iproute2 is not installed")
        self.tag = "k%d" % (os.getpid() % 100_000)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-network-"))
        self.made = []
        try:
            self._ip("link", "add", self.tag, "type", "bridge", undo=("link", "del", self.tag))
            self._ip("addr", "add", "10.213.77.254/24", "dev", self.tag)
            self._ip("link", "set", self.tag, "up")
            for rank in range(RANKS):
                self._add(rank)
        except subprocess.CalledProcessError as error:
            self.stop()
            raise unittest.SkipTest("this kernel makes no such network: " + error.stderr.strip()) from error
        # What mpirun takes for ssh: the host's name is its address, whose last number says which it is.
        self.agent = self.folder / "agent"
        self.agent.write_text('#!/bin/sh\nname=%s-${1##*.}; shift\n'
                              'exec ip netns exec $name unshare --uts sh -c "hostname $name; $*"\n' % self.tag)
        self.agent.chmod(0o755)

    def _ip(self, *words, undo=None):
        run("ip", *words)
        if undo:
            self.made.append(undo)

    def _add(self, rank):
        name, cable = "%s-%d" % (self.tag, rank + 1), "%sv%d" % (self.tag, rank + 1)
        self._ip("netns", "add", name, undo=("netns", "del", name))
        self._ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
        self._ip("link", "set", cable, "master", self.tag, "up")
        self._ip("-n", name, "addr", "add", "10.213.77.%d/24" % (rank + 1), "dev", "eth0")
        self._ip("-n", name, "link", "set", "eth0", "up")
        self._ip("-n", name, "link", "set", "lo", "up")

    def launcher(self):
        hosts = ",".join("10.213.77.%d" % (rank + 1) for rank in range(RANKS))
        return mpi_test.launcher(
            "--host", hosts, "--enable-recovery", "--mca", "plm_rsh_agent", str(self.agent), "--mca", "btl", "tcp,self",
            "--mca", "btl_tcp_if_include", "10.213.77.0/24", "--mca", "oob_tcp_if_include", "10.213.77.0/24")  # fmt: skip

    def cut(self, rank):
        run("ip", "link", "set", "%sv%d" % (self.tag, rank + 1), "down")

    def stop(self):
        for words in reversed(self.made):
            run("ip", *words)
        shutil.rmtree(self.folder)


class OverANetwork(mpi_test.Devices):
    @classmethod
    def start(cls, *flags):
        cls.network = Network()
        cls.addClassCleanup(cls.network.stop)
        return support.Server("--insecure", "--rank_silence_seconds=4", *flags, launcher=cls.network.launcher(),
                              host="10.213.77.1")  # fmt: skip

    @classmethod
    def stop_server(cls):
        # mpirun waits for ever for a host that is cut off; the server does not.
        process = cls.server.rank_processes()[0]
        os.kill(process, signal.SIGTERM)
        gone = support.eventually(lambda: not pathlib.Path("/proc/%d" % process).exists() or time.sleep(0.1))
        cls.server.kill()
        if not gone:
            raise AssertionError("rank 0 does not stop")

    def test_when_a_cable_is_cut_the_rest_goes_on(self):  # the last, by its name
        buffers = [self.client.buffer(np.full(200_000, i, np.float32), device="CPU:%d" % i) for i in range(RANKS)]
        self.client.all_reduce(buffers)
        self.network.cut(3)
        with self.assertRaises(kiln.Unavailable) as caught:
            self.client.all_reduce(buffers)
        self.assertEqual((caught.exception.code, caught.exception.field), ("PARTICIPANT_MISSING", "CPU:3"))
        self.client.all_reduce(buffers[:3])
        np.testing.assert_array_equal(buffers[2].numpy()[:2], np.full(2, 18))
        process = pathlib.Path("/proc/%d" % self.server.rank_processes()[3])
        self.assertTrue(support.eventually(lambda: not process.exists() or time.sleep(0.1)), "it goes on alone")


if __name__ == "__main__":
    unittest.main(verbosity=2)
