"""package.py TREE OUT: from a tree of programs and libraries (deploy/tree.sh), what others install: a .deb, a wheel, a
tarball and an image, with a list of what is in them and checksums. `./dev package` calls it.

The same tree gives the same bytes: SOURCE_DATE_EPOCH is the time of everything, files are sorted and root's.
"""

import argparse
import hashlib
import os
import pathlib
import subprocess
import sys

import deb
import image
import sbom
import symbols
import wheel
from archive import Entry, gzipped, tar, under

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def version_of(kilnd: pathlib.Path) -> str:
    said = subprocess.run([str(kilnd), "--version"], stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    return said.rpartition("-")[2]


def write(path: pathlib.Path, data: bytes) -> None:
    path.write_bytes(data)
    print("package: %s, %.1f MB" % (path.name, len(data) / 1e6), file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--level", type=int, default=6, help="how hard to pack, 0 to 9 (6)")
    words = parser.parse_args()
    tree, out, epoch = words.tree, words.out, int(os.environ["SOURCE_DATE_EPOCH"])
    out.mkdir(parents=True, exist_ok=True)

    owners = sbom.packages_of(tree)
    version = version_of(tree / "bin" / "kilnd")
    programs = [Entry(path, tree / path, 0o755 if path.startswith("bin/") else 0o644) for path in sorted(owners)]
    needs = symbols.needs(tree / path for path in owners)

    # Whose code it is.
    parts = sbom.components(set(owners.values()) - {""} | set(sbom.COMPILED_IN))
    listed = sbom.document([(path, owner, (tree / path).read_bytes()) for path, owner in owners.items()], parts, version, epoch)
    example = Entry("add.uop", HERE / "add.uop")
    papers = [Entry("sbom.spdx.json", listed), example, *sbom.licences(parts, ROOT / "LICENSE")]

    write(out / ("kiln-%s.spdx.json" % version), listed)
    write(out / wheel.name(version, needs), wheel.build(programs, papers, version, needs, epoch, words.level))
    write(out / deb.name(version), deb.build(programs, papers, tree, version, needs, epoch, words.level))
    services = [Entry("kilnd.service", ROOT / "deploy/systemd/kilnd.service"),
                Entry("kilnd.txtpb", ROOT / "deploy/config/kilnd.txtpb"),
                Entry("haproxy.cfg", ROOT / "deploy/haproxy.cfg")]  # fmt: skip
    folder = "kiln-%s" % version
    write(out / image.name(version), image.build(programs, tree, ROOT / "LICENSE", example, version, epoch, words.level))
    # By gzip, as a small root has no xz.
    write(out / (folder + "-linux-x86_64.tar.gz"), gzipped(tar(under(folder, programs + papers + services), epoch), words.level))

    sums = ["%s  %s\n" % (hashlib.sha256(path.read_bytes()).hexdigest(), path.name) for path in sorted(out.iterdir())
            if path.name != "SHA256SUMS"]  # fmt: skip
    (out / "SHA256SUMS").write_text("".join(sums))


if __name__ == "__main__":
    main()
