"""`kiln` as people and shells meet it: versions, exit statuses, mistakes, completions, hashes and JSON."""

import base64
import json
import os
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

    @unittest.skipUnless(shutil.which("zsh"), "there is no zsh; ./dev test installs it")
    def test_zsh_completes(self):
        """What the function would offer, as the keys need a terminal; _files are offered where kiln knows no word."""
        script = """
            PATH="%s:$PATH"
            autoload -Uz compinit
            compinit -u -D
            compadd() { print -l -- $found }
            _files() { print files }
            source <(kiln completions zsh)
            asks() { words=("$@"); CURRENT=$#; _kiln }
            asks kiln dev
            asks kiln graph p
            asks kiln devices --w
            asks kiln --server ""
        """ % support.CLI.parent
        done = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.stdout.splitlines(), done.stderr), (["devices", "print", "--watch", "files"], ""))

    @unittest.skipUnless(shutil.which("fish"), "there is no fish; ./dev test installs it")
    def test_fish_completes(self):
        script = """
            set PATH %s $PATH
            kiln completions fish | source
            for line in "kiln dev" "kiln graph p" "kiln devices --w" "kiln --server "
                echo "= $line"
                complete -C $line
            end
        """ % support.CLI.parent
        with tempfile.TemporaryDirectory() as folder:  # whose files are offered where kiln knows no word, and only there
            pathlib.Path(folder, "devices.uop").touch()
            done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, timeout=120, cwd=folder,
                                  env={**os.environ, "HOME": folder})  # fmt: skip
        self.assertEqual((done.stdout.splitlines(), done.stderr), (
            ["= kiln dev", "devices", "= kiln graph p", "print", "= kiln devices --w", "--watch", "= kiln --server ", "devices.uop"], ""))

    def test_of_what_shell_it_knows_nothing_it_says_so(self):
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

    def file(self, program):
        file = tempfile.NamedTemporaryFile(suffix=".pb")
        self.addCleanup(file.close)
        file.write(program.graph.SerializeToString())
        file.flush()
        return file.name

    def json(self, *words):
        done = self.ask(*words, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_what_tables_say_json_says(self):
        program = self.compiled(5.0)
        file, hexes = self.file(program), program.hash.hex()
        ran = self.json("run", file, "--zeros")
        (result,) = ran["results"]
        self.assertEqual(result, {"name": "0", "dtype": "float32", "shape": [3], "min": 0.0, "max": 0.0, "mean": 0.0, "nan": 0,
                                  "first_elements": [0.0, 0.0, 0.0]})  # fmt: skip
        self.assertEqual((ran["hash"], ran["kernels"], ran["from_cache"], ran["updated"]), (hexes, 1, True, []))
        self.assertEqual(self.json("run", file, "--zeros", "--show", "1")["results"][0]["first_elements"], [0.0])

        bench = self.json("bench", file, "--repeat", "3", "--concurrency", "1,2")
        self.assertEqual((bench["hash"], bench["repeat"]), (hexes, 3))
        self.assertEqual([row["callers"] for row in bench["concurrency"]], [1, 2])
        for times in (bench["call_us"], bench["server_us"], bench["concurrency"][0]["call_us"]):
            self.assertLess(0, times["min"])
            self.assertLessEqual(times["min"], times["p50"])
            self.assertLessEqual(times["p50"], times["p99"])
        self.assertLessEqual(bench["kernels_us"]["p50"], bench["call_us"]["p50"])

        explained = self.json("explain", file)
        self.assertEqual(base64.b64decode(explained["graph_hash"]).hex(), hexes)
        self.assertEqual(explained["signature"]["parameters"][0]["name"], "x")
        self.assertEqual(len(explained["kernels"]), 1)
        (stage,) = self.json("explain", file, "--stage", "normalise")["stages"]
        self.assertIn("MUL", stage["text"])
        tuned = self.json("tune", file, "--budget_ms", "200")
        self.assertEqual(base64.b64decode(tuned["graph_hash"]).hex(), hexes)
        self.assertGreaterEqual(tuned["candidates"], 1)

        self.assertEqual(self.json("health"), {"server": self.server.address, "service": "", "serves": True})
        self.assertEqual(self.json("health", "CPU:0")["service"], "CPU:0")
        self.assertEqual(run("--server", "127.0.0.1:1", "health", "--json").returncode, 3)
        self.assertEqual(self.json("graph", "hash", file), {"hash": hexes})
        self.assertIn("PARAM", [node["op"] for node in self.json("graph", "print", file)["nodes"]])
        self.assertEqual(self.json("evict", hexes), {"programs": 1, "entries": 0})

    def test_a_gradient_as_json(self):
        graph = kiln.Graph()
        graph.output((graph.param("x", (3,), "float32") * 2.0).sum())
        made = self.json("gradient", self.file(self.client.compile(graph)), "--wrt", "x")
        self.assertGreater(len(made["graph"]["nodes"]), 0)

    def test_a_folder_of_programs_as_json(self):
        with tempfile.TemporaryDirectory() as folder, support.running("--program_cache_dir=" + folder) as server:
            with kiln.connect(server.address) as client:
                graph = kiln.Graph()
                graph.output(graph.param("x", (3,), "float32") * 6.0)
                digits = client.compile(graph).hash.hex()
            listed = self.json("cache", "ls", folder)
            (row,) = listed["programs"]
            self.assertEqual((row["graph"], row["kernels"], row["bytes"]), (digits, 1, listed["bytes"]))
            self.assertEqual(self.json("cache", "verify", folder), {"good": 1, "bad": []})
            bundle = pathlib.Path(folder) / "bundle"
            self.assertEqual(self.json("cache", "export", folder, str(bundle)),
                             {"programs": 1, "file": str(bundle), "left_out": []})  # fmt: skip
            self.assertEqual(self.json("cache", "import", folder, str(bundle)), {"taken": 0, "there": 1, "refused": []})
            self.assertEqual(self.json("cache", "gc", folder, "--bytes", "0"),
                             {"removed": 1, "removed_bytes": listed["bytes"], "left_bytes": 0})  # fmt: skip

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
        self.assertEqual(self.json("run", digits[:12], "--zeros")["hash"], digits)
        self.assertIn("x", self.ask("run", digits[:12]).stderr)  # its parameters have names without a graph, too
        self.assertEqual(self.json("bench", digits[:12], "--repeat", "2")["hash"], digits)
        self.assertEqual(len(self.json("time", digits[:12], "--repeat", "2")["seconds"]), 2)
        self.assertIn("hash       " + digits, self.ask("tune", digits[:12], "--budget_ms", "200").stdout)
        self.assertEqual(self.ask("graph", "hash", digits[:12]).stdout, digits + "\n")
        self.assertIn("PARAM", self.ask("graph", "print", digits[:12]).stdout)
        self.assertIn("<svg", self.ask("graph", "svg", digits[:12]).stdout)
        self.assertIn("<svg", self.ask("graph", "svg", digits[:12], "--stage", "memory_plan").stdout)
        nobody = "no program in the server's memory"
        self.assertIn("NEED_GRAPH", self.ask("run", "0" * 64, "--zeros").stderr)
        for words, why in ((["explain", "0" * 12], nobody), (["run", "0" * 12], nobody), (["bench", "0" * 12], nobody),
                           (["time", "0" * 12], nobody), (["tune", "0" * 12], nobody),
                           (["graph", "hash", "0" * 12], nobody), (["graph", "print", "0" * 12], nobody),
                           (["evict", "abc"], "is no hash"), (["evict", "xyz" * 5], "is no hash")):  # fmt: skip
            done = self.ask(*words)
            self.assertEqual(done.returncode, 1)
            self.assertIn(why, done.stderr)
        self.assertEqual(self.ask("evict", digits[:12]).stdout, "1 from memory, 0 from disk\n")

    def test_digits_of_several_programs_name_them(self):
        seen = {}
        for value in range(100, 3000):
            graph = kiln.Graph()
            graph.output(graph.param("x", (3,), "float32") * float(value))
            digits = kiln.graph_hash(graph.build()).hex()
            twin, other = seen.setdefault(digits[:4], (digits, graph))
            if twin != digits:
                break
        for each in (graph, other):
            self.client.compile(each)
        done = self.ask("run", digits[:4], "--zeros")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the hashes of 2 programs begin with %s; give more digits" % digits[:4], done.stderr)
        self.assertIn(twin, done.stderr)


if __name__ == "__main__":
    unittest.main()
