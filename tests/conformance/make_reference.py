#!/usr/bin/env python3
"""Writes tests/conformance/reference/: what every engine is compared with.

  .venv/bin/python tests/conformance/make_reference.py [--check]

With --check nothing is written; the exit status says whether the files are what
this would write.
"""

import argparse
import pathlib
import sys

import reference_compositions
import reference_float8
import reference_scalars
import reference_tensors

HERE = pathlib.Path(__file__).parent / "reference"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    modules = (reference_float8, reference_scalars, reference_tensors, reference_compositions)
    for module in modules:
        name = module.__name__.removeprefix("reference_") + ".txt"
        content = "\n".join(module.lines()) + "\n"
        path = HERE / name
        if check:
            if not path.exists() or path.read_text() != content:
                stale.append(name)
        else:
            HERE.mkdir(exist_ok=True)
            path.write_text(content)
    if stale:
        sys.exit(f"not what make_reference.py writes: {', '.join(stale)}")


if __name__ == "__main__":
    main()
