"""The Java client passes the conformance suite."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import suite


class Java(suite.Suite):
    language = "java"


if __name__ == "__main__":
    unittest.main()
