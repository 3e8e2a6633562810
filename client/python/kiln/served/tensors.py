"""Requests of the open inference protocol and their answers, as bytes: arrays by name in between.

A tensor's elements travel raw, little-endian and row-major, in a list beside the message's other fields. That list is
written and read by hand: so an array is copied once, into the message, and once out of it.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import grpc
import numpy as np
from google.protobuf.message import DecodeError

from kiln import arrays
from kiln.dtypes import BY_NAME, DType, dtype as dtype_of, integer
from kiln.encode import Bytes, varint
from kiln.errors import Internal, InvalidArgument, KilnError, UnsupportedDType
from kiln.inference import grpc_service_pb2 as pb

# The protocol's name of each dtype that it has.
DATATYPES = {
    "bool": "BOOL", "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64", "uint8": "UINT8",
    "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "float16": "FP16", "float32": "FP32", "float64": "FP64",
    "bfloat16": "BF16",
}  # fmt: skip
BY_DATATYPE: Dict[str, DType] = {said: BY_NAME[name] for name, said in DATATYPES.items()}

# Of an array that comes: as many as any numpy has.
MOST_AXES = 64

# Which sequence a request is of: a number from 1 on, or a text.
SequenceId = Union[int, str]
Outputs = Dict[str, np.ndarray]


class Tensor(NamedTuple):
    """An input or output of a model.

    In `shape`, -1 is a size that each call decides; `dtype` is None where this library has none like it.
    """

    name: str
    dtype: Optional[DType]
    shape: Tuple[int, ...]


class Version(NamedTuple):
    """A version of a model: `state` is READY, UNAVAILABLE or LOADING.

    `reason` says why it could not be loaded; beside READY, why its newest files could not.
    """

    name: str
    version: str
    state: str
    reason: str


class Ask(NamedTuple):
    """What a request says beside its arrays."""

    outputs: Sequence[str] = ()
    sequence: Optional[SequenceId] = None
    start: bool = False
    end: bool = False
    id: str = ""
    timeout: Optional[float] = None  # seconds; of a stream's request, whose call has no deadline of its own


def tensor_of(said: pb.ModelMetadataResponse.TensorMetadata) -> Tensor:
    return Tensor(said.name, BY_DATATYPE.get(said.datatype), tuple(said.shape))


def request(model: str, version: str, dtypes: Mapping[str, Optional[DType]], inputs: Mapping[str, Any], ask: Ask) -> bytes:
    """A ModelInferRequest. `dtypes` are those of the model's inputs: of what has none itself, such as a list."""
    if not isinstance(inputs, Mapping):
        raise InvalidArgument("inputs are arrays by name, not %s" % type(inputs).__name__, code="BAD_ARGUMENT",
                              remedy="model.inputs has the names")  # fmt: skip
    if isinstance(ask.outputs, str):
        raise TypeError("outputs is a list of names")
    message = pb.ModelInferRequest(model_name=model, model_version=version, id=ask.id)
    for name in ask.outputs:
        message.outputs.add(name=name)
    _say(message, ask)
    contents: List[Bytes] = []
    for name, value in inputs.items():
        array = arrays.host_array(value, dtypes.get(name))
        dtype = dtype_of(array.dtype)
        if dtype.name not in DATATYPES:
            raise UnsupportedDType("input %s: models take no %s" % (name, dtype.name), remedy="cast it to what model.inputs says")
        message.inputs.add(name=name, datatype=DATATYPES[dtype.name], shape=array.shape)
        contents += (b"\x3a", varint(array.nbytes), arrays.byte_view(array))  # raw_input_contents = 7
    return b"".join((message.SerializeToString(), *contents))


def _say(message: pb.ModelInferRequest, ask: Ask) -> None:
    said = message.parameters
    if isinstance(ask.sequence, str):
        said["sequence_id"].string_param = ask.sequence
    elif ask.sequence is not None:
        number = integer(ask.sequence, "sequence")
        if not 0 < number < 1 << 64:
            raise InvalidArgument("sequence=%d" % number, code="BAD_ARGUMENT", remedy="a number from 1 on, of 64 bits, or a text")
        if number < 1 << 63:
            said["sequence_id"].int64_param = number
        else:
            said["sequence_id"].uint64_param = number
    if ask.start:
        said["sequence_start"].bool_param = True
    if ask.end:
        said["sequence_end"].bool_param = True
    if ask.timeout is not None:
        said["timeout"].int64_param = max(1, min(int(ask.timeout * 1e6), (1 << 63) - 1))


