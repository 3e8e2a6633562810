"""docs/python_arrays.md: its snippets run and print what it says, and its table is true."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import page
import snippets


class Page(unittest.TestCase):
    def test_every_snippet(self):
        snippets.check(self, page.PAGE, at_least=5)

    def test_the_table_is_true(self):
        self.assertEqual(page.shown(), page.table(), "write it anew: python tests/python/numpy_namespace/page.py")


if __name__ == "__main__":
    unittest.main()
