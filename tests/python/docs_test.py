"""The snippets of the pages on Python run, one after the other, and print what the page says."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import snippets
import support


class Docs(unittest.TestCase):
    def test_every_snippet(self):
        for page, count in (("python", 12), ("python_tutorial", 7), ("python_howto", 8)):
            with self.subTest(page):
                snippets.check(self, support.ROOT / "docs" / (page + ".md"), at_least=count)

    def test_what_pypi_shows(self):
        snippets.check(self, support.ROOT / "client" / "python" / "README.md", at_least=1)


if __name__ == "__main__":
    unittest.main()
