"""Classes of the protocol's messages, made from their descriptors when kiln.v1 is imported.

A descriptor is the .proto file as data. It is read by every version of protobuf's runtime, while
code that protoc writes is for the runtimes of its own time and refuses others. So what is generated
(client/python/generate.py) is descriptors, and this does the rest by protobuf's public functions.
"""

from __future__ import annotations

from typing import Any, Dict

from google.protobuf import descriptor_pool, message_factory, symbol_database
from google.protobuf.internal import enum_type_wrapper

# Of messages whose names other libraries may give to messages of theirs.
_pools: Dict[str, Any] = {"": descriptor_pool.Default()}


def define(module: Dict[str, Any], file: bytes, pool: str = "") -> None:
    """Gives a module, by its globals(), what a serialized FileDescriptorProto names: as protoc's modules have it.

    `pool` names another pool than that of the process, which all that libraries define has to share.
    """
    if pool not in _pools:
        _pools[pool] = descriptor_pool.DescriptorPool()
    found = _pools[pool].AddSerializedFile(file)
    module["DESCRIPTOR"] = found
    for name, enum in found.enum_types_by_name.items():
        module[name] = enum_type_wrapper.EnumTypeWrapper(enum)
        module.update((value.name, value.number) for value in enum.values)
    for name, message in found.message_types_by_name.items():
        module[name] = _class(message, module["__name__"], not pool)


def _class(message: Any, module: str, known: bool) -> Any:
    made = message_factory.GetMessageClass(message)
    made.__module__ = module
    if known:
        symbol_database.Default().RegisterMessage(made)  # where pickle finds it
    for name, inner in message.nested_types_by_name.items():
        kind = _class(inner, module, known)
        if not hasattr(made, name):  # as in protobuf's implementation in Python
            setattr(made, name, kind)
    return made