# -- answers


def answer(message: Bytes, outputs: Sequence[str] = (), id: str = "") -> Outputs:
    """What a ModelInferResponse has, by name: arrays of their own. Internal where it is none that can be right."""
    rest, contents = [], []
    try:
        for number, field, content in _fields(memoryview(message)):
            if number == 6:  # raw_output_contents
                contents.append(content)
            else:
                rest.append(field)
        said = pb.ModelInferResponse.FromString(b"".join(rest))
    except (ValueError, DecodeError):
        raise Internal("the server sent an answer of a model that cannot be read") from None
    if said.id != id:
        raise Internal("the server sent the answer to another request: %r, not %r" % (said.id, id))
    if not contents or len(contents) != len(said.outputs):
        raise Internal("the server sent %d outputs, and the contents of %d" % (len(said.outputs), len(contents)))
    found: Outputs = {}
    for output, content in zip(said.outputs, contents):
        if output.name in found:
            raise Internal("the server sent the output %s twice" % output.name)
        found[output.name] = _array(output, content)
    for name in outputs:
        if name not in found:
            raise Internal("the server sent no output %s" % name)
    return found


def streamed(message: bytes, outputs: Sequence[str] = (), id: str = "") -> Outputs:
    """As answer(), of a ModelStreamInferResponse. What the server says of a request that failed is a text alone."""
    try:
        wrong, inner = _parts(message)
    except ValueError:
        raise Internal("the server sent an answer of a stream that cannot be read") from None
    if wrong:
        raise KilnError(wrong.decode(errors="replace"), status=grpc.StatusCode.UNKNOWN)
    return answer(inner, outputs, id)


def streamed_id(message: bytes) -> Optional[str]:
    """Whose answer it says to be; None of a failure that does not say it, and of what cannot be read."""
    id = b""
    try:
        wrong, inner = _parts(message)
        for number, _, content in _fields(inner):
            if number == 3:
                id = bytes(content)
        return None if wrong and not id else id.decode()
    except ValueError:  # of a text that is none, too
        return None


def _parts(message: bytes) -> Tuple[bytes, memoryview]:
    """The text of what failed, and the answer. ValueError."""
    wrong, inner = b"", memoryview(b"")
    for number, _, content in _fields(memoryview(message)):
        if number == 1:
            wrong = bytes(content)
        elif number == 2:
            inner = content
    return wrong, inner


def _array(output: pb.ModelInferResponse.InferOutputTensor, content: memoryview) -> np.ndarray:
    dtype = BY_DATATYPE.get(output.datatype)
    if dtype is None:
        raise Internal("the output %s is %s, which this library does not know" % (output.name, output.datatype))
    if len(output.shape) > MOST_AXES:  # the product of a million sizes would take minutes, and the text of them a page
        raise Internal("the output %s has %d axes" % (output.name, len(output.shape)))
    shape = tuple(output.shape)
    if min(shape, default=0) < 0 or arrays.count_of(shape) * dtype.itemsize != len(content):
        raise Internal("the output %s is %s of %s, and came with %d bytes"
                       % (output.name, dtype.name, list(shape), len(content)))  # fmt: skip
    try:
        # A copy: it begins where an array should, which bytes within a message do not, and is the caller's to change.
        return np.array(arrays.from_bytes(content, dtype, shape))  # type: ignore[arg-type]
    except ValueError:  # more axes than this numpy has, or sizes
        raise Internal("the output %s has a shape that no array has" % output.name) from None


def _fields(message: memoryview) -> Iterator[Tuple[int, memoryview, memoryview]]:
    """Of each field of a message: its number, all of it, and what it holds. ValueError for what is no message."""
    at = 0
    while at < len(message):
        begin = at
        tag, at = _varint(message, at)
        content, kind = at, tag & 7
        if kind == 0:
            _, at = _varint(message, at)
        elif kind == 2:
            length, content = _varint(message, at)
            at = content + length
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError
        if at > len(message) or (kind != 2 and tag >> 3 in _LENGTHS):
            raise ValueError
        yield tag >> 3, message[begin:at], message[content:at]


# Fields that are bytes or messages, of both answers.
_LENGTHS = frozenset((1, 2, 6))


def _varint(message: memoryview, at: int) -> Tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(message):
            raise ValueError
        byte = message[at]
        value, at = value | (byte & 0x7F) << shift, at + 1
        if byte < 0x80:
            return value, at
    raise ValueError
