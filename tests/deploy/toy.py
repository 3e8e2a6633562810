"""Programs that stand in for kilnd and kiln where packages are made: small, and with one library of others."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EPOCH = "1700000000"

PROGRAM = r"""
#include <stdio.h>
#include <string.h>
#include <zlib.h>
int main(int argc, char** argv) {
  if (argc > 1 && !strcmp(argv[1], "--version")) return puts("kiln-9.8.7") < 0;
  if (argc > 1 && !strcmp(argv[1], "--help")) return puts("A toy.\n.dot\n  --flag C:\\x") < 0;
  return printf("%s %s %s\n", strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0], zlibVersion(), argv[argc - 1]) < 0;
}
"""


def programs(folder):
    """kilnd and kiln, in `folder`."""
    source = folder / "toy.c"
    source.write_text(PROGRAM)
    subprocess.run(["g++", "-x", "c", str(source), "-o", str(folder / "kilnd"), "-lz"], check=True)
    (folder / "kiln").write_bytes((folder / "kilnd").read_bytes())
    (folder / "kiln").chmod(0o755)
    return [folder / "kilnd", folder / "kiln"]


def tree(folder, files):
    subprocess.run([str(ROOT / "deploy" / "tree.sh"), str(folder), *map(str, files)], check=True)


def packages(tree_folder, out, **environment):
    """Makes them, packed as fast as can be: {what a name ends in: path}."""
    subprocess.run([sys.executable, str(ROOT / "deploy/package/package.py"), str(tree_folder), str(out), "--level=0"], check=True,
                   stderr=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH, **environment})  # fmt: skip
    return {ending: next(out.glob("*" + ending)) for ending in (".deb", "-oci.tar", ".whl", ".tar.gz", ".spdx.json", "SHA256SUMS")}
