"""The five minutes of docs/serving.md, step by step: what is in its blocks is run, and prints what the page says."""

import contextlib
import io
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "python"))

import support

PAGE = support.ROOT / "docs" / "serving.md"
STEP = re.compile(r"^```(sh|python)\n(.*?)^```\n\n?(?:^```(?:json|text)\n(.*?)^```$)?", re.S | re.M)
GRPC, HTTP = "127.0.0.1:8001", "127.0.0.1:8000"


class FiveMinutes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("docs", "examples", "tests"):
            (self.folder / name).symlink_to(support.ROOT / name)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.addCleanup(sys.path.__setitem__, slice(None), list(sys.path))
        self.names, self.addresses = {}, {}

    def ready(self):
        try:
            with urllib.request.urlopen("http://%s/v2/health/ready" % self.addresses[HTTP], timeout=60) as answer:
                return answer.status == 200
        except OSError:
            return False

    def start(self, command):
        """The page's kilnd, on ports of its own, until all models are there."""
        flags = [flag for flag in shlex.split(command.replace("\\\n", ""))[1:] if flag != "--listen=" + GRPC]
        self.assertIn("--http_listen=" + HTTP, flags)
        server = support.Server(*(flag.replace(HTTP, "127.0.0.1:0") for flag in flags))
        self.addCleanup(server.stop)
        found = (re.search(r"event=http .*\bport=(\d+)", line) for line in server.log)
        port = next(int(row.group(1)) for row in found if row)
        self.addresses = {GRPC: server.address, HTTP: "127.0.0.1:%d" % port}
        self.assertTrue(support.eventually(self.ready), "".join(server.log[-20:]))

    def shell(self, command):
        # What is to be installed is there: nothing is fetched.
        command = command.replace("pip install", "%s -m pip install --no-index" % shlex.quote(sys.executable))
        ran = subprocess.run(["bash", "-euc", command], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout

    def test_every_step(self):
        text = PAGE.read_text()
        begin = text.index("\n## Five minutes\n")
        end = text.index("\n## ", begin + 1)
        steps = list(STEP.finditer(text, begin, end))
        self.assertEqual(2 * len(steps) + sum(step.group(3) is not None for step in steps) * 2,
                         text.count("\n```", begin, end))  # fmt: skip
        self.assertGreaterEqual(len(steps), 8)
        for step in steps:
            language, code, wanted = step.groups()
            line = text.count("\n", 0, step.start()) + 2
            for ours, theirs in self.addresses.items():
                code = code.replace(ours, theirs)
            if code.startswith("kilnd "):
                self.start(code)
            elif language == "sh":
                printed = self.shell(code)
                if wanted:
                    self.assertEqual(json.loads(printed), json.loads(wanted), "line %d" % line)
            else:
                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    exec(compile("\n" * (line - 1) + code, str(PAGE), "exec"), self.names)
                self.assertEqual(printed.getvalue(), wanted or "", "line %d" % line)


if __name__ == "__main__":
    unittest.main()
