"""`kiln` as people and shells meet it: versions, exit statuses, mistakes, completions, hashes and JSON."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support

import kiln


def run(*words, **how):
    return subprocess.run([str(support.CLI), *words], capture_output=True, text=True, timeout=120, **how)


class Words(unittest.TestCase):
    def test_the_version(self):
        done = run("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^kiln-\d+\.\d+\.\d+\n$")

    def test_what_was_meant(self):
        for words, meant in ((["devcies"], "devices"), (["graph", "pirnt"], "print"), (["devices", "--wacth"], "--watch")):
            done = run(*words)
            self.assertEqual(done.returncode, 2)
            self.assertTrue(done.stderr.endswith("Did you mean %s?\n" % meant), done.stderr)
        self.assertNotIn("mean", run("something").stderr)

    def test_exit_statuses(self):
        self.assertEqual(run("--help").returncode, 0)
        self.assertEqual(run("run").returncode, 2)
        self.assertEqual(run("graph", "print", "/nowhere.uop").returncode, 1)
        self.assertEqual(run("--server", "127.0.0.1:1", "devices").returncode, 3)

    @unittest.skipUnless(shutil.which("bash"), "there is no bash")
    def test_bash_completes(self):
        script = """
            PATH="%s:$PATH"
            source <(kiln completions bash)
            asks() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _kiln; echo "${COMPREPLY[@]}"; }
            asks kiln dev
            asks kiln graph p
            asks kiln devices --w
            asks kiln --server ""
        """ % support.CLI.parent
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.stdout.splitlines(), done.stderr), (["devices", "print", "--watch", ""], ""))

    def test_scripts_for_other_shells(self):
        for shell in ("bash", "zsh", "fish"):
            self.assertIn("kiln completions --words", run("completions", shell).stdout)
        self.assertEqual(run("completions", "sh").returncode, 2)


class Asked(support.ServerTest):
    def ask(self, *words):
        return run("--server", self.server.address, *words)

    def compiled(self, value):
        graph = kiln.Graph()
        x = graph.param("x", (3,), "float32")
        graph.output(x * value)
        return self.client.compile(graph)

    def test_json_for_programs(self):
        program = self.compiled(2.0)
        devices = json.loads(self.ask("devices", "--json").stdout)
        self.assertEqual(devices["devices"][0]["name"], "CPU:0")
        self.assertEqual(devices["address"], "")
        programs = json.loads(self.ask("programs", "--json").stdout)["programs"]
        self.assertIn("CPU:0", [row["device"] for row in programs])
        self.assertEqual(json.loads(self.ask("usage", "--json").stdout), {"tenants": []})
        with tempfile.NamedTemporaryFile(suffix=".pb") as file:
            file.write(program.graph.SerializeToString())
            file.flush()
            timed = json.loads(self.ask("time", file.name, "--repeat", "3", "--json").stdout)
        self.assertEqual(len(timed["seconds"]), 3)

    def test_bench_by_how_many_call_at_once(self):
        program = self.compiled(4.0)
        with tempfile.NamedTemporaryFile(suffix=".pb") as file:
            file.write(program.graph.SerializeToString())
            file.flush()
            done = self.ask("bench", file.name, "--repeat", "5", "--concurrency", "1,3")
        rows = [line.split() for line in done.stdout.splitlines()[-2:]]
        self.assertEqual([row[0] for row in rows], ["1", "3"], done.stdout + done.stderr)
        self.assertGreater(float(rows[0][1]), 0)

    def test_the_first_digits_of_a_hash_will_do(self):
        digits = self.compiled(3.0).hash.hex()
        explained = self.ask("explain", digits[:12])
        self.assertIn("hash       %s" % digits, explained.stdout)
        for words, why in ((["explain", "0" * 12], "no program in the server's memory"),
                           (["evict", "abc"], "is no hash"), (["evict", "xyz" * 5], "is no hash")):  # fmt: skip
            done = self.ask(*words)
            self.assertEqual(done.returncode, 1)
            self.assertIn(why, done.stderr)
        self.assertEqual(self.ask("evict", digits[:12]).stdout, "1 from memory, 0 from disk\n")


if __name__ == "__main__":
    unittest.main()
