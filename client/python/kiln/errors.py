"""Failures, as exceptions.

Every failure is a KilnError. One that the server found has the stable `code` of
proto/kiln/v1/error.proto, and where they apply the node, the limit and the numbers
of its ErrorDetail, which travels among the details of the gRPC status; one that this
library found has a code of the same list where there is one. Programs read `code`
and the class; `str(error)` and `remedy` are for people.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Type

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from kiln.v1 import error_pb2


class KilnError(Exception):
    """A call that failed.

    Attributes, each None where it does not apply:
      code           name of the protocol's ErrorCode, such as "SHAPE_MISMATCH"
      status         grpc.StatusCode
      message        what was wrong
      remedy         what would be right
      node, op, tag  the node at fault: its index in the graph as sent, its op, its tag
      slot, field, handle     the argument, field or handle at fault
      limit, limit_value, used   the limit that was met
      retry_after    seconds after which trying again makes sense
      command        in a stream: which command went wrong first (tag is then its tag)
      own            whether that is the call that raises it, and no command before it
      detail         the whole kiln.v1.ErrorDetail
    """

    status: Optional[grpc.StatusCode] = None
    default_code: Optional[str] = None
    command: Optional[int] = None
    own = True

    def __init__(self, message: str, *, remedy: str = "", code: Optional[str] = None,
                 detail: Optional[error_pb2.ErrorDetail] = None, status: Optional[grpc.StatusCode] = None):
        self.message = message
        self.detail = detail
        self.status = status or type(self).status
        if code is None and detail is not None and detail.code:
            code = code_name(detail.code)
        self.code = code or type(self).default_code
        self.remedy = remedy or REMEDIES.get(self.code or "", "")
        said = detail or error_pb2.ErrorDetail()
        self.node: Optional[int] = said.node if said.HasField("node") else None
        self.slot: Optional[int] = said.slot if said.HasField("slot") else None
        self.op: Optional[str] = said.op or None
        self.tag: Optional[str] = said.tag or None
        self.field: Optional[str] = said.field or None
        self.handle: Optional[int] = said.handle or None
        self.limit: Optional[str] = said.limit or None
        self.limit_value: Optional[int] = said.limit_value if said.limit else None
        self.used: Optional[int] = said.used if said.limit else None
        self.retry_after: Optional[float] = said.retry_after_ms / 1000 if said.retry_after_ms else None
        super().__init__(message)

    def __str__(self) -> str:
        parts = [self.message]
        if self.remedy and self.remedy not in self.message:
            parts.append("(%s)" % self.remedy)
        return ("%s: " % self.code if self.code else "") + " ".join(parts)


class InvalidArgument(KilnError, ValueError):
    """A graph, a shape or an argument that cannot be right."""

    status = grpc.StatusCode.INVALID_ARGUMENT


class GraphError(InvalidArgument):
    """A mistake that the graph builder found before anything was sent."""


class ShapeError(GraphError):
    """A shape that does not fit."""

    default_code = "SHAPE_MISMATCH"


class PlaceError(ShapeError, IndexError):
    """An index that is in no array of this shape: numpy's IndexError."""


class DTypeError(GraphError, TypeError):
    """Dtypes that do not go together, or that a function does not take."""

    default_code = "DTYPE_MISMATCH"


class UnsupportedDType(DTypeError):
    """A dtype that numpy has and Kiln has not, or the other way round."""


class NotFound(KilnError, LookupError):
    """A handle, a device or a program that is not there."""

    status = grpc.StatusCode.NOT_FOUND


class OutOfRange(KilnError, IndexError):
    """Bytes outside a buffer."""

    status = grpc.StatusCode.OUT_OF_RANGE
    default_code = "OUT_OF_BOUNDS"


class BufferFreed(NotFound):
    """A Buffer that was used after it was freed."""

    default_code = "UNKNOWN_HANDLE"


class ResourceExhausted(KilnError, MemoryError):
    """A limit was met: memory, nodes, a quota. `limit`, `limit_value` and `used` say which."""

    status = grpc.StatusCode.RESOURCE_EXHAUSTED


class DeadlineExceeded(KilnError, TimeoutError):
    """The call took longer than its timeout."""

    status = grpc.StatusCode.DEADLINE_EXCEEDED


class Unimplemented(KilnError, NotImplementedError):
    """The server does not serve this RPC, or has no such op."""

    status = grpc.StatusCode.UNIMPLEMENTED


class PermissionDenied(KilnError, PermissionError):
    """Known, and not permitted."""

    status = grpc.StatusCode.PERMISSION_DENIED


class Unauthenticated(KilnError, PermissionError):
    """The token is missing or wrong."""

    status = grpc.StatusCode.UNAUTHENTICATED


class FailedPrecondition(KilnError):
    status = grpc.StatusCode.FAILED_PRECONDITION


class WrongVersion(FailedPrecondition):
    """The server speaks no version of the protocol that this library speaks."""


class Unavailable(KilnError, ConnectionError):
    """The server cannot answer now; it says so itself."""

    status = grpc.StatusCode.UNAVAILABLE
    gone = False  # nobody is at its address any more


class NoServer(Unavailable):
    """Nothing answers at the address."""


class ConnectionLost(Unavailable):
    """The connection ended in the middle of a call: whether it had an effect is not known."""


class Cancelled(KilnError):
    status = grpc.StatusCode.CANCELLED


class Internal(KilnError):
    """A fault of the server."""

    status = grpc.StatusCode.INTERNAL


