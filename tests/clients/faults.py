"""What a server, or the way to it, does to a client.

FAULTS must be withstood: a case that names one says what is then right. MUTANTS are servers that lie: each must make
the case fail that it names, or the suite would not notice.
"""

import grpc

from kiln import errors
from kiln.inference import grpc_service_pb2
from kiln.v1 import buffer_service_pb2, device_service_pb2, error_pb2, kernel_service_pb2, tensor_pb2
from wire_proxy import Cut, Rule

DETAILS = "grpc-status-details-bin"


class Refused(grpc.RpcError):
    """What a proxy answers by itself, as kilnd answers failures."""

    def __init__(self, status, text="", **detail):
        self._status, self._text = status, text
        packed = errors._Status(code=status.value[0], message=text)
        packed.details.add(type_url="type.googleapis.com/kiln.v1.ErrorDetail",
                           value=error_pb2.ErrorDetail(**detail).SerializeToString())  # fmt: skip
        self._trailers = ((DETAILS, packed.SerializeToString()),) if detail else ()

    def code(self):
        return self._status

    def details(self):
        return self._text

    def trailing_metadata(self):
        return self._trailers


class HandsOn(Rule):
    """Nothing; but calls are counted."""


class LosesAnswers(Rule):
    """The first answer of these calls is lost; what they asked for has happened."""

    METHODS = ("KernelService.Compile", "KernelService.Execute", "GRPCInferenceService.ModelInfer")

    def answer(self, method, message, call):
        if method in self.METHODS and call["number"] == 1:
            raise Cut
        return [message]


class AnswersTwice(Rule):
    """Each answer of a stream comes twice."""

    def answer(self, method, message, call):
        return [message, message] if method == "KernelService.Submit" else [message]


class EndsStream(Rule):
    """The first stream ends in the place of the second answer, as when another connection has taken its session."""

    status, text, code = grpc.StatusCode.ABORTED, "another connection has it", error_pb2.SESSION_BUSY

    def answer(self, method, message, call):
        if method == "KernelService.Submit" and call["number"] == 1:
            said = kernel_service_pb2.SubmitResponse.FromString(message)
            call["answers"] = call.get("answers", 0) + (not said.HasField("welcome") and not said.more)
            if call["answers"] == 2:
                raise Refused(self.status, self.text, code=self.code)
        return [message]


class EndsToken(EndsStream):
    """The same, as when the token that it was opened with counts no more."""

    status, text, code = grpc.StatusCode.UNAUTHENTICATED, "the token has expired", error_pb2.NOT_AUTHENTICATED


class IsBusy(Rule):
    """Refuses to compile, and to run models, and says when to come again; `most` times."""

    METHODS = ("KernelService.Compile", "GRPCInferenceService.ModelInfer")
    most = 2

    def answer(self, method, message, call):
        if method in self.METHODS and call["number"] <= self.most:
            raise Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many compilations", code=error_pb2.QUOTA_EXCEEDED,
                          limit="compiles_at_once", limit_value=1, used=1, retry_after_ms=10)  # fmt: skip
        return [message]


class StaysBusy(IsBusy):
    most = 1 << 30


