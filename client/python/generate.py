"""Writes kiln/v1/*_pb2.py and kiln/inference/*_pb2.py, and their types, *_pb2.pyi, from the files of proto/.

They are no part of the repository, and ready made in what is published. A module holds its file's
descriptor and no code of protoc's: client/python/kiln/transport/messages.py says why. So any protoc
will do: that of grpcio-tools or one on PATH. The calls of a service are read from its descriptor
(kiln/transport/wire.py). Nothing is written while the files are newer than what they are made from.

The open inference protocol's messages have names that other libraries give the same messages (Triton's
client does). So they are within kiln, and known to a pool of their own: both may be in one process.
"""

import pathlib
import shutil
import subprocess
import tempfile
from typing import Any, Iterable

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"
# By folder of proto/, the one that has its modules; the last is written last, and its time says that all are there.
FOLDERS = {"inference": HERE / "kiln" / "inference", "kiln/v1": HERE / "kiln" / "v1"}
INIT = '"""Messages of the protocol; generated from proto/%s."""\n'
MODULE = '''"""Messages of proto/{name}; written by client/python/generate.py."""

{imports}from kiln.transport.messages import define

define(globals(), {data!r}, {pool!r})
'''


def _stale() -> "list[pathlib.Path]":
    """What is to be read anew: all, or nothing."""
    protos = [path for name in FOLDERS for path in sorted((PROTO / name).glob("*.proto"))]
    inits = [folder / "__init__.py" for folder in FOLDERS.values()]
    there = all(init.is_file() for init in inits)
    if not protos:
        if not there:
            raise SystemExit("%s: neither proto/kiln/v1 nor generated messages are here" % HERE)
        return []
    newest = max(path.stat().st_mtime for path in protos + [pathlib.Path(__file__)])
    return [] if there and inits[-1].stat().st_mtime >= newest else protos


def wants_protoc() -> bool:
    return bool(_stale()) and shutil.which("protoc") is None


def generate() -> bool:
    """True if files were written."""
    protos = _stale()
    if not protos:
        return False
    from google.protobuf import descriptor_pb2  # needed only here

    for out in FOLDERS.values():
        out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        compiled = folder / "protocol.binpb"
        _protoc(["-I" + str(PROTO), "--descriptor_set_out=%s" % compiled, "--pyi_out=" + str(folder), *map(str, protos)])
        files = descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes())
        types = {file.name: (folder / file.name.replace(".proto", "_pb2.pyi")).read_text() for file in files.file}
    for file in files.file:
        _strip(file.message_type)
        imports = "".join("import %s  # noqa: F401\n" % _module(name) for name in file.dependency)
        pool = "" if file.package == "kiln.v1" else file.package
        text = MODULE.format(name=file.name, imports=imports, data=file.SerializeToString(), pool=pool)
        path = HERE / (_module(file.name).replace(".", "/") + ".py")
        path.write_text(text)
        path.with_suffix(".pyi").write_text(types[file.name].replace("from inference import", "from kiln.inference import"))
    for name, out in FOLDERS.items():
        (out / "__init__.py").write_text(INIT % name)
    return True


def _module(name: str) -> str:
    """Of a file of proto/: within kiln, whatever its folder is called there."""
    module = name[: -len(".proto")].replace("/", ".") + "_pb2"
    return module if module.startswith("kiln.") else "kiln." + module


def _strip(messages: Iterable[Any]) -> None:
    """Without names in JSON, which are the usual ones: as protoc writes it for Python, if somebody has that, too."""
    for message in messages:
        for field in message.field:
            field.ClearField("json_name")
        _strip(message.nested_type)


def _protoc(arguments: "list[str]") -> None:
    try:
        from grpc_tools import protoc

        failed = protoc.main(["protoc", *arguments])
    except ImportError:
        found = shutil.which("protoc")
        if found is None:
            raise SystemExit("no protoc: pip install grpcio-tools, or the system's protobuf-compiler") from None
        failed = subprocess.run([found, *arguments], check=False).returncode
    if failed:
        raise SystemExit("protoc failed")


if __name__ == "__main__":
    generate()
