"""The scripts of deploy/slurm, without Slurm: what a task's environment makes of kilnd's flags, how clients find a server
and no longer find one that drains, what is left to whom."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import support

import kiln

NOBODY = 65534
SCRIPTS = support.ROOT / "deploy" / "slurm"

# In place of kilnd: says how it was called, serves nothing, and ends at SIGTERM.
FAKE = """#!/bin/bash
printf '%s\\n' "$@" >"$0.flags"
echo $$ >"$0.number"
trap 'exit 0' TERM
[[ -z ${FAKE_STATUS-} ]] || exit "$FAKE_STATUS"
for flag; do [[ $flag == --port_file=* ]] && echo 4711 >"${flag#*=}"; done
while [[ -d ${0%/*} ]]; do sleep 0.05; done
"""
# In place of srun: two nodes, until both have ended.
SRUN = """#!/bin/bash
trap : TERM
echo "$SRUN_CPUS_PER_TASK" >"$0.cores"
printf '%s\\n' "$@" >"$0.words"
for node in a b; do SLURMD_NODENAME=$node SLURM_JOB_ID=7 "${@: -1}" & done
for node in a b; do wait || wait; done
"""


class SlurmTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.pool = self.folder / "pool"
        self.kilnd = self.program("kilnd", FAKE)

    def program(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def environment(self, **more):
        spared = {name: value for name, value in os.environ.items()
                  if not re.match(r"SLURM|KILN_|CUDA_VISIBLE|ROCR_VISIBLE", name)}  # fmt: skip
        return {**spared, "KILN_POOL": str(self.pool), "SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1",
                "KILND": str(self.kilnd), "KILN": str(support.CLI), **more}  # fmt: skip

    def start(self, **more):
        with open(self.folder / "output", "w") as output:
            made = subprocess.Popen([SCRIPTS / "server.sh"], env=self.environment(**more), stdout=output,
                                    stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip

        def end():
            if made.poll() is None:
                os.killpg(made.pid, signal.SIGKILL)
            made.wait()

        self.addCleanup(end)
        return made

    def found(self, name="7.n1.0"):
        self.assertTrue(support.eventually((self.pool / name).exists))
        return (self.pool / name).read_text().strip()

    def flags(self, **more):
        """Of the kilnd that is started so."""
        server = self.start(**more)
        self.found()
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(60), 0)
        return [flag for flag in (self.folder / "kilnd.flags").read_text().split() if "port_file" not in flag]

    def test_what_slurm_gave_is_what_the_server_has(self):
        alone, grace = ["--mpi=off", "--listen=127.0.0.1:0"], ["--drain_grace_seconds=5", "--drain_seconds=20"]
        both = {"CUDA_VISIBLE_DEVICES": "0", "ROCR_VISIBLE_DEVICES": "0"}
        for given, flags in (
            ({}, ["--gpus=none"]),
            ({"CUDA_VISIBLE_DEVICES": "0,1"}, ["--gpus=cuda"]),
            ({"CUDA_VISIBLE_DEVICES": "GPU-8f3a"}, ["--gpus=cuda"]),
            ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, ["--gpus=none"]),
            ({"CUDA_VISIBLE_DEVICES": ""}, ["--gpus=none"]),
            ({"ROCR_VISIBLE_DEVICES": "2"}, ["--gpus=hip"]),
            ({"ROCR_VISIBLE_DEVICES": "2", "CUDA_VISIBLE_DEVICES": "NoDevFiles"}, ["--gpus=hip"]),
            # Both, as Slurm sets without AutoDetect: by the drivers that the node has.
            ({**both, "KILN_DEVICE_FILES": self.devices("amd", "kfd")}, ["--gpus=hip"]),
            ({**both, "KILN_DEVICE_FILES": self.devices("nvidia", "nvidiactl")}, ["--gpus=cuda"]),
            ({**both, "KILN_DEVICE_FILES": self.devices("all", "nvidiactl", "kfd")}, ["--gpus=cuda"]),
            ({**both, "KILN_DEVICE_FILES": self.devices("none")}, ["--gpus=cuda"]),
            ({"SLURM_MEM_PER_NODE": "1000"},
             ["--gpus=none", "--cpu_memory_bytes=629145600", "--compile_limits_max_total_memory_bytes=209715200"]),
            ({"SLURM_MEM_PER_NODE": "100"},
             ["--gpus=none", "--cpu_memory_bytes=62914560", "--compile_limits_max_total_memory_bytes=67108864"]),
            ({"SLURM_MEM_PER_NODE": "0"}, ["--gpus=none"]),
        ):
            with self.subTest(given):
                self.assertEqual(self.flags(KILN="true", **given), alone + flags + grace)
        config = self.folder / "kilnd.txtpb"
        told = ["--mpi=off", "--config=%s" % config, "--listen=0.0.0.0:0", "--advertise=gpu1.example:0", "--gpus=none"]
        short, brief = grace
        for text, more, flags in (("", {}, grace), ("# drain_seconds: 9\n", {}, grace),
                                  ("drain_grace_seconds: 9\n", {}, [brief]), ("\tdrain_grace_seconds: 9\n", {}, [brief]),
                                  ("cpu_threads: 1 drain_seconds : 9\n", {}, [short]),
                                  ("", {"KILN_DRAIN_GRACE_SECONDS": "0", "KILN_DRAIN_SECONDS": "1"}, [])):  # fmt: skip
            with self.subTest(text, **more):
                config.write_text(text)
                self.assertEqual(self.flags(KILN="true", KILN_CONFIG=str(config), KILN_HOST="gpu1.example", **more), told + flags)

    def devices(self, name, *files):
        (self.folder / name).mkdir()
        for file in files:
            (self.folder / name / file).touch()
        return str(self.folder / name)

    def test_a_node_without_a_name_serves_nobody(self):
        self.program("hostname", "#!/bin/bash\nexit 1\n")
        (self.folder / "kilnd.txtpb").touch()
        server = self.start(KILN_CONFIG=str(self.folder / "kilnd.txtpb"), PATH="%s:%s" % (self.folder, os.environ["PATH"]))
        self.assertEqual(server.wait(60), 1)
        self.assertIn("set KILN_HOST", (self.folder / "output").read_text())
        self.assertEqual(list(self.pool.iterdir()), [])

    def test_told_to_stop_while_it_tells_its_address(self):
        """`mv` is where that is: this one has the signal come first, and then does its work."""
        self.program("mv", '#!/bin/bash\nkill -TERM $PPID\nexec /bin/mv "$@"\n')
        server = self.start(KILN="true", PATH="%s:%s" % (self.folder, os.environ["PATH"]))
        self.assertEqual(server.wait(60), 0)
        self.assertNotIn("serves at", (self.folder / "output").read_text())
        self.assertEqual([path.name for path in self.pool.iterdir()], ["accounts"])

    def test_only_its_owner_may_write_to_the_folder_and_read_the_accounts(self):
        server = self.start(KILN="true")
        self.found()
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(60), 0)
        account = self.pool / "accounts" / "7.n1.0.json"
        self.assertEqual([path.stat().st_mode & 0o777 for path in (self.pool, account.parent, account)], [0o700, 0o700, 0o600])

    def test_a_link_in_the_folder_is_not_written_through(self):
        self.pool.mkdir()
        target = self.folder / "target"
        target.write_text("mine")
        for name in (".7.n1.0", "7.n1.0"):
            (self.pool / name).symlink_to(target)
        server = self.start(KILN="true")
        self.assertTrue(support.eventually(lambda: not (self.pool / "7.n1.0").is_symlink()))
        self.assertEqual(self.found(), "127.0.0.1:4711")
        self.assertEqual(target.read_text(), "mine")
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(60), 0)

    def test_clients_find_it_until_it_drains(self):
        server = self.start(KILND=str(support.KILND), KILN_DRAIN_GRACE_SECONDS="0")
        address = self.found()
        listed = subprocess.run([SCRIPTS / "addresses.sh", self.pool], check=True, capture_output=True, text=True).stdout
        self.assertEqual(listed.strip(), address)
        with kiln.connect(listed.strip()) as client:
            self.assertEqual(client.arange(4).numpy().sum(), 6)
            # To all of the task's processes, as Slurm sends it; and again, as it does when a job is cancelled.
            os.killpg(server.pid, signal.SIGTERM)
            self.assertTrue(support.eventually(lambda: not (self.pool / "7.n1.0").exists()))
            os.killpg(server.pid, signal.SIGTERM)
        self.assertEqual(server.wait(60), 0)
        output = (self.folder / "output").read_text()
        self.assertIn("kiln: 7.n1.0 serves at " + address, output)
        self.assertIn("event=stopped", output)
        used = json.loads((self.pool / "accounts" / "7.n1.0.json").read_text())
        self.assertGreater(used["tenants"][0]["shares"][0]["busy_seconds_total"], 0)
        gone = subprocess.run([SCRIPTS / "addresses.sh", self.pool], capture_output=True, text=True)
        self.assertEqual((gone.returncode, gone.stdout), (1, ""))

    def test_one_that_does_not_start_tells_nobody(self):
        server = self.start(FAKE_STATUS="3")
        self.assertEqual(server.wait(60), 3)
        self.assertEqual(list(self.pool.iterdir()), [])

    def test_one_that_dies_takes_its_address_with_it(self):
        server = self.start(KILN="true")
        self.found()
        os.kill(int((self.folder / "kilnd.number").read_text()), signal.SIGKILL)
        self.assertEqual(server.wait(60), 128 + signal.SIGKILL)
        self.assertFalse((self.pool / "7.n1.0").exists())

    def test_the_list_has_every_server_once(self):
        self.pool.mkdir()
        wanted = {"n%d:%d" % (i, 1000 + i) for i in range(5)}
        for i, address in enumerate(sorted(wanted)):
            (self.pool / ("7.n%d.0" % i)).write_text(address + "\n")
        (self.pool / ".8.n9.0").write_text("half")
        (self.folder / "another").write_text("n9:1\n")
        (self.pool / "8.n9.0").symlink_to(self.folder / "another")
        (self.pool / "accounts").mkdir()
        listed = subprocess.run([SCRIPTS / "addresses.sh"], env=self.environment(), check=True, capture_output=True, text=True)
        self.assertEqual(sorted(listed.stdout.strip().split(",")), sorted(wanted))

    @unittest.skipUnless(os.geteuid() == 0, "another user's file wants root")
    def test_the_list_has_no_stranger_s(self):
        self.pool.mkdir()
        for name, owner in (("7.n1.0", os.geteuid()), ("7.n2.0", NOBODY)):
            (self.pool / name).write_text(name + ":1\n")
            os.chown(self.pool / name, owner, -1)
        lists = lambda: subprocess.run([SCRIPTS / "addresses.sh", self.pool], check=True, capture_output=True, text=True).stdout
        self.assertEqual(lists(), "7.n1.0:1\n")
        os.chown(self.pool, NOBODY, -1)  # whose folder it is may put files there
        self.assertEqual(sorted(lists().strip().split(",")), ["7.n1.0:1", "7.n2.0:1"])

    def test_squeue_is_asked_for_one_s_own(self):
        self.program("squeue", '#!/bin/bash\nprintf "%s\\n" "$@" >"$0.words"\necho n[1-2]\n')
        self.program("scontrol", '#!/bin/bash\nfor i in 1 2; do echo "NodeName=n$i NodeAddr=10.0.0.$i Version=1"; done\n')
        listed = subprocess.run([SCRIPTS / "addresses.sh", "--squeue", "kiln-pool", "7437"], check=True, capture_output=True,
                                text=True, env=self.environment(PATH="%s:%s" % (self.folder, os.environ["PATH"])))  # fmt: skip
        self.assertEqual(sorted(listed.stdout.strip().split(",")), ["10.0.0.1:7437", "10.0.0.2:7437"])
        self.assertIn("--me", (self.folder / "squeue.words").read_text().split())

    def test_the_job(self):
        srun = self.program("srun", SRUN)
        text = (SCRIPTS / "pool.sbatch").read_text()
        options = dict(re.findall(r"^#SBATCH --([a-z-]+)=?(.*)$", text, re.M))
        drains = int(re.search(r"--drain_seconds=(\d+)", subprocess.run([str(support.KILND), "--help"], text=True,
                               stdout=subprocess.PIPE, check=True).stdout).group(1))  # fmt: skip
        warning, seconds = options["signal"].split("@")
        self.assertEqual(warning, "TERM")  # to the steps, not to the batch script
        flags = dict(flag[2:].split("=") for flag in self.flags(KILN="true"))
        grace, brief = (int(flags[name]) for name in ("drain_grace_seconds", "drain_seconds"))
        self.assertGreater(int(seconds), 60 + drains + grace)
        self.assertLess(grace + brief, 30)  # Slurm's KillWait, where nobody has set it
        job = subprocess.Popen([SCRIPTS / "pool.sbatch"], env={**self.environment(KILN="true", KILN_SLURM=str(SCRIPTS), SLURM_CPUS_PER_TASK="3"),
                               "PATH": "%s:%s" % (self.folder, os.environ["PATH"])}, start_new_session=True)  # fmt: skip
        self.assertEqual({self.found("7.a.0"), self.found("7.b.0")}, {"127.0.0.1:4711"})
        words = (self.folder / "srun.words").read_text().split()
        self.assertEqual((srun.name, words[-1]), ("srun", str(SCRIPTS / "server.sh")))
        self.assertIn("--kill-on-bad-exit=0", words)
        self.assertEqual((self.folder / "srun.cores").read_text(), "3\n")
        os.killpg(job.pid, signal.SIGTERM)
        job.wait(60)
        self.assertEqual(list(self.pool.glob("7.*")), [])

    def test_the_prolog(self):
        programs = self.folder / "programs"
        environment = self.environment(KILN_PROGRAMS=str(programs), SLURM_JOB_UID=str(os.getuid()))
        for _ in range(2):
            subprocess.run([SCRIPTS / "prolog.sh"], env=environment, check=True)
        made = programs / str(os.getuid())
        self.assertEqual((made.stat().st_mode & 0o777, made.stat().st_uid), (0o700, os.getuid()))
        for uid in ("", "../etc", "1 2"):
            subprocess.run([SCRIPTS / "prolog.sh"], env={**environment, "SLURM_JOB_UID": uid}, check=True)
        self.assertEqual(list(programs.iterdir()), [made])
        # Where somebody else may write a link may lie, and one that lies there is not followed.
        made.rmdir()
        aim = self.folder / "aim"
        aim.mkdir()
        for mode in (0o777, 0o755):
            programs.chmod(mode)
            if mode == 0o755:
                made.symlink_to(self.folder / "not there")
            subprocess.run([SCRIPTS / "prolog.sh"], env=environment, check=True, capture_output=True)
            self.assertFalse(made.exists())
        made.unlink()
        (self.folder / "link").symlink_to(aim)
        subprocess.run([SCRIPTS / "prolog.sh"], env={**environment, "KILN_PROGRAMS": str(self.folder / "link")}, check=True,
                       capture_output=True)  # fmt: skip
        self.assertEqual(list(aim.iterdir()), [])

    def test_the_epilog(self):
        environment = self.environment(SLURM_JOB_UID=str(os.getuid()))
        (self.pool / "accounts").mkdir(parents=True)
        for name in ("7.n1.0", ".7.n1.1.Ab3", "7.n2.0", "77.n1.0", "accounts/.7.n1.0.x", "accounts/7.n1.0.json"):
            (self.pool / name).write_text("n1:1\n")
        for job in ("", "*", "7"):
            subprocess.run([SCRIPTS / "epilog.sh"], env={**environment, "SLURM_JOB_ID": job}, check=True)
        left = sorted(str(path.relative_to(self.pool)) for path in self.pool.rglob("*"))
        self.assertEqual(left, ["7.n2.0", "77.n1.0", "accounts", "accounts/7.n1.0.json"])

    @unittest.skipUnless(os.geteuid() == 0, "another user wants root")
    def test_the_epilog_is_the_job_s_user_and_says_what_it_cannot_take_away(self):
        """As where a file system lets root do nothing: here it is the user who may not."""
        self.folder.chmod(0o755)
        self.pool.mkdir()
        log = self.program("logger", '#!/bin/bash\necho "$*" >>"$0.said"\n')
        environment = self.environment(SLURM_JOB_UID=str(NOBODY), PATH="%s:%s" % (self.folder, os.environ["PATH"]))
        address = self.pool / "7.n1.0"
        address.write_text("n1:1\n")
        subprocess.run([SCRIPTS / "epilog.sh"], env=environment, check=True)
        self.assertTrue(address.exists())
        self.assertRegex(log.with_suffix(".said").read_text(), r"7\.n1\.0 stays, and clients find it: .*Permission denied")
        os.chown(self.pool, NOBODY, -1)
        subprocess.run([SCRIPTS / "epilog.sh"], env=environment, check=True)
        self.assertFalse(address.exists())


if __name__ == "__main__":
    unittest.main()
