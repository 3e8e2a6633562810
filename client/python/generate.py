"""Writes kiln/v1/*_pb2.py from proto/kiln/v1/*.proto.

They are no part of the repository. Only messages are generated: the calls of a
service are read from its descriptor (kiln/transport/wire.py). Nothing is written while the
files are newer than what they are made from.
"""

import pathlib

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"
OUT = HERE / "kiln" / "v1"
INIT = '"""Messages of the protocol; generated from proto/kiln/v1."""\n'


def generate() -> bool:
    """True if files were written."""
    protos = sorted((PROTO / "kiln" / "v1").glob("*.proto"))
    init = OUT / "__init__.py"
    if not protos:
        if not init.is_file():
            raise SystemExit("%s: neither proto/kiln/v1 nor generated messages are here" % HERE)
        return False
    newest = max(path.stat().st_mtime for path in protos + [pathlib.Path(__file__)])
    if init.is_file() and init.stat().st_mtime >= newest:
        return False
    from grpc_tools import protoc  # needed only here

    OUT.mkdir(parents=True, exist_ok=True)
    target = str(HERE)
    arguments = ["protoc", "-I" + str(PROTO), "--python_out=" + target, "--pyi_out=" + target]
    if protoc.main(arguments + [str(path) for path in protos]) != 0:
        raise SystemExit("protoc failed")
    init.write_text(INIT)  # last: its time says that all are there
    return True


if __name__ == "__main__":
    generate()
