"""deploy/gpu.sh, with programs that stand in for the archive's: each way to end is told, and kept as a status."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

PASSES = "echo '[  PASSED  ] 1 test.'"
SKIPS = "echo why; echo '[  PASSED  ] 0 tests.'; echo '[  SKIPPED ] 1 test, listed below:'"
CARDS = "echo 'CUDA:0: a card'"
ROW = """echo '{"device": "CUDA:0", "row": "a row", "seconds": 0.002, "flops": 4e9}' >>"${2#--json=}" """


class GpuScript(unittest.TestCase):
    def run_script(self, tests, cards=CARDS, row=ROW, part=(), limit="60", digits=""):
        """(status, report, folder), where `tests` is what each test does, by name, in the shell's words."""
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        archive, out = folder / "kiln", folder / "out"
        (archive / "bin").mkdir(parents=True)
        (archive / "tests" / "gpu").mkdir(parents=True)
        shutil.copy(ROOT / "deploy" / "gpu.sh", archive)
        shutil.copy(ROOT / "tests" / "gpu" / "beside.py", archive / "tests" / "gpu")
        # A python3 for which there is no torch, wherever this runs.
        program = "#!/bin/bash\n[[ $2 != 'import torch'* ]] || exit 1\nexec %s \"$@\"\n"
        self.write(archive / "python" / "python3", program % shutil.which("python3"))
        cases = "".join("--gtest_filter=S.%s) %s ;;\n" % case for case in tests.items())
        listed = "--gtest_list_tests) echo 'Running main()'; echo S.; printf '  %%s\\n' %s ;;\n" % " ".join(tests)
        self.write(archive / "bin" / "gpu_conformance_test", "#!/bin/bash\ncase $1 in\n%s%sesac\n" % (listed, cases))
        self.write(archive / "bin" / "gpu_bench",
                   "#!/bin/bash\ncase $1 in\n--cards) %s ;;\n--list) echo 'a row' ;;\n'--row=a row') %s ;;\nesac\n"
                   % (cards, row))
        self.write(archive / "bin" / "train_digits", "#!/bin/bash\necho \"digits $*\"\n" + digits)
        ran = subprocess.run([archive / "gpu.sh", out, *part], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, timeout=100,
                             env={**os.environ, "KILN_GPU_LIMIT": limit,
                                  "PATH": "%s:%s" % (archive / "python", os.environ["PATH"])})
        return ran.returncode, (out / "gpu-report.md").read_text(), out

    @staticmethod
    def write(path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def test_what_passes_and_what_is_skipped(self):
        status, report, out = self.run_script({"One": PASSES, "Two": SKIPS})
        self.assertEqual(status, 0, report)
        self.assertIn("| S.One | passed |", report)
        self.assertIn("| S.Two | skipped |", report)
        self.assertIn("| a row | 2.000 ms | 2.0 TFLOP/s |", report)
        self.assertIn("python3 has no torch here", report)
        self.assertIn("digits --kilnd=bin/kilnd --device=CUDA:0", report)
        self.assertIn("All passed that was run.", report)
        self.assertIn("why", (out / "gpu-conformance.log").read_text())

    def test_each_failure_is_told_and_the_others_go_on(self):
        long = "for i in {1..9000}; do echo 'a line of a log'; done; echo '[  FAILED  ] S.Long'; exit 1"
        tests = {"Fails": "exit 1", "Crashes": "kill -SEGV $$", "Hangs": "sleep 60", "Long": long, "Says": "true",
                 "Passes": PASSES}
        status, report, out = self.run_script(tests, row="echo bad; exit 1", limit="2",
                                             digits="exit 3")
        self.assertEqual(status, 1, report)
        for line in ("| S.Fails | failed: status 1 |", "| S.Crashes | failed: crashed by signal 11 |",
                     "| S.Hangs | failed: killed, by its limit of 2 s", "| S.Long | failed: status 1 |",
                     "| S.Says | failed: it says of no test that it passed |", "| S.Passes | passed |",
                     "- digits on CUDA:0: failed: status 3", "- a row: failed: status 1"):
            self.assertIn(line, report)
        self.assertLess(len(report), 20000)
        self.assertEqual((out / "gpu-conformance.log").read_text().count("a line of a log"), 9000)

    def test_no_card_is_neither_passed_nor_failed(self):
        status, report, _ = self.run_script({"One": "exit 1"}, cards="echo none; exit 77")
        self.assertEqual(status, 77, report)
        self.assertIn("No card was found, and nothing was run.", report)

    def test_a_crash_while_cards_are_looked_for(self):
        status, report, _ = self.run_script({"One": PASSES}, cards="kill -ABRT $$")
        self.assertEqual(status, 1, report)
        self.assertIn("finding the cards: failed: crashed by signal 6", report)

    def test_a_part(self):
        status, report, _ = self.run_script({"One": PASSES}, row="exit 1", part=("conformance",))
        self.assertEqual(status, 0, report)
        self.assertNotIn("Speed", report)

    def test_rows_beside_pytorch(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "kiln").write_text('{"device": "CUDA:0", "card": "C", "row": "a", "seconds": 1e-3, "bytes": 3e9}\n'
                                     '{"device": "CUDA:0", "card": "C", "row": "b", "error": "wrong | here"}\n'
                                     '{"device": "CUDA:1", "card": "D", "row": "a", "seconds": 2e-6}\n')
        (folder / "torch").write_text('{"device": "CUDA:0", "by": "P", "row": "a", "seconds": 5e-4, "way": "w"}\n')
        table = subprocess.run(["python3", ROOT / "tests" / "gpu" / "beside.py", folder / "kiln", folder / "torch"],
                               stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertIn("| a | 1.000 ms | 3000 GB/s | 0.500 ms | 6000 GB/s | 0.50 | w |", table)
        self.assertIn("| b | wrong / here |  |  |  |  |  |", table)
        self.assertIn("| a | 2.00 us |  |", table)


if __name__ == "__main__":
    unittest.main()
