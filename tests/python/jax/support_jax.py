"""What the tests of kiln.jax share: a server of four devices, and jax, without which they are skipped."""

import os
import pathlib
import sys
import unittest

# jax is the witness here and not what is measured: on a CPU, compiled as quickly as it can.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support  # noqa: E402: of tests/python

try:
    import jax.numpy  # and not this folder, which Python takes for a package where there is no jax
except ImportError:
    jax = None

DEVICES = ["CPU:%d" % n for n in range(4)]


@unittest.skipIf(jax is None, "jax 0.9 and 0.10 want Python 3.11")
class JaxTest(support.ServerTest):
    FLAGS = ("--cpu_devices=4",)
