"""The Rust client passes the conformance suite and its own tests, reads as Rust should, and its example learns digits."""

import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import languages
import suite


class Rust(suite.Suite):
    language = "rust"


if __name__ == "__main__":
    unittest.main()
