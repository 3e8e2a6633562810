"""The snippets of docs/python.md run, one after the other, and print what the page says."""

import contextlib
import io
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support

PAGE = support.ROOT / "docs" / "python.md"
SNIPPET = re.compile(r"^```python\n(.*?)^```\n(?:^```text\n(.*?)^```$)?", re.S | re.M)


class Docs(unittest.TestCase):
    def test_every_snippet(self):
        server = support.Server()
        self.addCleanup(server.stop)
        page = PAGE.read_text()
        snippets = list(SNIPPET.finditer(page))
        self.assertEqual(len(snippets), page.count("```python\n"))
        self.assertGreater(len(snippets), 10)
        names = {}
        for snippet in snippets:
            line = page[: snippet.start()].count("\n") + 2
            code = compile("\n" * (line - 1) + snippet.group(1).replace("localhost:7437", server.address), str(PAGE), "exec")
            printed = io.StringIO()
            with self.subTest(line=line), contextlib.redirect_stdout(printed):
                exec(code, names)
            with self.subTest(line=line):
                self.assertEqual(printed.getvalue(), snippet.group(2) or "")


if __name__ == "__main__":
    unittest.main()
