"""Runs the Python snippets of a page, one after the other, and compares what they print with what the page says."""

import contextlib
import io
import re

import support

SNIPPET = re.compile(r"^```python\n(.*?)^```\n(?:^```text\n(.*?)^```$)?", re.S | re.M)


def check(case, path, at_least, serve=support.Server):
    """All snippets of the page at `path`, in one namespace, with a kilnd where it says localhost:7437."""
    server = serve("--cpu_devices=4")
    case.addCleanup(server.stop)
    page = path.read_text()
    found = list(SNIPPET.finditer(page))
    case.assertEqual(len(found), page.count("```python\n"))
    case.assertGreaterEqual(len(found), at_least)
    names = {}
    for snippet in found:
        line = page[: snippet.start()].count("\n") + 2
        code = compile("\n" * (line - 1) + snippet.group(1).replace("localhost:7437", server.address), str(path), "exec")
        printed = io.StringIO()
        with case.subTest(line=line), contextlib.redirect_stdout(printed):
            exec(code, names)
        with case.subTest(line=line):
            case.assertEqual(printed.getvalue(), snippet.group(2) or "")
