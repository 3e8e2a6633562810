"""Builds kiln/v1, the protocol's messages, from proto/ before anything is packaged.

An sdist has no proto/ beside it and carries kiln/v1 ready made. All else is in
pyproject.toml.
"""

import pathlib
import sys

from setuptools import setup

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import generate  # noqa: E402: it stands beside this file

generate.generate()
setup()