class GivesHalf(Rule):
    """A download ends in the middle of its second chunk."""

    def answer(self, method, message, call):
        if method != "BufferService.Read":
            return [message]
        call["chunks"] = call.get("chunks", 0) + 1
        if call["chunks"] == 1:
            return [message]
        chunk = buffer_service_pb2.ReadResponse.FromString(message).chunk
        half = buffer_service_pb2.ReadResponse(chunk=chunk[: len(chunk) // 2])
        return [half.SerializeToString()] if call["chunks"] == 2 else []


class IsNewer(Rule):
    """Speaks another version of the protocol, and none of ours."""

    def answer(self, method, message, call):
        if method == "DeviceService.List":
            said = device_service_pb2.ListDevicesResponse.FromString(message)
            said.protocol_min = said.protocol_max = 2
            return [said.SerializeToString()]
        return [message]


class SaysMore(Rule):
    """Messages have a field that no client knows (number 1000, "new"), and there is a new feature and a new error."""

    def answer(self, method, message, call):
        if method == "DeviceService.List":
            said = device_service_pb2.ListDevicesResponse.FromString(message)
            said.features.append("a_feature_of_tomorrow")
            message = said.SerializeToString()
        if method == "BufferService.Describe":
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, "of tomorrow", code=9999)
        return [message if method == "BufferService.Read" else message + b"\xc2\x3e\x03new"]


class SaysLess(Rule):
    """A server from before streams and sessions: what they are called is not among its features."""

    def answer(self, method, message, call):
        if method.startswith("SessionService.") or method == "KernelService.Submit":
            raise Refused(grpc.StatusCode.UNIMPLEMENTED, "not implemented", code=error_pb2.NOT_IMPLEMENTED)
        if method == "DeviceService.List":
            said = device_service_pb2.ListDevicesResponse.FromString(message)
            said.ClearField("features")
            said.features.extend(["execute_by_hash", "inline_arguments", "inline_results"])
            return [said.SerializeToString()]
        return [message]


class WrongHash(Rule):
    """Compile answers with the hash of another graph."""

    def answer(self, method, message, call):
        if method == "KernelService.Compile":
            said = kernel_service_pb2.CompileResponse.FromString(message)
            said.graph_hash = said.graph_hash[::-1]
            return [said.SerializeToString()]
        return [message]


class Infers(Rule):
    """Changes what models answer, by call or stream: changed(), of a ModelInferResponse."""

    def answer(self, method, message, call):
        if method == "GRPCInferenceService.ModelInfer":
            said = grpc_service_pb2.ModelInferResponse.FromString(message)
            self.changed(said)
        elif method == "GRPCInferenceService.ModelStreamInfer":
            said = grpc_service_pb2.ModelStreamInferResponse.FromString(message)
            if not said.error_message:
                self.changed(said.infer_response)
        else:
            return [message]
        return [said.SerializeToString()]


class LosesContents(Infers):
    """The last output comes without its elements."""

    def changed(self, said):
        del said.raw_output_contents[-1]


class HalvesContents(Infers):
    """The last output comes with half of its elements."""

    def changed(self, said):
        last = said.raw_output_contents[-1]
        said.raw_output_contents[-1] = last[: len(last) // 2]


class NewDtype(Infers):
    """The last output has a dtype that no client knows."""

    def changed(self, said):
        said.outputs[-1].datatype = "FP4"


FAULTS = {
    rule.__name__: rule
    for rule in (HandsOn, LosesAnswers, AnswersTwice, EndsStream, EndsToken, IsBusy, StaysBusy, GivesHalf, IsNewer,
                 SaysMore, SaysLess, WrongHash, LosesContents, HalvesContents, NewDtype)  # fmt: skip
}


# -- servers that lie


class FlipsResults(Rule):
    """One bit of each inline result is another."""

    def answer(self, method, message, call):
        if method == "KernelService.Execute":
            said = kernel_service_pb2.ExecuteResponse.FromString(message)
            for row in said.results:
                if row.tensor.data:
                    row.tensor.data = bytes([row.tensor.data[0] ^ 1]) + row.tensor.data[1:]
            return [said.SerializeToString()]
        return [message]


class FlipsUploads(Rule):
    """One bit of each uploaded chunk is another."""

    def request(self, method, message, call):
        if method == "BufferService.Write":
            said = buffer_service_pb2.WriteRequest.FromString(message)
            if said.chunk:
                said.chunk = said.chunk[:-1] + bytes([said.chunk[-1] ^ 1])
                return [said.SerializeToString()]
        return [message]


class HidesDetails(Rule):
    """Failures come without their ErrorDetail."""

    def trailers(self, method, pairs):
        return tuple(pair for pair in pairs if pair[0] != DETAILS)


class SwapsChunks(Rule):
    """The first two chunks of a download change places."""

    def answer(self, method, message, call):
        if method != "BufferService.Read":
            return [message]
        held = call.setdefault("held", [])
        held.append(message)
        return {1: [], 2: held[1:2] + held[:1]}.get(len(held), [message])


class RunsTwice(Rule):
    """Each command that executes is done twice: under its own number doubled, and the next."""

    def request(self, method, message, call):
        if method != "KernelService.Submit":
            return [message]
        first = kernel_service_pb2.SubmitRequest.FromString(message)
        first.command_id, first.acknowledged = 2 * first.command_id, 2 * first.acknowledged
        second = kernel_service_pb2.SubmitRequest()
        second.CopyFrom(first)
        second.command_id, second.answer = second.command_id + 1, False
        twice = first.WhichOneof("command") == "execute" and not any(first.execute.result_handle)
        return [item.SerializeToString() for item in ((first, second) if twice else (first,))]

    def answer(self, method, message, call):
        if method != "KernelService.Submit":
            return [message]
        said = kernel_service_pb2.SubmitResponse.FromString(message)
        said.command_id //= 2
        said.welcome.accepted //= 2 if said.HasField("welcome") else 1
        if said.WhichOneof("event") == "welcome" and said.command_id:
            said.ClearField("welcome")
        return [said.SerializeToString()]


class SwapsAnswers(Rule):
    """Data of a stream's answers goes to the command before."""

    def answer(self, method, message, call):
        if method != "KernelService.Submit":
            return [message]
        said = kernel_service_pb2.SubmitResponse.FromString(message)
        if said.WhichOneof("event") != "data" or "held" not in call and call.get("done"):
            return [message]
        if "held" not in call:
            call["held"] = said
            return []
        first, call["done"] = call.pop("held"), True
        first.data, said.data = said.data, first.data
        return [first.SerializeToString(), said.SerializeToString()]


class RepeatsAnswer(Rule):
    """The first data among a stream's answers comes a second time, as what the next command with data gives."""

    def answer(self, method, message, call):
        if method != "KernelService.Submit":
            return [message]
        said = kernel_service_pb2.SubmitResponse.FromString(message)
        if said.WhichOneof("event") == "data":
            said.data = call.setdefault("first", said.data)
        return [said.SerializeToString()]


class DropsAcknowledgement(Rule):
    """The first answer that a stream's command was to have is lost; those behind it come."""

    def request(self, method, message, call):
        if method == "KernelService.Submit":
            said = kernel_service_pb2.SubmitRequest.FromString(message)
            if said.answer or said.WhichOneof("command") == "read":
                call.setdefault("lost", said.command_id)
        return [message]

    def answer(self, method, message, call):
        if method != "KernelService.Submit":
            return [message]
        said = kernel_service_pb2.SubmitResponse.FromString(message)
        return [] if said.command_id and said.command_id == call.get("lost") else [message]


class ForgetsWhoAsks(Rule):
    """Tokens are lost on the way, and sessions."""

    def metadata(self, method, pairs):
        return [pair for pair in pairs if pair[0] not in ("authorization", "kiln-session-bin")]


class FlipsOutputs(Infers):
    """One bit of each output of a model is another."""

    def changed(self, said):
        said.raw_output_contents[:] = [bytes([data[0] ^ 1]) + data[1:] for data in said.raw_output_contents]


class SwapsOutputs(Infers):
    """A model's outputs have each other's names."""

    def changed(self, said):
        names = [row.name for row in said.outputs]
        for row, name in zip(said.outputs, names[::-1]):
            row.name = name


class ForgetsSequences(Rule):
    """Each request of a sequence is told to be its first."""

    def request(self, method, message, call):
        if method == "GRPCInferenceService.ModelInfer":
            said = grpc_service_pb2.ModelInferRequest.FromString(message)
            if "sequence_id" in said.parameters:
                said.parameters["sequence_start"].bool_param = True
            return [said.SerializeToString()]
        return [message]


class WrongShapes(Rule):
    """Shapes of inline results come in reverse."""

    def answer(self, method, message, call):
        if method == "KernelService.Execute":
            said = kernel_service_pb2.ExecuteResponse.FromString(message)
            for row in said.results:
                row.tensor.shape[:] = list(row.tensor.shape)[::-1]
            return [said.SerializeToString()]
        return [message]


class IgnoresOffsets(Rule):
    """Uploads go to the beginning of their buffer."""

    def request(self, method, message, call):
        if method == "BufferService.Write":
            said = buffer_service_pb2.WriteRequest.FromString(message)
            if said.HasField("header"):
                said.header.buffer.CopyFrom(tensor_pb2.BufferRef(handle=said.header.buffer.handle))
                return [said.SerializeToString()]
        return [message]


# Each with the case that it must make fail.
MUTANTS = {
    WrongHash: "run.by_value",
    GivesHalf: "transfer.several_chunks",
    RepeatsAnswer: "stream.answers_in_order",
    DropsAcknowledgement: "stream.answers_in_order",
    FlipsResults: "run.by_value",
    FlipsUploads: "transfer.several_chunks",
    HidesDetails: "errors.node_at_fault",
    SwapsChunks: "transfer.several_chunks",
    RunsTwice: "stream.each_command_once",
    SwapsAnswers: "stream.answers_in_order",
    ForgetsWhoAsks: "session.handles_are_its_own",
    WrongShapes: "arrays.shape_is_kept",
    IgnoresOffsets: "transfer.offsets",
    FlipsOutputs: "models.infer",
    SwapsOutputs: "models.several_inputs_and_outputs",
    ForgetsSequences: "models.sequence",
}
