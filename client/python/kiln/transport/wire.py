"""The services' calls, read from the protocol's descriptors: no generated stubs.

A call is named as people name it, "KernelService.Execute". For the few calls that
carry much data or come often, encode.py and transfer.py write and read the bytes by
hand; those take raw bytes here, and protobuf never copies the payload.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple, Type

from google.protobuf.message import Message

from kiln.inference import grpc_service_pb2
from kiln.v1 import (
    buffer_service_pb2,
    collective_service_pb2,
    debug_service_pb2,
    device_service_pb2,
    kernel_service_pb2,
    session_service_pb2,
    state_pb2,
)

_MODULES = (kernel_service_pb2, buffer_service_pb2, device_service_pb2, debug_service_pb2, session_service_pb2,
            collective_service_pb2, state_pb2, grpc_service_pb2)  # fmt: skip

# The version of the protocol this library was written for.
PROTOCOL = 1

# A chunk of an upload, in bytes.
CHUNK = 1 << 20

# Arrays of more bytes travel in chunks of their own, not in the message of a call.
INLINE = 4 << 20


class Method(NamedTuple):
    path: str
    request: Type[Message]
    response: Type[Message]
    streams_in: bool
    streams_out: bool


def _methods() -> Dict[str, Method]:
    found = {}
    for module in _MODULES:
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                found["%s.%s" % (service.name, method.name)] = Method(
                    "/%s/%s" % (service.full_name, method.name),
                    getattr(_module_of(method.input_type), method.input_type.name),
                    getattr(_module_of(method.output_type), method.output_type.name),
                    method.client_streaming,
                    method.server_streaming,
                )
    return found


def _module_of(message: Any) -> Any:
    for module in _MODULES:
        if module.DESCRIPTOR.name == message.file.name:
            return module
    raise KeyError(message.full_name)


METHODS = _methods()


def stub(channel: Any, name: str, *, raw_request: bool = False, raw_response: bool = False) -> Callable[..., Any]:
    """A callable for one method of `channel`, a grpc.Channel or grpc.aio.Channel."""
    method = METHODS[name]
    arity = {(False, False): channel.unary_unary, (True, False): channel.stream_unary,
             (False, True): channel.unary_stream, (True, True): channel.stream_stream}  # fmt: skip
    serialize: Optional[Callable[..., bytes]] = None if raw_request else method.request.SerializeToString
    parse = None if raw_response else method.response.FromString
    return arity[method.streams_in, method.streams_out](method.path, request_serializer=serialize,
                                                        response_deserializer=parse)  # fmt: skip


# Inline tensors may be larger than gRPC's 4 MiB; the server has limits of its own.
# A proxy for web pages is no way to a compute server, least of all on loopback.
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    # Room for a few chunks on the way; gRPC's own 64 KiB make a wait of every chunk.
    ("grpc.http2.lookahead_bytes", 8 * CHUNK),
    ("grpc.http2.max_frame_size", CHUNK),
    # A server that comes back is found within seconds, not minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # However often it was asked already whether a silent peer is there (options_of).
    ("grpc.http2.max_pings_without_data", 0),
)

# A connection on which calls wait, and nothing comes for so many seconds, is asked whether it is alive. A server, kilnd
# too, ends one that asks oftener than each 300 with nothing of the server's in between (too_many_pings).
MIN_KEEPALIVE_TIME, MAX_KEEPALIVE_TIME = 20, 310
# Seconds that it has to say so. Where the machine is gone, the kernel ends the connection then; of one that is stopped,
# gRPC from 1.60 on waits for a minute.
KEEPALIVE_TIMEOUT = 10


def options_of(lease: float) -> Tuple[Tuple[str, int], ...]:
    """A channel's. `lease` is that of the session that is renewed on it, 0 without one: it is renewed each third of that,
    and answered, so that one in order is asked nothing."""
    keepalive = min(max(MIN_KEEPALIVE_TIME, lease / 2), MAX_KEEPALIVE_TIME) if lease > 0 else MAX_KEEPALIVE_TIME
    return (*CHANNEL_OPTIONS, ("grpc.keepalive_time_ms", int(keepalive * 1000)),
            ("grpc.keepalive_timeout_ms", int(KEEPALIVE_TIMEOUT * 1000)))  # fmt: skip
