"""The TypeScript client passes the conformance suite."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import suite


class TypeScript(suite.Suite):
    language = "typescript"


if __name__ == "__main__":
    unittest.main()
