"""Users' programs, and the examples, have no fault that a type checker finds: mypy --strict, and pyright, which is
stricter elsewhere. The programs run, too: what the checkers are told is true."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
EXAMPLES = support.ROOT / "examples"
# Of the examples, those on Kiln's own arrays; the others are tinygrad's, whose types are its own.
ANNOTATED = ("twins", "heat", "edges", "k_means", "logistic_regression")
PLAIN = ("data_parallel", "jax_mlp")
# A checker alone is quick; beside a busy machine it may take as long as this.
LIMIT = 600


def checked(*command):
    """What a checker says, and whether it finds nothing."""
    environment = {**os.environ, "PYTHONPATH": "%s:%s" % (support.PACKAGE, EXAMPLES)}
    with tempfile.TemporaryDirectory() as folder:  # pyright looks for a configuration where it runs
        done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=LIMIT)  # fmt: skip
    return done.returncode == 0, done.stdout


def pyright():
    """The command; SkipTest with the reason where it cannot be had. Its package is a program for node."""
    if importlib.util.find_spec("pyright") is None:
        raise unittest.SkipTest("the package pyright is not installed")
    if shutil.which("node") is None:
        raise unittest.SkipTest("pyright is a program for node, which is not installed")
    known, said = checked(sys.executable, "-m", "pyright", "--version")
    if not known:  # the package fetches the program from npm's registry, once
        raise unittest.SkipTest("pyright could not be fetched: %s" % said.strip().rsplit("\n", 1)[-1])
    return [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]


def files(folder, names=None):
    return [str(path) for path in sorted(folder.glob("*.py")) if names is None or path.stem in names]


class Types(support.ServerTest):
    def check(self, *command):
        fine, said = checked(*command)
        self.assertTrue(fine, "\n" + said)

    @unittest.skipIf(importlib.util.find_spec("mypy") is None, "mypy is not installed")
    def test_mypy(self):
        cache = support.ROOT / "out" / "mypy"
        self.check(
            sys.executable,
            "-m",
            "mypy",
            "--cache-dir",
            str(cache),
            "--strict",
            *files(PROGRAMS),
            *files(EXAMPLES, ANNOTATED),
        )

    def test_pyright(self):
        self.check(*pyright(), *files(PROGRAMS), *files(EXAMPLES, ANNOTATED + PLAIN))

    def test_the_programs_run(self):
        sys.path.insert(0, str(PROGRAMS))
        self.addCleanup(sys.path.remove, str(PROGRAMS))
        import arrays
        import graphs

        self.assertLess(arrays.main(self.server.address), 0.1)  # from 0.25
        self.assertEqual(graphs.main(self.server.address), ("SHAPE_MISMATCH", 3.0))


if __name__ == "__main__":
    unittest.main()
