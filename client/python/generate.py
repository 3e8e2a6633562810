"""Writes kiln/v1/*_pb2.py and their types, *_pb2.pyi, from proto/kiln/v1/*.proto.

They are no part of the repository, and ready made in what is published. A module holds its file's
descriptor and no code of protoc's: client/python/kiln/transport/messages.py says why. So any protoc
will do: that of grpcio-tools or one on PATH. The calls of a service are read from its descriptor
(kiln/transport/wire.py). Nothing is written while the files are newer than what they are made from.
"""

import pathlib
import shutil
import subprocess
import tempfile
from typing import Any, Iterable

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"
OUT = HERE / "kiln" / "v1"
INIT = '"""Messages of the protocol; generated from proto/kiln/v1."""\n'
MODULE = '''"""Messages of proto/{name}; written by client/python/generate.py."""

{imports}from kiln.transport.messages import define

define(globals(), {data!r})
'''


def _stale() -> "list[pathlib.Path]":
    """What is to be read anew: all, or nothing."""
    protos = sorted((PROTO / "kiln" / "v1").glob("*.proto"))
    init = OUT / "__init__.py"
    if not protos:
        if not init.is_file():
            raise SystemExit("%s: neither proto/kiln/v1 nor generated messages are here" % HERE)
        return []
    newest = max(path.stat().st_mtime for path in protos + [pathlib.Path(__file__)])
    return [] if init.is_file() and init.stat().st_mtime >= newest else protos


def wants_protoc() -> bool:
    return bool(_stale()) and shutil.which("protoc") is None


def generate() -> bool:
    """True if files were written."""
    protos = _stale()
    if not protos:
        return False
    from google.protobuf import descriptor_pb2  # needed only here

    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        compiled = pathlib.Path(folder) / "protocol.binpb"
        _protoc(["-I" + str(PROTO), "--descriptor_set_out=%s" % compiled, "--pyi_out=" + str(HERE), *map(str, protos)])
        files = descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes())
    for file in files.file:
        _strip(file.message_type)
        imports = "".join("import %s  # noqa: F401\n" % _module(name) for name in file.dependency)
        text = MODULE.format(name=file.name, imports=imports, data=file.SerializeToString())
        (HERE / (_module(file.name).replace(".", "/") + ".py")).write_text(text)
    (OUT / "__init__.py").write_text(INIT)  # last: its time says that all are there
    return True


def _module(name: str) -> str:
    return name[: -len(".proto")].replace("/", ".") + "_pb2"


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
