"""What docs/upgrading.md promises of names and numbers: every field, enum value and RPC of kiln.v1 that a release has had
is there, with its number and type. tests/tidy/compatible.txt is what there has been.

With --write it takes up what is new; what is gone from the .proto files stays in it."""

import pathlib
import re
import subprocess
import sys
import unittest

import tidy_test as tidy
from google.protobuf import descriptor_pb2

GOLDEN = "tests/tidy/compatible.txt"
# What clients and operators have: not what a server says to its own processes, or writes into its own folders.
FILES = ("buffer_service", "collective_service", "config", "debug_service", "device_service", "dtype", "error", "executable",
         "graph", "kernel_service", "session_service", "state", "target", "tenants", "tensor")  # fmt: skip
TYPES = {number: name[len("TYPE_") :].lower() for name, number in descriptor_pb2.FieldDescriptorProto.Type.items()}


def fields(scope, message):
    """A row for a message and each in it: its name, then number:name:type of every field."""
    name = scope + message.name
    maps = {name + "." + nested.name for nested in message.nested_type if nested.options.map_entry}
    row = []
    for field in sorted(message.field, key=lambda field: field.number):
        of = field.type_name.removeprefix(".kiln.v1.") or TYPES[field.type]
        many = "map " if of in maps else "repeated " if field.label == field.LABEL_REPEATED else ""
        row.append("%d %s %s%s" % (field.number, field.name, many, of))
    rows = {"message " + name: row}
    for nested in message.nested_type:
        rows.update(fields(name + ".", nested))
    for nested in message.enum_type:
        rows.update(values(name + ".", nested))
    return rows


def values(scope, enum):
    return {"enum " + scope + enum.name: ["%d %s" % (value.number, value.name) for value in enum.value]}


def present():
    names = ["kiln/v1/%s.proto" % name for name in FILES]
    made = subprocess.run(["protoc", "-Iproto", "--descriptor_set_out=/dev/stdout", *names], cwd=tidy.ROOT,
                          stdout=subprocess.PIPE, check=True).stdout  # fmt: skip
    rows = {}
    for file in descriptor_pb2.FileDescriptorSet.FromString(made).file:
        for message in file.message_type:
            rows.update(fields("", message))
        for enum in file.enum_type:
            rows.update(values("", enum))
        for service in file.service:
            rows["service " + service.name] = [
                "%s %s%s %s%s" % (rpc.name, "stream " * rpc.client_streaming, rpc.input_type.split(".")[-1],
                                  "stream " * rpc.server_streaming, rpc.output_type.split(".")[-1])
                for rpc in service.method]  # fmt: skip
    return rows


def golden():
    rows, row = {}, None
    for line in tidy.text(GOLDEN).splitlines():
        if line.startswith("  "):
            row.append(line[2:])
        else:
            row = rows.setdefault(line, [])
    return rows


def write():
    try:
        rows = golden()
    except FileNotFoundError:
        rows = {}
    for name, row in present().items():
        known = rows.setdefault(name, [])
        known.extend(each for each in row if each not in known)
    for name, row in rows.items():
        row.sort(key=lambda each: (not each[0].isdigit(), int(re.match(r"\d*", each).group() or 0), each))
    text = "".join("%s\n%s" % (name, "".join("  %s\n" % each for each in row)) for name, row in sorted(rows.items()))
    pathlib.Path(tidy.ROOT, GOLDEN).write_text(text)


class Compatible(unittest.TestCase):
    def test_what_there_was_is_there(self):
        rows = present()
        for name, row in golden().items():
            with self.subTest(name):
                gone = [each for each in row if each not in rows.get(name, [])]
                self.assertFalse(gone, "a client or a file of an earlier release says this; give what is new another number")

    def test_what_is_new_is_in_the_list(self):
        known = golden()
        for name, row in present().items():
            with self.subTest(name):
                new = [each for each in row if each not in known.get(name, [])]
                self.assertFalse(new, "./dev bless takes them up, for good")

    def test_a_change_is_seen(self):
        """Of a field whose number another has now, both rows tell."""
        self.assertIn("1 listen string", golden()["message ServerConfig"])
        self.assertIn("Execute ExecuteRequest ExecuteResponse", golden()["service KernelService"])
        self.assertGreater(sum(map(len, golden().values())), 700)


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
    else:
        unittest.main()
