"""Collectives: what several devices of a server do with one tensor together.

    parts = [client.buffer(array, device="CPU:%d" % i) for i, array in enumerate(arrays)]
    client.all_reduce(parts)              # each now holds the sum of all
    client.all_reduce(parts, op="max")

Buffers stand in the order of their ranks, one a device. A whole tensor is cut into parts
as numpy.array_split cuts it flat. `op` is "sum", "prod" or "max", with the meaning that
the graph's ADD, MUL and MAX have; floats of 8 and 16 bits are added up in float32.
`deterministic_order` combines in the order of the ranks, whatever the algorithm.

Each answers with `.algorithm` and `.bus_bandwidth_gb_s` (as NCCL reckons it); with
`wait=False` it is a command like those of kiln.pipeline, and answers nothing.
Raises InvalidArgument where buffers do not fit together, `error.field` naming which
("input 2"): whole tensors have one shape, parts the sizes that array_split gives; Unavailable where a device is too busy to come, `error.field` naming it.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

from kiln.errors import InvalidArgument, ShapeError
from kiln.v1 import collective_service_pb2, error_pb2, graph_pb2

_OPS = {"sum": graph_pb2.ADD, "prod": graph_pb2.MUL, "max": graph_pb2.MAX}


def _request(inputs: Sequence[Any], outputs: Sequence[Any], whole: Any, *, op: Optional[str] = None, root: int = 0,
             deterministic_order: bool = False, parts: Sequence[str] = ()) -> collective_service_pb2.CollectiveRequest:
    """`whole` is a buffer with the whole tensor's elements; `parts` says of which lists each has a part of them."""
    if op is not None and op not in _OPS:
        raise InvalidArgument('op "%s"' % op, remedy="one of " + ", ".join(_OPS))
    for name, row in (("input", inputs), ("output", outputs)):
        for index, buffer in enumerate(row):
            _check("%s %d" % (name, index), buffer, whole, (index, len(row)) if name in parts else None)
    return collective_service_pb2.CollectiveRequest(
        input=[buffer.ref() for buffer in inputs], output=[buffer.ref() for buffer in outputs],
        dtype=whole.dtype.number, count=whole.size, op=_OPS[op] if op else graph_pb2.OP_UNSPECIFIED, root=root,
        deterministic_order=deterministic_order)  # fmt: skip


def _check(field: str, buffer: Any, whole: Any, part: Optional[Tuple[int, int]]) -> None:
    """ShapeError for what is not the tensor that it stands for. (What is too small, or of another dtype, the server refuses.)"""
    if not buffer.typed or buffer.dtype is not whole.dtype:
        return
    if part is not None:
        index, parts = part
        wanted = whole.size // parts + (index < whole.size % parts)
        if buffer.size <= wanted:
            return
        text = "part %d of %d elements is one of %d, the buffer has %d" % (index, whole.size, wanted, buffer.size)
    elif buffer.shape == whole.shape or not whole.typed or buffer.size < whole.size:
        return
    else:
        text = "the tensor is %s, the buffer %s" % (whole.shape, buffer.shape)
    detail = error_pb2.ErrorDetail(code=error_pb2.BUFFER_SIZE_MISMATCH, field=field, handle=buffer.handle)
    raise ShapeError("%s: %s" % (field, text), detail=detail, remedy="view what is meant")


def _first(buffers: Sequence[Any]) -> Any:
    if not buffers:
        raise InvalidArgument("a collective of no buffers")
    return buffers[0]


class Collectives:
    """Of Client, and of kiln.aio's, where each is awaited."""

    _connection: Any

    def _collective(self, rpc: str, request: collective_service_pb2.CollectiveRequest, wait: bool) -> Any:
        connection, name = self._connection, "CollectiveService." + rpc
        return connection.call(name, request) if wait else connection.perform(name, request)

    def broadcast(self, source: Any, outputs: Sequence[Any], *, root: int = 0, wait: bool = True) -> Any:
        """The root's tensor to all; `source` is on the device of outputs[root], and may be it."""
        return self._collective("Broadcast", _request([source], outputs, source, root=root), wait)

    def scatter(self, source: Any, outputs: Sequence[Any], *, root: int = 0, wait: bool = True) -> Any:
        """To each its part of the root's tensor."""
        return self._collective("Scatter", _request([source], outputs, source, root=root, parts=("output",)), wait)

    def gather(self, inputs: Sequence[Any], output: Any, *, root: int = 0, wait: bool = True) -> Any:
        """Everyone's part, one after the other, at the root; `output` is on the device of inputs[root]."""
        return self._collective("Gather", _request(inputs, [output], output, root=root, parts=("input",)), wait)

    def reduce(self, inputs: Sequence[Any], output: Any, *, op: str = "sum", root: int = 0,
               deterministic_order: bool = False, wait: bool = True) -> Any:
        """All tensors combined, at the root; `output` may be inputs[root]."""
        request = _request(inputs, [output], output, op=op, root=root, deterministic_order=deterministic_order)
        return self._collective("Reduce", request, wait)

    def all_gather(self, inputs: Sequence[Any], outputs: Sequence[Any], *, wait: bool = True) -> Any:
        """Everyone's part, one after the other, at all."""
        return self._collective("AllGather", _request(inputs, outputs, _first(outputs), parts=("input",)), wait)

    def reduce_scatter(self, inputs: Sequence[Any], outputs: Sequence[Any], *, op: str = "sum",
                       deterministic_order: bool = False, wait: bool = True) -> Any:
        """To each its part of all tensors combined."""
        request = _request(inputs, outputs, _first(inputs), op=op, deterministic_order=deterministic_order,
                           parts=("output",))  # fmt: skip
        return self._collective("ReduceScatter", request, wait)

    def all_reduce(self, inputs: Sequence[Any], outputs: Optional[Sequence[Any]] = None, *, op: str = "sum",
                   deterministic_order: bool = False, wait: bool = True) -> Any:
        """All tensors combined, at all; without `outputs` in the place of the inputs."""
        request = _request(inputs, inputs if outputs is None else outputs, _first(inputs), op=op,
                           deterministic_order=deterministic_order)  # fmt: skip
        return self._collective("AllReduce", request, wait)
