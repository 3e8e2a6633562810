"""A pool of servers under a real Slurm: slurmctld, slurmds and munge on this machine, each node an address of its own
(tests/cluster/slurm_cluster.py). The job of deploy/slurm, with its prolog and epilog, GRES as `--gpus`, clients that find
servers by file, by squeue and by a name, drain before the job's end, and what each tenant used.

What docs/slurm.md shows under "What was seen" is what this test sees, but for numbers; `--write` puts it there."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "tests" / "cluster"), str(ROOT / "tests" / "deploy")]

import name_server
import numpy as np
import slurm_cluster
import support

import kiln

SCRIPTS = ROOT / "deploy" / "slurm"
PAGE = ROOT / "docs" / "slurm.md"
FAKE_CUDA = pathlib.Path(os.environ.get("KILN_FAKE_CUDA", ROOT / "bazel-bin/tests/support/fake_cuda/libfake_cuda.so"))
TENANTS = ("vision", "speech", "operator")
SEEN = re.compile(r"(^## What was seen$.*?^```console\n)(.*?)(^```$)", re.S | re.M)

SETTINGS = """GresTypes=gpu
KillWait=30
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobs.txt
Prolog={folder}/prolog
Epilog={folder}/epilog
TaskProlog={folder}/task_prolog
"""
GRES = "Name=gpu File={folder}/gpu[0-1]\n"
# As a cluster's administrator writes them: Slurm tells them of the job, and of nothing else.
PROLOG = '#!/bin/bash\nKILN_PROGRAMS="%s" exec "%s"\n'
EPILOG = '#!/bin/bash\nKILN_POOL="%s" "%s"\ntouch "%s/$SLURM_JOB_ID.$SLURMD_NODENAME"\n'
# Only here are all nodes one machine, and so is `hostname`.
TASK_PROLOG = """#!/bin/bash
address=127.0.0.$((%d + ${SLURMD_NODENAME#n}))
echo "export KILN_HOST=$address"
echo "export KILN_LISTEN=$address:${POOL_PORT-0}"
""" % slurm_cluster.FIRST_ADDRESS

# What somebody types, in this order; the rest of the test lies between.
TYPED = (
    "sbatch --nodes=2 --mem=400M --export=ALL,KILN_SLURM=$PWD/deploy/slurm,KILN_POOL=/shared/kiln/pool,"
    "KILN_CONFIG=/shared/kiln/kilnd.txtpb deploy/slurm/pool.sbatch",
    "squeue --name=kiln-pool --format='%i %j %T %N'",
    "cat /shared/kiln/pool/*.n*",
    "KILN_ADDR=$(deploy/slurm/addresses.sh /shared/kiln/pool) && export KILN_ADDR KILN_TOKEN_FILE=/shared/kiln/vision.token",
    "python -c 'import kiln; kiln.connect(); print(kiln.array([1, 2, 3]) + 1)'",
    'kiln --server="${KILN_ADDR%%,*}" health',
    "scancel --name=kiln-pool",
    "ls /shared/kiln/pool /shared/kiln/pool/accounts",
    "",  # the page's own line, with jq
    "sacct --completion --format=JobID,JobName,NNodes,NodeList,State",
)


def page_s_accounts():
    """The line of docs/slurm.md that adds up devices' seconds."""
    return re.search(r"^```console\n(jq .*?)\n```$", PAGE.read_text(), re.S | re.M).group(1)


class Pool(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if slurm_cluster.missing():
            raise unittest.SkipTest(slurm_cluster.missing())
        cls.slurm = slurm_cluster.Slurm(2, SETTINGS, "Gres=gpu:2", GRES, prepare=cls.prepare)
        cls.addClassCleanup(cls.slurm.stop)

    @classmethod
    def prepare(cls, folder):
        cls.folder = folder
        cls.port = support.free_port()
        cls.programs, cls.epilogs = folder / "programs", folder / "epilogs"
        cls.epilogs.mkdir()
        for number in range(2):
            (folder / ("gpu%d" % number)).symlink_to("/dev/null")  # Slurm wants a device, and is content with any
        for name, text in (("prolog", PROLOG % (cls.programs, SCRIPTS / "prolog.sh")), ("task_prolog", TASK_PROLOG),
                           ("epilog", EPILOG % (folder / "pool", SCRIPTS / "epilog.sh", cls.epilogs))):  # fmt: skip
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        for name in TENANTS:
            (folder / (name + ".token")).write_text("token of " + name)
        (folder / "tenants.txtpb").write_text("".join(
            'tenant { name: "%s" token { sha256: "%s" } %s }\n' % (
                name, hashlib.sha256(("token of " + name).encode()).hexdigest(),
                "right: EXECUTE_RIGHT right: DEBUG_RIGHT right: ADMIN_RIGHT" if name == "operator" else "")
            for name in TENANTS))  # fmt: skip
        settings = 'tenants: "%s"\n' % (folder / "tenants.txtpb")
        (folder / "kilnd.txtpb").write_text(settings)
        (folder / "patient.txtpb").write_text(settings + "drain_grace_seconds: 3600\n")

    @classmethod
    def environment(cls, pool="pool", config="kilnd", **more):
        spared = {name: value for name, value in os.environ.items()
                  if not re.match(r"SLURM_(?!CONF)|KILN_|CUDA_VISIBLE|ROCR_VISIBLE", name)}  # fmt: skip
        return {**spared, "KILND": str(support.KILND), "KILN": str(support.CLI), "KILN_SLURM": str(SCRIPTS),
                "KILN_POOL": str(cls.folder / pool), "KILN_CONFIG": str(cls.folder / (config + ".txtpb")),
                "KILN_ADMIN_TOKEN_FILE": str(cls.folder / "operator.token"),
                "SBATCH_OUTPUT": "%s/%%j.log" % cls.folder, "PYTHONPATH": str(support.PACKAGE), **more,
                "PATH": ":".join(map(str, (pathlib.Path(sys.executable).parent, support.CLI.parent, os.environ["PATH"])))}  # fmt: skip

    @classmethod
    def submit(cls, pool, *words, config="kilnd", **more):
        """A pool job; its number."""
        said = slurm_cluster.run("sbatch", "--parsable", "--job-name=" + pool, "--output=%s/%%j.log" % cls.folder, *words,
                                 str(SCRIPTS / "pool.sbatch"), env=cls.environment(pool, config, **more))  # fmt: skip
        return said.strip()

    def state(self, job):
        """How it ended, or nothing yet."""
        file = self.folder / "jobs.txt"
        ended = dict(re.findall(r"^JobId=(\d+) .*\bJobState=(\w+)", file.read_text() if file.exists() else "", re.M))
        return ended.get(job)

    def eventually(self, condition):
        """Some minutes are far more than it takes; half a one is between two looks of Slurm at whose time is over."""
        end = time.monotonic() + 300
        while not condition():
            if time.monotonic() > end:
                self.fail("\n".join(path.read_text() for path in self.folder.glob("*.log")))
            time.sleep(0.05)

    def found(self, pool, job, *nodes):
        """The addresses that their servers tell."""
        files = [self.folder / pool / ("%s.%s.0" % (job, node)) for node in nodes]
        self.eventually(lambda: all(file.exists() for file in files))
        return [file.read_text().strip() for file in files]

    def connect(self, address, tenant="vision"):
        client = kiln.connect(address, token_file=str(self.folder / (tenant + ".token")))
        self.addCleanup(client.close)
        return client

    def server(self, job, node):
        """The number of its kilnd. Another cluster on this machine may have a job of that number, but not this folder."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                variables = (process / "environ").read_bytes().split(b"\0")
            except OSError:  # it has ended meanwhile
                continue
            if (words[0] == str(support.KILND).encode() and any(word.startswith(b"--port_file=") for word in words)
                    and {b"SLURM_JOB_ID=" + job.encode(), b"SLURMD_NODENAME=" + node.encode()} <= set(variables)
                    and any(row.startswith(b"KILN_POOL=%s/" % bytes(self.folder)) for row in variables)):  # fmt: skip
                return int(process.name)
        raise AssertionError("no kilnd of job %s on %s" % (job, node))

    def typed(self, line, environment):
        """What a shell in the tree's root prints for it; what it exports stays in `environment`."""
        line = line.replace("/shared/kiln", str(self.folder))
        after = self.folder / "exported"
        told = '%s\nenv --null >"%s"' % (line, after)
        ran = subprocess.run(["bash", "-euc", told], cwd=ROOT, env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, timeout=120)  # fmt: skip
        self.assertEqual(ran.returncode, 0, "%s\n%s" % (line, ran.stdout))
        environment.update(row.split("=", 1) for row in after.read_text().split("\0") if row.startswith("KILN_"))
        return ran.stdout.replace(str(self.folder), "/shared/kiln")

    @unittest.skipUnless(shutil.which("jq"), "there is no jq; ./dev test installs it")
    def test_a_pool_from_start_to_end(self):
        environment, seen = self.environment(POOL_PORT=str(self.port)), []

        def types(line):
            seen.append("$ %s\n%s" % (line, self.typed(line, environment)))
            return seen[-1]

        job = re.search(r"Submitted batch job (\d+)", types(TYPED[0])).group(1)
        addresses = self.found("pool", job, "n0", "n1")
        self.assertEqual(addresses, ["%s:%d" % (self.slurm.addresses[node], self.port) for node in ("n0", "n1")])
        self.assertIn("%s kiln-pool RUNNING n[0-1]" % job, types(TYPED[1]))
        for line in TYPED[2:6]:
            types(line)
        self.assertEqual(sorted(environment["KILN_ADDR"].split(",")), addresses)
        # The prolog made the user's folder of programs.
        self.assertEqual((self.programs / str(os.getuid())).stat().st_mode & 0o777, 0o700)
        for tenant, address in zip(TENANTS, addresses):
            client = self.connect(address, tenant)
            self.assertEqual(client.target, address)
            np.testing.assert_array_equal(client.arange(4).numpy(), [0, 1, 2, 3])

        with self.subTest("by squeue"):
            asks = "deploy/slurm/addresses.sh --squeue kiln-pool %d" % self.port
            self.assertEqual(sorted(self.typed(asks, environment).strip().split(",")), addresses)
        with self.subTest("by a name"):
            if name_server.missing():
                self.skipTest(name_server.missing())
            names = name_server.NameServer("pool.kiln.test", list(self.slurm.addresses.values()))
            self.addCleanup(names.stop)
            ran = names.run(self.folder, [str(support.CLI), "--server=pool.kiln.test:%d" % self.port, "--insecure",
                                          "--token_file=%s" % (self.folder / "vision.token"), "devices"])  # fmt: skip
            self.assertIn("CPU:0", ran.stdout, ran.stderr)
            self.assertGreater(names.asked, 0)

        types(TYPED[6])
        self.eventually(lambda: self.state(job))
        self.assertEqual(self.state(job), "CANCELLED")
        self.eventually(lambda: len(list(self.epilogs.glob(job + ".*"))) == 2)
        self.assertEqual([path.name for path in (self.folder / "pool").iterdir()], ["accounts"])
        types(TYPED[7])
        # Each tenant's device time, of the server where it was.
        lines = [line.split("\t") for line in types(page_s_accounts()).splitlines()[1:]]
        used = {(pathlib.Path(file).name, tenant): float(seconds) for file, tenant, seconds in lines}
        for node, tenant in (("n0", "vision"), ("n1", "speech")):
            self.assertGreater(used["%s.%s.0.json" % (job, node), tenant], 0)
        self.assertIn("kiln-pool", types(TYPED[9]))
        self.as_the_page_says("".join(seen))

    def test_a_server_that_dies_takes_no_other_with_it(self):
        job = self.submit("killed", "--nodes=2")
        first, second = self.found("killed", job, "n0", "n1")
        os.kill(self.server(job, "n0"), signal.SIGKILL)
        self.eventually(lambda: not (self.folder / "killed" / (job + ".n0.0")).exists())
        self.assertEqual(self.connect("%s,%s" % (first, second)).target, second)
        slurm_cluster.run("scancel", job)
        self.eventually(lambda: self.state(job))

    def test_the_epilog_takes_away_what_a_killed_one_left(self):
        """The whole task at once, so that nobody is left who could tidy up."""
        job = self.submit("pool", "--nodes=1", "--nodelist=n1")
        self.found("pool", job, "n1")
        left = self.folder / "pool" / (job + ".n1.0")
        slurm_cluster.run("scancel", "--signal=KILL", job + ".0")
        self.eventually(lambda: self.state(job))
        self.eventually(lambda: (self.epilogs / (job + ".n1")).exists())
        self.assertFalse(left.exists())
        self.assertIn(job + ".n1", [path.name for path in self.epilogs.iterdir()])

    @unittest.skipUnless(FAKE_CUDA.exists(), "not built: bazel build //tests/support/fake_cuda:libfake_cuda.so")
    def test_gres_are_the_server_s_gpus(self):
        """By a library that is like CUDA's; which cards it shows of those that there are is the true one's own affair."""
        # Slurm sets ROCm's variable, too; this machine's own drivers are not asked.
        cards = {"KILN_LIBCUDA": str(FAKE_CUDA), "KILN_DEVICE_FILES": str(self.folder), "KILN_FAKE_GPU": "set devices 2"}
        for pool, words, wanted in (("gpus", ("--gpus-per-node=2",), ["CPU:0", "CUDA:0", "CUDA:1"]), ("none", (), ["CPU:0"])):
            with self.subTest(pool):
                job = self.submit(pool, "--nodes=1", "--nodelist=n1", *words, **cards)
                (address,) = self.found(pool, job, "n1")
                self.assertEqual(sorted(device.name for device in self.connect(address).devices()), wanted)
                flags = pathlib.Path("/proc/%d/cmdline" % self.server(job, "n1")).read_bytes().split(b"\0")
                self.assertIn(b"--gpus=cuda" if words else b"--gpus=none", flags)
                slurm_cluster.run("scancel", job)
                self.eventually(lambda: self.state(job))

    def test_it_drains_before_its_time_is_over(self):
        job = self.submit("short", "--nodes=1", "--nodelist=n0", config="patient")
        file = self.folder / "short" / (job + ".n0.0")
        (address,) = self.found("short", job, "n0")
        client = self.connect(address)
        # Only now, as Slurm warns at its next look whose end is nearer than the script's 150 seconds and a half-minute.
        slurm_cluster.run("scontrol", "update", "JobId=" + job, "EndTime=now+3minutes")
        self.eventually(lambda: not file.exists())
        self.assertEqual(client.arange(4).numpy().sum(), 6)  # in its grace
        account = self.folder / "short" / "accounts" / (file.name + ".json")
        self.eventually(account.exists)
        self.assertEqual(json.loads(account.read_text())["tenants"][-1]["name"], "vision")
        os.kill(self.server(job, "n0"), signal.SIGTERM)  # enough of it
        self.eventually(lambda: self.state(job))
        self.assertEqual(self.state(job), "COMPLETED")

    def as_the_page_says(self, seen):
        if os.environ.get("KILN_WRITE_TRANSCRIPT"):
            PAGE.write_text(SEEN.sub(lambda found: found.group(1) + seen + found.group(3), PAGE.read_text()))
        said = SEEN.search(PAGE.read_text())
        self.assertEqual(without_numbers(said.group(2) if said else ""), without_numbers(seen))


def without_numbers(text):
    """Numbers, and how much room a table gives them, are another machine's own."""
    return [re.sub(r"[\d.]*\d(e-\d+)?", "N", " ".join(line.split())) for line in text.splitlines()]


if __name__ == "__main__":
    if "--write" in sys.argv:
        sys.argv.remove("--write")
        os.environ["KILN_WRITE_TRANSCRIPT"] = "1"
    unittest.main()
