"""The unit of systemd: systemd takes it, and scores it; kilnd does all its work under what it forbids, which
tests/deploy/confined.py applies where no systemd runs."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import confined
import support

UNIT = support.ROOT / "deploy" / "systemd" / "kilnd.service"
GRAPH = support.ROOT / "deploy" / "package" / "add.uop"
CONFINED = support.ROOT / "tests" / "deploy" / "confined.py"
# Of 100, as systemd-analyze takes it: below 2.0.
MOST_EXPOSED = 19
TENANTS = """
tenant { name: "shared" token { sha256: "%s" } }
tenant { name: "apart" token { sha256: "%s" } isolation: PROCESS }
"""


def can_confine():
    """Why it cannot, or nothing."""
    if not shutil.which("systemd-analyze"):
        return "there is no systemd-analyze"
    if not pathlib.Path(confined.NUMBERS).exists():
        return "the numbers of system calls are not there: linux-libc-dev, for x86-64"
    return ""


@unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze")
class Unit(unittest.TestCase):
    def analyze(self, *words, besides=""):
        with tempfile.TemporaryDirectory() as folder:
            # A program that is there in place of the one that the package brings.
            unit = pathlib.Path(folder, "kilnd.service")
            unit.write_text(UNIT.read_text().replace("ExecStart=/usr/bin/kilnd ", "ExecStart=/usr/bin/env ") + besides)
            return subprocess.run(["systemd-analyze", *words, str(unit)], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)  # fmt: skip

    def test_systemd_has_nothing_to_say(self):
        self.assertEqual(self.said_of_it(), [])
        (line,) = self.said_of_it(besides="\n[Service]\nRestrat=always\n")
        self.assertIn("Restrat", line)

    def said_of_it(self, besides=""):
        """And not of units of this machine, which it loads, too."""
        ran = self.analyze("verify", "--man=no", besides=besides)
        return [line for line in ran.stdout.splitlines() if "kilnd.service" in line]

    def test_it_exposes_little(self):
        ran = self.analyze("security", "--offline=yes", "--threshold=%d" % MOST_EXPOSED)
        self.assertEqual(ran.returncode, 0, ran.stdout)
        self.assertRegex(ran.stdout, r"exposure level for kilnd.service: 1\.\d OK")

    def test_it_waits_for_as_long_as_kilnd_drains(self):
        unit = confined.settings(UNIT.read_text())
        drains = int(re.search(r"--drain_seconds=(\d+)", subprocess.run([str(support.KILND), "--help"], text=True,
                               stdout=subprocess.PIPE, check=True).stdout).group(1))  # fmt: skip
        self.assertGreaterEqual(int(unit["TimeoutStopSec"][-1]), drains + 10)


class Settings(unittest.TestCase):
    def test_the_package_s_configuration_is_good(self):
        with tempfile.TemporaryDirectory() as folder:
            # systemd makes the one that it names.
            path = pathlib.Path(folder, "kilnd.txtpb")
            path.write_text((support.ROOT / "deploy/config/kilnd.txtpb").read_text().replace("/var/cache/kiln", folder))
            ran = subprocess.run([str(support.KILND), "--config=%s" % path, "--check_config"], stdout=subprocess.PIPE, text=True)
        self.assertEqual(ran.returncode, 0)
        self.assertIn('listen: "127.0.0.1:7437"', ran.stdout)


@unittest.skipIf(can_confine(), can_confine())
class Confined(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.folder.chmod(0o777)  # so that the user "nobody" may write to it

    def words(self, *settings):
        return [sys.executable, str(CONFINED), str(UNIT), *settings, "--"]

    def server(self, *flags, settings=(), **options):
        environment = {"CONFINED_WRITABLE": str(self.folder)}
        server = support.Server("--program_cache_dir=%s" % (self.folder / "programs"), *flags, launcher=self.words(*settings),
                                environment=environment, **options)  # fmt: skip
        self.addCleanup(server.stop)
        return server

    def sums(self, address, **options):
        with support.kiln.connect(address, **options) as client:
            return client.arange(5).numpy().sum()

    def test_it_compiles_and_runs_and_writes_to_its_folders(self):
        server = self.server("--compile_isolation=on")
        self.assertIn("result 0  float32 (4,)", support.cli("--server=" + server.address, "run", str(GRAPH), "--random"))
        self.assertEqual(self.sums(server.address), 10)
        self.assertGreater(len(list((self.folder / "programs").rglob("*"))), 0)

    def test_tenants_in_processes_of_their_own(self):
        tokens = {name: self.folder / name for name in ("shared", "apart")}
        sums = []
        for name, file in tokens.items():
            file.write_text("token of " + name)
            sums.append(subprocess.run(["sha256sum", file], stdout=subprocess.PIPE, check=True, text=True).stdout.split()[0])
        (self.folder / "tenants").write_text(TENANTS % tuple(sums))
        (self.folder / "tenants").chmod(0o644)
        server = self.server("--tenants=%s" % (self.folder / "tenants"))
        for file in tokens.values():
            self.assertEqual(self.sums(server.address, token=file.read_text()), 10)

    def test_a_socket_is_whose_the_settings_say(self):
        """The unit's UMask alone would leave it to kilnd's own user, and tenants by `unix_user` could not connect."""
        self.assertEqual(confined.settings(UNIT.read_text())["UMask"], ["0077"])
        for flags, mode in (([], 0o700), (["--listen_mode=0666"], 0o666), (["--listen_mode=0660"], 0o660)):
            server = self.server(*flags, host="unix:%s" % (self.folder / "kilnd"))
            path = self.folder / "kilnd:0"
            self.assertEqual(path.stat().st_mode & 0o7777, mode)
            server.stop()
            self.assertFalse(path.exists())

    def test_code_is_made_executable_after_it_was_written(self):
        """Why the unit does without MemoryDenyWriteExecute. Where this no longer fails, the unit can have it."""
        self.assertNotIn("MemoryDenyWriteExecute", confined.settings(UNIT.read_text()))
        server = self.server(settings=["MemoryDenyWriteExecute=yes"])
        with self.assertRaisesRegex(support.kiln.KilnError, "linking kernel"):
            self.sums(server.address)

    def test_what_is_forbidden_fails(self):
        code = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
said = []
for what, call in (("mount", lambda: libc.mount(b"none", b"/mnt", b"tmpfs", 0, None)), ("unshare", lambda: libc.unshare(1 << 28))):
    said.append((what, call(), ctypes.get_errno()))
for family in (socket.AF_PACKET, socket.AF_INET):
    try:
        socket.socket(family, socket.SOCK_DGRAM).close()
        said.append((family.name, "made"))
    except OSError as error:
        said.append((family.name, error.errno))
print(said)
"""
        ran = subprocess.run([*self.words(), sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(ran.stdout.strip(), "[('mount', -1, 1), ('unshare', -1, 1), ('AF_PACKET', 97), ('AF_INET', 'made')]")


if __name__ == "__main__":
    unittest.main()
