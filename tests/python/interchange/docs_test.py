"""The snippets of docs/python_interchange.md run, one after the other, and print what the page says."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import snippets
import support


class Docs(unittest.TestCase):
    def test_every_snippet(self):
        snippets.check(self, support.ROOT / "docs" / "python_interchange.md", at_least=8)


if __name__ == "__main__":
    unittest.main()
