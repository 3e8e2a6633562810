"""The snippets of the pages on Python run, one after the other, and print what the page says."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "served")]

import snippets
import support
import support_served


class Docs(unittest.TestCase):
    def test_every_snippet(self):
        for page, count in (("python", 14), ("python_tutorial", 7), ("python_howto", 8)):
            with self.subTest(page):
                snippets.check(self, support.ROOT / "docs" / (page + ".md"), count, support_served.serve)

    def test_what_pypi_shows(self):
        snippets.check(self, support.ROOT / "client" / "python" / "README.md", at_least=1)


if __name__ == "__main__":
    unittest.main()
