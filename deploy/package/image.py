"""An OCI image of a tree, as an archive that skopeo, podman and containerd read: one layer, made of files and nothing else.

There is no base image: beside the tree it has the C and C++ libraries of the machine that builds it, certificates of
those who sign servers on the Internet (Debian's ca-certificates), and a user. No shell, no package manager.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
from datetime import datetime, timezone
from typing import Dict, List, Tuple

import sbom
from archive import Entry, gzipped, tar, under

USER = 65532
LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = "ld-linux-x86-64.so.2"
# What drivers of GPUs load, though our programs do not.
FOR_DRIVERS = ("libdl.so.2", "libpthread.so.0", "librt.so.1")
CERTIFICATES = pathlib.Path("/usr/share/ca-certificates/mozilla")


def name(version: str) -> str:
    return "kiln-%s-oci.tar" % version


def _of_the_host(tree: pathlib.Path) -> Dict[str, pathlib.Path]:
    """Library -> its file here: of what the programs load and the tree has not."""
    said = subprocess.run(["ldd", *map(str, sorted((tree / "bin").iterdir()))], stdout=subprocess.PIPE, check=True).stdout.decode()
    found = {library: pathlib.Path(path) for library, path in re.findall(r"^\t(\S+) => (/\S+) ", said, re.M)
             if not path.startswith(str(tree.resolve()))}  # fmt: skip
    beside = found["libc.so.6"].parent
    found.update({library: beside / library for library in (LOADER, *FOR_DRIVERS)})
    return found


def _package_of(file: pathlib.Path) -> str:
    """dpkg may know it with /usr, or without."""
    for path in (str(file.resolve()), str(file.resolve()).replace("/usr/lib", "/lib", 1)):
        said = subprocess.run(["dpkg-query", "--search", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if said.returncode == 0:
            return said.stdout.decode().split(":")[0]
    raise SystemExit("package: %s is of no Debian package" % file)


def _certificates() -> bytes:
    """The package's own: /etc/ssl has what this machine trusts besides."""
    found = sorted(CERTIFICATES.glob("*.crt"))
    if not found:
        raise SystemExit("package: %s is empty: install ca-certificates" % CERTIFICATES)
    return b"".join(path.read_bytes() for path in found)


def _system() -> List[Entry]:
    users = "root:x:0:0:root:/:/none\nkiln:x:%d:%d:Kiln:/tmp:/none\n" % (USER, USER)
    return [
        Entry("etc/passwd", users.encode()),
        Entry("etc/group", b"root:x:0:\nkiln:x:%d:\n" % USER),
        Entry("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n"),
        Entry("etc/ssl/certs/ca-certificates.crt", _certificates()),
        Entry("usr/lib64/" + LOADER, link="../lib/x86_64-linux-gnu/" + LOADER),
        Entry("lib", link="usr/lib"),
        Entry("lib64", link="usr/lib64"),
        Entry("usr/bin/kilnd", link="../lib/kiln/bin/kilnd"),
        Entry("usr/bin/kiln", link="../lib/kiln/bin/kiln"),
        # Where something is mounted, if anything is written there.
        Entry("tmp", mode=0o1777, folder=True),
        Entry("var/cache/kiln", mode=0o755, folder=True, owner=USER),
        Entry("etc/kiln", folder=True, mode=0o755),
    ]


def _blob(blobs: Dict[str, bytes], kind: str, data: bytes) -> dict:
    digest = hashlib.sha256(data).hexdigest()
    blobs["blobs/sha256/" + digest] = data
    return {"mediaType": "application/vnd.oci.image.%s" % kind, "digest": "sha256:" + digest, "size": len(data)}


def _config(layer: bytes, version: str, epoch: int) -> Tuple[dict, str]:
    made = datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {"title": "kiln", "description": "kilnd, which runs tensor programs for clients over gRPC", "version": version,
              "licenses": "MIT", "created": made, "revision": os.environ.get("KILN_REVISION", "")}  # fmt: skip
    return {
        "created": made,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": "%d:%d" % (USER, USER),
            "Entrypoint": ["/usr/bin/kilnd"],
            "Env": ["PATH=/usr/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
            "WorkingDir": "/tmp",
            "ExposedPorts": {"7437/tcp": {}},
            "StopSignal": "SIGTERM",
            "Labels": {"org.opencontainers.image." + key: value for key, value in labels.items() if value},
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        "history": [{"created": made, "created_by": "deploy/package/image.py"}],
    }, made


def build(programs: List[Entry], tree: pathlib.Path, own: pathlib.Path, example: Entry, version: str, epoch: int,
          level: int) -> bytes:  # fmt: skip
    host = _of_the_host(tree)
    owners = {LIBRARIES + "/" + library: _package_of(path) for library, path in host.items()}
    owners.update({"usr/lib/kiln/" + path: package for path, package in sbom.packages_of(tree).items()})
    libraries = [Entry(LIBRARIES + "/" + library, path.resolve(), 0o755) for library, path in host.items()]
    files = under("usr/lib/kiln", programs) + libraries
    parts = sbom.components(set(owners.values()) - {""} | {"ca-certificates"} | set(sbom.COMPILED_IN))
    listed = sbom.document([(entry.path, owners[entry.path], entry.read()) for entry in files], parts, version, epoch)
    papers = [Entry("sbom.spdx.json", listed), example, *sbom.licences(parts, own)]

    layer = tar(files + under("usr/share/doc/kiln", papers) + _system(), epoch)
    blobs: Dict[str, bytes] = {}
    config, made = _config(layer, version, epoch)
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _blob(blobs, "config.v1+json", json.dumps(config, sort_keys=True).encode()),
        "layers": [_blob(blobs, "layer.v1.tar+gzip", gzipped(layer, level))],
    }
    described = _blob(blobs, "manifest.v1+json", json.dumps(manifest, sort_keys=True).encode())
    described["annotations"] = {"org.opencontainers.image.ref.name": version, "org.opencontainers.image.created": made}
    described["platform"] = {"architecture": "amd64", "os": "linux"}
    index = {"schemaVersion": 2, "manifests": [described]}
    blobs["index.json"] = json.dumps(index, sort_keys=True).encode()
    blobs["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    return tar([Entry(path, data) for path, data in blobs.items()], epoch)
