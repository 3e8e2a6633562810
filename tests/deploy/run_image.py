"""run_image.py ARCHIVE: the image of `./dev package`, unpacked by umoci and run by crun as a cluster would: its root
read-only, a user without a capability, the system calls that container engines leave. As root; `./dev image` calls it.

It compiles in processes of their own, serves, answers the command line inside the same container, and stops gently.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROFILE = pathlib.Path("/usr/share/containers/seccomp.json")  # of Debian's golang-github-containers-common
ARCHIVE = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else None
# In a mount namespace without control groups: some machines have both versions, which crun takes for neither.
CRUN = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec crun "$@"', "crun"]
WRITABLE = ("/tmp", "/var/cache/kiln")
FLAGS = ["--listen=127.0.0.1:0", "--gpus=none", "--compile_isolation=on", "--program_cache_dir=/var/cache/kiln/programs"]


def run(*words):
    return subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def profile():
    """Engines' default list of system calls as OCI's runtimes take it, for somebody without capabilities."""
    rows = json.loads(PROFILE.read_text())
    calls = [{key: row[key] for key in ("names", "action", "args", "errnoRet") if row.get(key) is not None}
             for row in rows["syscalls"]
             if not row.get("includes", {}).get("caps")
             and "amd64" in row.get("includes", {}).get("arches", ["amd64"])
             and "amd64" not in row.get("excludes", {}).get("arches", [])]  # fmt: skip
    return {"defaultAction": rows["defaultAction"], "defaultErrnoRet": rows.get("defaultErrnoRet", 1),
            "architectures": ["SCMP_ARCH_X86_64"], "syscalls": calls}  # fmt: skip


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.bundle = pathlib.Path(folder.name, "bundle")
        for words in (["skopeo", "copy", "--quiet", "oci-archive:%s" % ARCHIVE, "oci:%s/image:it" % folder.name],
                      ["umoci", "unpack", "--image", folder.name + "/image:it", cls.bundle]):  # fmt: skip
            made = run(*words)
            if made.returncode != 0:
                raise AssertionError("%s: %s" % (words[0], made.stdout))
        cls.name = "kiln-%d" % os.getpid()
        cls.configure()
        cls.process = subprocess.Popen([*CRUN, "--cgroup-manager=disabled", "run", "--bundle", str(cls.bundle), cls.name],
                                       stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)  # fmt: skip
        cls.addClassCleanup(run, *CRUN, "delete", "--force", cls.name)
        cls.port = cls.wait()

    @classmethod
    def configure(cls):
        path = cls.bundle / "config.json"
        config = json.loads(path.read_text())
        config["process"].update(args=[*config["process"]["args"], *FLAGS], terminal=False, noNewPrivileges=True,
                                 capabilities={})  # fmt: skip
        config["root"]["readonly"] = True
        config["mounts"] += [{"destination": folder, "type": "tmpfs", "source": "tmpfs",
                              "options": ["nosuid", "nodev", "mode=1777"]} for folder in WRITABLE]  # fmt: skip
        config["linux"]["seccomp"] = profile()
        # This machine's network, where loopback is up.
        config["linux"]["namespaces"] = [row for row in config["linux"]["namespaces"] if row["type"] != "network"]
        config["mounts"] = [row for row in config["mounts"] if row["destination"] not in ("/etc/resolv.conf", "/sys/fs/cgroup")]
        path.write_text(json.dumps(config))

    @classmethod
    def wait(cls):
        said = []
        for line in cls.process.stderr:
            said.append(line)
            found = re.search(r"event=serving .*\bport=(\d+)", line)
            if found:
                return int(found.group(1))
        raise AssertionError("it did not serve:\n" + "".join(said))

    def inside(self, *words):
        return run(*CRUN, "exec", self.name, *words)

    def test_1_it_serves(self):
        ran = self.inside("/usr/bin/kiln", "--server=127.0.0.1:%d" % self.port, "run", "/usr/share/doc/kiln/add.uop", "--random")
        self.assertEqual(ran.returncode, 0, ran.stdout)
        self.assertIn("result 0  float32 (4,)", ran.stdout)

    def test_2_it_may_little(self):
        process = json.loads(run(*CRUN, "state", self.name).stdout)["pid"]
        status = dict(re.findall(r"^(\w+):\t(.*)$", pathlib.Path("/proc/%d/status" % process).read_text(), re.M))
        self.assertEqual(status["Uid"].split(), ["65532"] * 4)
        self.assertEqual((int(status["CapEff"], 16), int(status["CapBnd"], 16)), (0, 0))
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))

    def test_3_there_is_no_shell(self):
        for shell in ("/bin/sh", "/bin/bash", "/usr/bin/busybox"):
            self.assertNotEqual(self.inside(shell, "-c", "true").returncode, 0)

    def test_4_nothing_else_can_be_written(self):
        mounts = pathlib.Path("/proc/%d/mounts" % json.loads(run(*CRUN, "state", self.name).stdout)["pid"]).read_text()
        (options,) = re.findall(r"^\S+ / \S+ (\S+)", mounts, re.M)
        self.assertIn("ro", options.split(","))

    def test_5_it_stops_gently(self):
        run(*CRUN, "kill", self.name, "TERM")
        self.assertEqual(self.process.wait(timeout=120), 0)
        self.assertIn("event=stopped all_finished=true", self.process.stderr.read())


if __name__ == "__main__":
    if os.geteuid() != 0 or ARCHIVE is None:
        raise SystemExit(__doc__)
    unittest.main()
