"""The snippets of docs/tinygrad.md run, one after the other, and print what the page says."""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import snippets
import support


class Docs(unittest.TestCase):
    @unittest.skipIf(sys.version_info < (3, 11), "tinygrad 0.14 wants Python 3.11")
    def test_every_snippet(self):
        os.environ.update(PARALLEL="0", PYTHONPATH=str(support.PACKAGE))
        snippets.check(self, support.ROOT / "docs" / "tinygrad.md", at_least=6)


if __name__ == "__main__":
    unittest.main()
