"""The wheel kilnd: both programs and their libraries, and commands that become them.

A wheel is a zip with three files about itself: METADATA, WHEEL and RECORD, which has a hash of every other.
"""

import base64
import hashlib
import pathlib
from typing import List

from archive import Entry, by_path, under, zipped
from symbols import Needs

HERE = pathlib.Path(__file__).resolve().parent

METADATA = """\
Metadata-Version: 2.1
Name: kilnd
Version: {version}
Summary: kilnd, which runs tensor programs for clients over gRPC, and the command line kiln
License: MIT
Requires-Python: >=3.9
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C++
Description-Content-Type: text/markdown

This package brings two programs and all that they load but glibc and libstdc++: `kilnd`, the server, and
`kiln`, its command line. `kiln.local()` of the package kiln-client starts this server.

    kilnd &
    kiln devices

What of others is in it, with licences, is listed in `sbom.spdx.json` and `licences/` of the folder `kilnd`.
"""

ENTRY_POINTS = """\
[console_scripts]
kiln = kilnd:kiln
kilnd = kilnd:kilnd
"""

WHEEL = """\
Wheel-Version: 1.0
Generator: kiln
Root-Is-Purelib: false
Tag: py3-none-{tag}
"""


def name(version: str, needs: Needs) -> str:
    return "kilnd-%s-py3-none-%s.whl" % (version, needs.tag())


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def build(programs: List[Entry], papers: List[Entry], version: str, needs: Needs, epoch: int,
          level: int) -> bytes:  # fmt: skip
    about = "kilnd-%s.dist-info" % version
    entries = under("kilnd", programs + papers)
    entries.append(Entry("kilnd/__init__.py", HERE / "kilnd" / "__init__.py"))
    entries.append(Entry("kilnd/py.typed"))
    entries = by_path(entries)
    entries.append(Entry(about + "/METADATA", METADATA.format(version=version).encode()))
    entries.append(Entry(about + "/WHEEL", WHEEL.format(tag=needs.tag()).encode()))
    entries.append(Entry(about + "/entry_points.txt", ENTRY_POINTS.encode()))
    rows = ["%s,sha256=%s,%d" % (entry.path, _digest(data), len(data)) for entry in entries for data in [entry.read()]]
    entries.append(Entry(about + "/RECORD", ("\n".join(rows) + "\n%s/RECORD,,\n" % about).encode()))
    return zipped(entries, epoch, level)
