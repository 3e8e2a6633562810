"""Archives that are the same bytes whoever makes them, and whenever: sorted, of root's, of one time.

Entries are what a package holds: a path, and a file's bytes or where a link points.
"""

import dataclasses
import gzip
import io
import pathlib
import subprocess
import tarfile
import zipfile
from datetime import datetime, timezone
from typing import Iterable, List, Union


@dataclasses.dataclass(frozen=True, order=True)
class Entry:
    """A file of a package, `content`, or a symbolic link where `link` says to, or an empty folder."""

    path: str
    content: Union[bytes, pathlib.Path] = b""
    mode: int = 0o644
    link: str = ""
    folder: bool = False
    owner: int = 0

    def read(self) -> bytes:
        return self.content.read_bytes() if isinstance(self.content, pathlib.Path) else self.content


def under(folder: str, entries: Iterable[Entry]) -> List[Entry]:
    """The same, in a folder."""
    return [dataclasses.replace(entry, path="%s/%s" % (folder, entry.path)) for entry in entries]


def by_path(entries: Iterable[Entry]) -> List[Entry]:
    return sorted(entries, key=lambda entry: entry.path)


def tar(entries: Iterable[Entry], epoch: int, prefix: str = "") -> bytes:
    """An uncompressed tar with the folders that lead to the entries, each before what is in it."""
    entries = by_path(entries)
    folders = {str(folder) for entry in entries for folder in pathlib.PurePosixPath(entry.path).parents} - {"."}
    folders -= {entry.path for entry in entries}
    rows = sorted([(folder, None) for folder in folders] + [(entry.path, entry) for entry in entries], key=lambda row: row[0])
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, entry in rows:
            member = tarfile.TarInfo(prefix + path)
            member.mtime, member.mode, member.uname, member.gname = epoch, 0o755, "root", "root"
            if entry is None or entry.folder:
                member.type = tarfile.DIRTYPE
                if entry is not None:
                    member.mode, member.uid, member.gid = entry.mode, entry.owner, entry.owner
                    member.uname = member.gname = "root" if entry.owner == 0 else ""
                archive.addfile(member)
            elif entry.link:
                member.type, member.linkname, member.mode = tarfile.SYMTYPE, entry.link, 0o777
                archive.addfile(member)
            else:
                data = entry.read()
                member.size, member.mode = len(data), entry.mode
                archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def xz(data: bytes, level: int) -> bytes:
    """Compressed. Blocks of one size, so that the number of threads does not show in the result."""
    command = ["xz", "--compress", "-%d" % level, "--threads=2", "--block-size=24MiB", "--stdout"]
    return subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout


def gzipped(data: bytes, level: int) -> bytes:
    return gzip.compress(data, level, mtime=0)


def ar(members: Iterable[tuple], epoch: int) -> bytes:
    """An archive of (name, bytes), as a .deb is one."""
    out = [b"!<arch>\n"]
    for name, data in members:
        out.append(b"%-16s%-12d%-6d%-6d%-8o%-10d`\n" % (name.encode(), epoch, 0, 0, 0o100644, len(data)))
        out.append(data + b"\n" * (len(data) % 2))
    return b"".join(out)


def zipped(entries: Iterable[Entry], epoch: int, level: int) -> bytes:
    """A zip that keeps who may execute what."""
    when = datetime.fromtimestamp(epoch, timezone.utc).timetuple()[:6]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for entry in entries:
            member = zipfile.ZipInfo(entry.path, when)
            member.compress_type, member.create_system = zipfile.ZIP_DEFLATED, 3
            member.external_attr = (0o100000 | entry.mode) << 16
            archive.writestr(member, entry.read(), compresslevel=level)
    return out.getvalue()
