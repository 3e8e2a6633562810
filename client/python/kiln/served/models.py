"""A served model, and what both clients do with one."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from kiln.dtypes import DType
from kiln.handles import Single
from kiln.inference import grpc_service_pb2 as pb
from kiln.served.streams import Stream
from kiln.served.tensors import Ask, Outputs, SequenceId, Tensor, Version, answer, request, tensor_of
from kiln.waiting import Waits, blocking

INFER = "GRPCInferenceService.ModelInfer"
METADATA = "GRPCInferenceService.ModelMetadata"
INDEX = "GRPCInferenceService.RepositoryIndex"

# Of a model whose last run took less, a run is not worth a thread by which Ctrl-C would end it at the server.
_SLOW = 0.25  # seconds


def versions_of(said: pb.RepositoryIndexResponse) -> List[Version]:
    return [Version(row.name, row.version, row.state, row.reason) for row in said.models]


class ModelLike(Single):
    """Attributes:

    name, version    which; without a version, a request is for the greatest that is ready
    versions         those that were ready when the model was asked for
    inputs, outputs  a Tensor each, in the model's order
    """

    def __init__(self, connection: Any, name: str, version: str, said: pb.ModelMetadataResponse):
        self._connection = connection
        self.name, self.version = name, version
        self.versions: Tuple[str, ...] = tuple(said.versions)
        self.inputs: Tuple[Tensor, ...] = tuple(map(tensor_of, said.inputs))
        self.outputs: Tuple[Tensor, ...] = tuple(map(tensor_of, said.outputs))
        self._dtypes: Dict[str, Optional[DType]] = {row.name: row.dtype for row in self.inputs}
        self._slow = True

    def __repr__(self) -> str:
        sides = (", ".join("%s %s%s" % (row.name, row.dtype.name if row.dtype else "?", list(row.shape)) for row in rows)
                 for rows in (self.inputs, self.outputs))  # fmt: skip
        return "<Model %s: (%s) -> (%s)>" % (":".join(filter(None, (self.name, self.version))), *sides)

    def _ready(self) -> Waits[bool]:
        asked = pb.ModelReadyRequest(name=self.name, version=self.version)
        said = yield self._connection.call("GRPCInferenceService.ModelReady", asked)
        return bool(said.ready)

    def _request(self, inputs: Mapping[str, Any], ask: Ask) -> bytes:
        return request(self.name, self.version, self._dtypes, inputs, ask)

    def _infer(self, inputs: Mapping[str, Any], ask: Ask, timeout: Optional[float]) -> Waits[Outputs]:
        connection, message = self._connection, self._request(inputs, ask)
        begin = time.monotonic()
        if ask.sequence is None:
            said = yield from connection._unary(INFER, lambda left: self._ask(message, left), timeout)
        else:  # never again by itself: it may have moved on
            connection.retries.earn()
            said = yield self._ask(message, connection.timeout if timeout is None else timeout)
        self._slow = time.monotonic() - begin > _SLOW
        connection.count(INFER, len(message), len(said))
        return answer(said, ask.outputs, ask.id)

    def _ask(self, message: bytes, timeout: Optional[float]) -> Any:
        """One ModelInfer: the answer's bytes, or what is awaited for them."""
        raise NotImplementedError


class Model(ModelLike):
    """A model that a server serves, made by Client.model(). Threads: any; copies are the same model.

    `name`, `version`, `versions`; `inputs` and `outputs` are a Tensor each, in the model's order.
    """

    def ready(self) -> bool:
        """Whether it, or the version that was asked for, can be asked now."""
        return blocking(self._ready())

    def infer(self, inputs: Mapping[str, Any], outputs: Sequence[str] = (), *, timeout: Optional[float] = None,
              sequence: Optional[SequenceId] = None, start: bool = False, end: bool = False, id: str = "") -> Outputs:
        """The outputs by name, or those that are asked for, as arrays; `inputs` are arrays by name.

        timeout     seconds that it may take, else the client's
        sequence    of a model that keeps state: which sequence this is a request of, a number from 1 on or a text;
                    start and end say that it is its first, its last
        id          comes back with the answer, and is in the server's logs

        A request without a sequence is made again as other calls are (kiln.retries), one of a sequence never.
        Raises InvalidArgument, whose `field` names the input that does not fit; NotFound where the model or the sequence
        is not there any more; ResourceExhausted, DeadlineExceeded, and what the server says.
        """
        return blocking(self._infer(inputs, Ask(outputs, sequence, start, end, id), timeout))

    def stream(self, *, timeout: Optional[float] = None) -> Stream:
        """Many requests on their way at a time, by one call of at most so many seconds: `with model.stream() as stream`."""
        return Stream(self._connection, self._request, timeout)

    def _ask(self, message: bytes, timeout: Optional[float]) -> Any:
        start = self._connection.start_to_wait if self._slow else self._connection.start
        return start(self._connection.stub(INFER, raw_request=True, raw_response=True), message, timeout)
