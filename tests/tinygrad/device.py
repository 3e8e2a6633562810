"""What tests of tinygrad on Kiln share: a kilnd, and tinygrad's default device on it.

A process has one level: a test file names it before it imports anything of tinygrad.
"""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import support


def start(level, *flags):
    """Serves, with `flags`, and imports kiln.tinygrad at `level`; the module."""
    if sys.version_info < (3, 11):
        raise unittest.SkipTest("tinygrad 0.14 wants Python 3.11")
    server = support.Server(*flags)
    unittest.addModuleCleanup(server.stop)
    os.environ.update(KILN_ADDR=server.address, KILN_LEVEL=level, DEV="KILN", PARALLEL="0", CC="clang-22")
    import kiln.tinygrad

    unittest.addModuleCleanup(kiln.tinygrad.client().close)
    return kiln.tinygrad