REMEDIES: Dict[str, str] = {
    "UNKNOWN_OP": "compare kiln.v1.Op of client and server",
    "UNSUPPORTED_OP": "docs/ops.md lists how each op may be used",
    "GRAPH_TOO_LARGE": "send it in several programs",
    "NEED_GRAPH": "send the graph once, with the same hash",
    "MISSING_ARGUMENT": "program.signature lists the arguments",
    "UNKNOWN_ARGUMENT": "program.signature lists the arguments",
    "BUFFER_SIZE_MISMATCH": "program.signature says which shape each argument has",
    "BUFFER_DTYPE_MISMATCH": "program.signature says which dtype each argument has",
    "BUFFER_DEVICE_MISMATCH": "copy it to the device where it is used",
    "UNKNOWN_HANDLE": "it was freed, its session ended, or it is of another server",
    "UNKNOWN_DEVICE": "client.devices() lists them",
    "OUT_OF_MEMORY": "free buffers that are no longer needed; of compilations, try again when others have ended",
    "SHUTTING_DOWN": "try again, or give connect() other servers, too: \"a:7437,b:7437\"",
    "WRONG_SERVER": "connect to that server itself, or have the balancer keep a connection at one server (docs/balancers.md)",
    "BAD_SHARED_MEMORY": "kiln.transport.shared_memory makes it as it must be",
    "INTERNAL_FAULT": "this is the server's fault: report it with the graph",
    "COMPILER_FAULT": "this is the server's fault, and the graph's alone: report it with the graph",
    "EXECUTOR_LOST": "report the graph if it is its program that crashes; the next call finds a new process",
    "NOT_IMPLEMENTED": "client.features lists what the server can do",
}

BY_STATUS: Dict[grpc.StatusCode, Type[KilnError]] = {
    kind.status: kind
    for kind in (InvalidArgument, NotFound, OutOfRange, ResourceExhausted, DeadlineExceeded, Unimplemented,
                 PermissionDenied, Unauthenticated, FailedPrecondition, Unavailable, Cancelled, Internal)
}  # fmt: skip


def code_name(number: int) -> str:
    """The name of an ErrorCode; its number as text if a newer server sends one we do not know."""
    try:
        return error_pb2.ErrorCode.Name(number)
    except ValueError:
        return str(number)


def _status_message() -> Any:
    """google.rpc.Status in a pool of its own, beside whatever other packages have registered."""
    file = descriptor_pb2.FileDescriptorProto(name="kiln_status.proto", package="kiln_status", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    detail = file.message_type.add(name="Any")
    detail.field.add(name="type_url", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    detail.field.add(name="value", number=2, type=field.TYPE_BYTES, label=field.LABEL_OPTIONAL)
    status = file.message_type.add(name="Status")
    status.field.add(name="code", number=1, type=field.TYPE_INT32, label=field.LABEL_OPTIONAL)
    status.field.add(name="message", number=2, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    status.field.add(name="details", number=3, type=field.TYPE_MESSAGE, label=field.LABEL_REPEATED,
                     type_name=".kiln_status.Any")  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("kiln_status.Status"))


_Status = _status_message()
_DETAIL_URL = "type.googleapis.com/kiln.v1.ErrorDetail"


def detail_of(trailers: Any) -> Optional[error_pb2.ErrorDetail]:
    """The ErrorDetail among a failed call's trailing metadata, or None."""
    for key, value in trailers or ():
        if key == "grpc-status-details-bin":
            try:
                return _detail_in(_Status.FromString(value))
            except Exception:  # not ours: the status itself still says what failed
                return None
    return None


def _detail_in(status: Any) -> Optional[error_pb2.ErrorDetail]:
    for packed in status.details:
        if packed.type_url == _DETAIL_URL:
            try:
                return error_pb2.ErrorDetail.FromString(packed.value)
            except DecodeError:  # the status itself still says what failed
                return None
    return None


_CODES = {code.value[0]: code for code in grpc.StatusCode}


def from_status(data: bytes, tag: str = "", command: Optional[int] = None) -> KilnError:
    """The exception for a serialized google.rpc.Status.

    Of a stream's command that failed, `tag` and `command` are those of its first cause.
    """
    try:
        status = _Status.FromString(data)
    except DecodeError:
        status = _Status(code=grpc.StatusCode.INTERNAL.value[0], message="the server sent a failure that cannot be read")
    code = _CODES.get(status.code, grpc.StatusCode.UNKNOWN)
    error = BY_STATUS.get(code, KilnError)(status.message, detail=_detail_in(status), status=code)
    error.command, error.tag = command, tag or error.tag
    return error


def from_rpc(error: Any, target: str) -> KilnError:
    """The exception for a grpc.RpcError (or its aio kin) of a call to `target`."""
    status = error.code()
    text = error.details() or ""
    detail = detail_of(error.trailing_metadata())
    if detail is None and status == grpc.StatusCode.UNAVAILABLE:
        if "failed to connect" in text.lower() or "dns resolution failed" in text.lower():
            return NoServer("no server answers at %s: %s" % (target, text), remedy="is kilnd running there?")
        return ConnectionLost("the connection to %s was lost: %s" % (target, text),
                              remedy="is kilnd running there? If so, connect again; what was in its memory may be gone")  # fmt: skip
    remedy = ""
    if status == grpc.StatusCode.UNAUTHENTICATED:
        remedy = "pass the right token to connect()"
    kind = BY_STATUS.get(status, KilnError)
    return kind(text or str(status), detail=detail, status=status, remedy=remedy)
