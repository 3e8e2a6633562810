"""The .deb: programs in /usr/lib/kiln, links in /usr/bin, a unit, a configuration file, pages of the manual.

A .deb is an ar of three files: its format's number, a tar about the package, and a tar of its files. It brings its own
gRPC, LLVM and the rest, in a folder of its own, so one .deb is for every Debian and Ubuntu that is new enough, and
depends on nothing but the C and C++ libraries.
"""

import hashlib
import pathlib
from typing import List

import man
from archive import Entry, ar, tar, under, xz
from symbols import Needs

HERE = pathlib.Path(__file__).resolve().parent
DEPLOY = HERE.parent

CONTROL = """\
Package: kiln
Version: {version}
Architecture: amd64
Maintainer: The Kiln developers <kiln@localhost>
Installed-Size: {kilobytes}
Depends: libc6 (>= {glibc}), libgcc-s1, libstdc++6 (>= {gcc})
Section: science
Priority: optional
Description: server that runs tensor programs for clients over gRPC
 kilnd compiles UOp graphs that clients send, keeps their data on CPUs and GPUs,
 and runs them; kiln is its command line.
"""

CONFIGURATION = "etc/kiln/kilnd.txtpb"


def name(version: str) -> str:
    return "kiln_%s_amd64.deb" % version


def files(programs: List[Entry], papers: List[Entry], tree: pathlib.Path) -> List[Entry]:
    """All that it installs."""
    links = [Entry("usr/bin/" + program, link="../lib/kiln/bin/" + program) for program in ("kilnd", "kiln")]
    pages = [Entry("usr/share/man/man8/kilnd.8.gz", man.page("kilnd", str(tree / "bin/kilnd"), 8, "run tensor programs")),
             Entry("usr/share/man/man1/kiln.1.gz", man.page("kiln", str(tree / "bin/kiln"), 1, "talk to kilnd"))]  # fmt: skip
    return links + pages + under("usr/lib/kiln", programs) + under("usr/share/doc/kiln", papers) + [
        Entry(CONFIGURATION, DEPLOY / "config" / "kilnd.txtpb"),
        Entry("usr/share/doc/kiln/examples/haproxy.cfg", DEPLOY / "haproxy.cfg"),
        Entry("usr/lib/systemd/system/kilnd.service", DEPLOY / "systemd" / "kilnd.service"),
        Entry("usr/lib/sysusers.d/kiln.conf", DEPLOY / "systemd" / "kiln.sysusers"),
    ]


def build(programs: List[Entry], papers: List[Entry], tree: pathlib.Path, version: str, needs: Needs, epoch: int,
          level: int) -> bytes:  # fmt: skip
    installed = files(programs, papers, tree)
    data = [(entry, entry.read()) for entry in installed if not entry.link]
    control = CONTROL.format(version=version, kilobytes=sum(len(bytes) for _, bytes in data) // 1024 + 1,
                             glibc=".".join(map(str, needs.glibc)), gcc=needs.gcc())  # fmt: skip
    sums = "".join("%s  %s\n" % (hashlib.md5(bytes).hexdigest(), entry.path) for entry, bytes in data)
    about = [Entry("control", control.encode()), Entry("md5sums", sums.encode()),
             Entry("conffiles", ("/%s\n" % CONFIGURATION).encode())]  # fmt: skip
    about += [Entry(script, HERE / "debian" / script, 0o755) for script in ("postinst", "prerm", "postrm")]
    return ar([("debian-binary", b"2.0\n"),
               ("control.tar.xz", xz(tar(about, epoch, "./"), level)),
               ("data.tar.xz", xz(tar(installed, epoch, "./"), level))], epoch)  # fmt: skip
