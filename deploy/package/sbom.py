"""What of others is in a package: a software bill of materials, as SPDX 2.3 in JSON, and everybody's licences.

What dpkg knows of the machine that built it is the source: which package a library is from, its version, and its file
of copyrights. A file's line of the tree's list names the package (deploy/tree.sh).
"""

import hashlib
import json
import pathlib
import re
import subprocess
from datetime import datetime, timezone
from typing import Dict, Iterable, List, Tuple

from archive import Entry

# What is inside the programs, and so no file of the tree: headers, and LLVM's linker.
COMPILED_IN = ("libboost-dev", "libcli11-dev", "liblld-22-dev", "llvm-22-dev", "nlohmann-json3-dev")
# Origin, which few name, is who gave the package out: not everything that dpkg knows is Debian's.
_FIELDS = ("Package", "Version", "Architecture", "source:Package", "source:Version", "Homepage", "Origin")
KILN = "SPDXRef-kiln"
# Debian's files of copyrights point there for texts that many share; a sentence may end behind the name.
_COMMON = pathlib.Path("/usr/share/common-licenses")
_REFERENCE = re.compile(rb"/usr/share/common-licenses/([A-Za-z0-9][A-Za-z0-9.+-]*)")


class Component(dict):
    """A package of Debian's: its fields by name."""

    @property
    def id(self) -> str:
        return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", self["Package"])

    def copyright(self) -> pathlib.Path:
        return pathlib.Path("/usr/share/doc") / self["Package"] / "copyright"


def components(names) -> List[Component]:
    """What dpkg knows of these packages; of one that is not installed, nothing was built with it."""
    asked = "\\t".join("${%s}" % field for field in _FIELDS) + "\\n"
    said = subprocess.run(["dpkg-query", "--show", "--showformat", asked, *sorted(names)], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})  # fmt: skip
    rows = [row.split("\t") for row in said.stdout.decode().splitlines()]
    found = {row[0]: Component(zip(_FIELDS, row)) for row in rows}
    lost = set(names) - set(found) - set(COMPILED_IN)
    if lost:
        raise SystemExit("package: dpkg does not know %s" % ", ".join(sorted(lost)))
    return [found[name] for name in sorted(found)]


def packages_of(tree: pathlib.Path) -> Dict[str, str]:
    """File of the tree -> the Debian package that it is from; empty for what is ours."""
    rows = [line.split(" ") for line in (tree / "packages").read_text().splitlines()]
    return {row[0]: row[1] if len(row) > 1 else "" for row in rows}


def licences(parts: List[Component], own: pathlib.Path) -> List[Entry]:
    """A file for Kiln and each part, and in licences/common the texts that those point to."""
    entries, common = [Entry("licences/kiln", own)], set()
    for part in parts:
        text = _licence(part.copyright())
        entries.append(Entry("licences/" + part["Package"], text))
        common |= {name.decode().rstrip(".") for name in _REFERENCE.findall(text)}
    return entries + [Entry("licences/common/" + name, _licence(_COMMON / name)) for name in sorted(common)]


def _licence(path: pathlib.Path) -> bytes:
    if not path.is_file():
        raise SystemExit("package: %s is not there: what is given away needs its licence" % path)
    return path.read_bytes()


def _names_of_licences(part: Component) -> str:
    """The short names in a machine-readable file of copyrights."""
    text = part.copyright().read_text(errors="replace") if part.copyright().is_file() else ""
    names = sorted({name.strip() for name in re.findall(r"^License: *(\S[^\n]*)$", text, re.M)})
    return "Debian's file of copyrights names: " + "; ".join(names) if names else "see licences/" + part["Package"]


def _package(part: Component) -> dict:
    url = "pkg:deb/debian/%s@%s?arch=%s" % (part["Package"], part["Version"].replace("+", "%2B"), part["Architecture"])
    return {
        "SPDXID": part.id,
        "name": part["Package"],
        "versionInfo": part["Version"],
        "supplier": "Organization: " + part["Origin"] if part["Origin"] else "NOASSERTION",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "homepage": part["Homepage"] or "NOASSERTION",
        "sourceInfo": "built from %s %s" % (part["source:Package"], part["source:Version"]),
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "licenseComments": _names_of_licences(part),
        "copyrightText": "NOASSERTION",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": url}],
    }


def _file(path: str, data: bytes) -> dict:
    sums = [{"algorithm": name, "checksumValue": hashlib.new(name, data).hexdigest()} for name in ("sha1", "sha256")]
    for row in sums:
        row["algorithm"] = row["algorithm"].upper()
    return {"SPDXID": "SPDXRef-File-" + re.sub(r"[^A-Za-z0-9.-]", "-", path.replace("+", "plus")), "fileName": "./" + path,
            "fileTypes": ["BINARY"], "checksums": sums, "licenseConcluded": "NOASSERTION",
            "copyrightText": "NOASSERTION"}  # fmt: skip


def document(rows: Iterable[Tuple[str, str, bytes]], parts: List[Component], version: str, epoch: int) -> bytes:
    """Of (path, its package or nothing, bytes) of each file."""
    files = [(path, package, _file(path, data)) for path, package, data in sorted(rows)]
    ids = {part["Package"]: part.id for part in parts}
    edges = [("SPDXRef-DOCUMENT", "DESCRIBES", KILN)]
    edges += [(KILN, "CONTAINS", row["SPDXID"]) for _, _, row in files]
    edges += [(row["SPDXID"], "GENERATED_FROM", ids[package]) for _, package, row in files if package]
    edges += [(KILN, "STATIC_LINK", ids[name]) for name in COMPILED_IN if name in ids]
    every = hashlib.sha256("".join(row["checksums"][1]["checksumValue"] for _, _, row in files).encode()).hexdigest()
    # As SPDX defines it: of the sums of all files, sorted.
    code = hashlib.sha1("".join(sorted(row["checksums"][0]["checksumValue"] for _, _, row in files)).encode()).hexdigest()
    own = {"SPDXID": KILN, "name": "kiln", "versionInfo": version, "downloadLocation": "NOASSERTION",
           "packageVerificationCode": {"packageVerificationCodeValue": code}, "licenseConcluded": "MIT",
           "licenseDeclared": "MIT", "copyrightText": "NOASSERTION"}  # fmt: skip
    made = datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return (json.dumps({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": "kiln-%s" % version,
        "documentNamespace": "https://spdx.org/spdxdocs/kiln-%s-%s" % (version, every[:32]),
        "creationInfo": {"created": made, "creators": ["Tool: kiln-package"]},
        "packages": [own] + [_package(part) for part in parts],
        "files": [row for _, _, row in files],
        "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b} for a, kind, b in edges],
    }, indent=1) + "\n").encode()  # fmt: skip
