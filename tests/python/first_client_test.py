"""docs/first_client.md works as it stands: its snippets run in a Python that has grpcio and generated stubs, and no
client of ours, and print what the page says."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support

PAGE = support.ROOT / "docs" / "first_client.md"
SNIPPET = re.compile(r"^```python\n(.*?)^```\n(?:^```text\n(.*?)^```$)?", re.S | re.M)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.S | re.M)
MARK = "== end of a snippet"


class FirstClient(unittest.TestCase):
    def test_every_snippet(self):
        page = PAGE.read_text()
        found = list(SNIPPET.finditer(page))
        self.assertEqual(len(found), page.count("```python\n"))
        self.assertGreaterEqual(len(found), 12)
        server = support.Server()
        self.addCleanup(server.stop)
        with tempfile.TemporaryDirectory() as folder:
            for shell in SHELL.findall(page):
                # The page's own words, in a folder that has the tree's proto beside it.
                (pathlib.Path(folder) / "proto").symlink_to(support.ROOT / "proto")
                command = shell.replace("python -m", '"%s" -m' % sys.executable)
                subprocess.run(["bash", "-euc", command], cwd=folder, check=True, timeout=120)
            program = ""
            for snippet in found:
                line = page[: snippet.start()].count("\n") + 2
                program += "\n" * (line - 1 - program.count("\n")) + snippet.group(1) + "print(%r)\n" % MARK
            program = program.replace("localhost:7437", server.address)
            script = pathlib.Path(folder) / "first_client.py"
            script.write_text(program)
            ran = subprocess.run([sys.executable, "-I", str(script)], cwd=folder, timeout=300, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        printed = ran.stdout.split(MARK + "\n")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(len(printed), len(found) + 1)
        for snippet, output in zip(found, printed):
            with self.subTest(line=page[: snippet.start()].count("\n") + 2):
                self.assertEqual(output, snippet.group(2) or "")


if __name__ == "__main__":
    unittest.main()
