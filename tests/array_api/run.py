"""Runs the array API standard's own tests on kiln.numpy, with a server of their own. ./dev array-api PATH

PATH is a checkout of github.com/data-apis/array-api-tests with its submodule array-api; no package index has it. What
it is written with is requirements.txt's (./dev array-api installs that). What is left over goes to pytest:

    ./dev array-api ../array-api-tests --max-examples 50 -k sort

The suite takes for granted that there are complex numbers, in one line that stands in no test; of a copy of it, that
line is mended (REPAIRED). expected.py says what cannot pass.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))

import support  # noqa: E402

VERSION = "2024.12"
# The widest complex dtype, of none: its only use is in the tests of what complex numbers are.
REPAIRED = (
    "array_api_tests/dtype_helpers.py",
    "for dt in complex_dtypes], key=lambda x: x[1]\n",
    "for dt in complex_dtypes], key=lambda x: x[1], default=(xp.float64, 0)\n",
)


def main(path, *arguments):
    if not (pathlib.Path(path) / "array-api" / "src").is_dir():
        raise SystemExit("%s is no checkout of array-api-tests with its submodule array-api" % path)
    examples = () if any(word.startswith("--max-examples") for word in arguments) else ("--max-examples=20",)
    with tempfile.TemporaryDirectory() as folder, support.running("--cpu_devices=2") as server:
        copy = pathlib.Path(folder) / "suite"
        shutil.copytree(path, copy, ignore=shutil.ignore_patterns(".git"))
        repaired = copy / REPAIRED[0]
        repaired.write_text(repaired.read_text().replace(*REPAIRED[1:]))
        environment = {
            **os.environ,
            "ARRAY_API_TESTS_MODULE": "exec('import kiln; kiln.connect(); import kiln.numpy as xp')",
            "ARRAY_API_TESTS_VERSION": VERSION,
            "ARRAY_API_TESTS_SKIP_DTYPES": "complex64,complex128",
            "KILN_ADDR": server.address,
            "PYTHONPATH": os.pathsep.join(
                [str(support.PACKAGE), str(pathlib.Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")]
            ),
        }
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--disable-deadline",
            "--derandomize",
            "-p",
            "expected",
            "-p",
            "no:cacheprovider",
            *examples,
            *arguments,
            "array_api_tests",
        ]
        ran = subprocess.run(command, cwd=copy, env=environment, stdout=subprocess.PIPE, text=True)
    print(ran.stdout)
    counts = {
        word: int(number)
        for number, word in re.findall(r"(\d+) (passed|failed|skipped|xfailed|xpassed|error)", ran.stdout.splitlines()[-1])
    }
    print("array-api-tests %s: %s" % (VERSION, ", ".join("%d %s" % (counts[word], word) for word in counts)))
    return ran.returncode


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    sys.exit(main(*sys.argv[1:]))
