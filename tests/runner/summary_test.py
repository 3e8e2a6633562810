"""The runner finds what a test imports from its own folder, and counts what failed, was skipped, or never ran."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import summary

SUMMARY = pathlib.Path(__file__).resolve().parent / "summary.py"

TEST = """
import unittest
import neighbour

class Cases(unittest.TestCase):
    def test_neighbour(self):
        self.assertEqual(neighbour.VALUE, 3)

    def test_wrong(self):
        self.assertEqual(neighbour.VALUE, 4)

    @unittest.skip("on purpose")
    def test_skipped(self):
        pass
"""

KILLED = """
import os, signal, subprocess
subprocess.Popen(["cat", %r])
os.kill(os.getpid(), signal.SIGKILL)
"""


class Summary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.results = self.folder / "results.jsonl"

    def run_summary(self, *args):
        return subprocess.run([sys.executable, str(SUMMARY), *map(str, args)], capture_output=True, text=True,
                              cwd=self.folder)

    def steps(self):
        return [json.loads(line) for line in self.results.read_text().splitlines()]

    def write(self, name, text):
        path = self.folder / "inner" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def test_python_counts_and_finds_neighbours(self):
        self.write("neighbour.py", "VALUE = 3\n")
        self.run_summary("python", self.results, self.write("some_test.py", TEST))
        (step,) = self.steps()
        self.assertEqual((step["passed"], step["skipped"], len(step["failures"])), (1, 1, 1))
        self.assertIn("test_wrong", step["failures"][0])

    def test_what_cannot_be_imported_has_failed(self):
        self.run_summary("python", self.results, self.write("broken_test.py", "import not_there\n"))
        (step,) = self.steps()
        self.assertEqual((step["passed"], len(step["failures"])), (0, 1))
        self.assertIn("could not be run", step["failures"][0])
        total = self.run_summary("total", self.results)
        self.assertEqual(total.returncode, 1)
        self.assertEqual(total.stdout.splitlines()[-1], "0 passed, 1 failed")

    def test_what_outlives_a_killed_test_is_not_waited_for(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)  # nobody writes to it before the end, so that the child stays
        self.addCleanup(lambda: fifo.open("w").close())
        self.run_summary("python", self.results, self.write("killed_test.py", KILLED % str(fifo)))
        (step,) = self.steps()
        self.assertEqual((step["passed"], len(step["failures"])), (0, 1))
        self.assertIn("exit code -9", step["failures"][0])

    def test_the_long_ones_are_there_and_begin_first(self):
        root = SUMMARY.parent.parent.parent
        self.assertEqual([file for file in summary.LONG if not (root / file).is_file()], [])
        rest = ["tests/a_test.py", "tests/z_test.py"]
        self.assertEqual(summary.ordered(rest[::-1] + summary.LONG[::-1]), summary.LONG + rest)

    def test_no_step_is_no_success(self):
        self.results.write_text("")
        self.assertEqual(self.run_summary("total", self.results).returncode, 1)


if __name__ == "__main__":
    unittest.main()
