"""What programs and libraries ask of the machine they run on: versions of glibc's and libstdc++'s symbols.

The newest symbol that any of them needs decides where they start, so the promise of a package (a wheel's tag, what a
.deb depends on) is read from them, and not written down.
"""

import dataclasses
import pathlib
import re
import subprocess
from typing import Iterable, Tuple

Version = Tuple[int, ...]

# libstdc++ -> the GCC that brought it, and the least glibc of a system that has it (PEP 600 promises that much).
LIBSTDCXX = {(3, 4, 28): (9, (2, 31)), (3, 4, 29): (11, (2, 34)), (3, 4, 30): (12, (2, 35)), (3, 4, 31): (13, (2, 38)),
             (3, 4, 32): (13, (2, 39)), (3, 4, 33): (14, (2, 39))}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Needs:
    glibc: Version
    libstdcxx: Version

    def gcc(self) -> int:
        """The GCC whose libstdc++ has all of it."""
        return self._row()[0]

    def tag(self) -> str:
        """A wheel's platform: the least glibc of systems where both are there."""
        return "manylinux_%d_%d_x86_64" % max(self.glibc[:2], self._row()[1])

    def _row(self):
        rows = [row for version, row in sorted(LIBSTDCXX.items()) if version >= self.libstdcxx]
        if not rows:
            raise SystemExit("package: GLIBCXX_%s is newer than symbols.py knows: add its row to LIBSTDCXX"
                             % ".".join(map(str, self.libstdcxx)))  # fmt: skip
        return rows[0]


def needs(files: Iterable[pathlib.Path]) -> Needs:
    newest = {"GLIBC": (2, 17), "GLIBCXX": (3, 4, 28)}
    for file in files:
        said = subprocess.run(["readelf", "--version-info", "--wide", str(file)], stdout=subprocess.PIPE, check=True)
        # What a library has itself stands before that section.
        wanted = said.stdout.decode().partition("Version needs section")[2]
        for kind, digits in re.findall(r"Name: (GLIBC|GLIBCXX)_([\d.]+)\s", wanted):
            newest[kind] = max(newest[kind], tuple(map(int, digits.split("."))))
    return Needs(newest["GLIBC"], newest["GLIBCXX"])
