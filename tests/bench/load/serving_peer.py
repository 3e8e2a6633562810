"""onnxruntime behind a plain gRPC server of the open inference protocol: a model at a port of its own.

    serving_peer.py FILE    prints the port
"""

import sys
from concurrent import futures

import grpc
import numpy as np
import onnxruntime
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc as pb_grpc
from tritonclient.utils import triton_to_np_dtype

THREADS = 64  # as many callers at a time

DATATYPES = {"tensor(float)": "FP32", "tensor(int64)": "INT64"}  # by onnxruntime's names


def dimensions(shape):
    return [size if isinstance(size, int) else -1 for size in shape]


class Service(pb_grpc.GRPCInferenceServiceServicer):
    def __init__(self, path):
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.inputs, self.outputs = self.session.get_inputs(), self.session.get_outputs()

    def ServerLive(self, request, context):
        return pb.ServerLiveResponse(live=True)

    def ServerReady(self, request, context):
        return pb.ServerReadyResponse(ready=True)

    def ModelReady(self, request, context):
        return pb.ModelReadyResponse(ready=True)

    def ServerMetadata(self, request, context):
        return pb.ServerMetadataResponse(name="onnxruntime", version=onnxruntime.__version__)

    def ModelMetadata(self, request, context):
        answer = pb.ModelMetadataResponse(name=request.name, versions=["1"], platform="onnxruntime_onnx")
        for tensors, into in ((self.inputs, answer.inputs), (self.outputs, answer.outputs)):
            for tensor in tensors:
                into.add(name=tensor.name, datatype=DATATYPES[tensor.type], shape=dimensions(tensor.shape))
        return answer

    def ModelConfig(self, request, context):
        answer = pb.ModelConfigResponse()
        answer.config.name = request.name
        for tensors, into in ((self.inputs, answer.config.input), (self.outputs, answer.config.output)):
            for tensor in tensors:
                kind = "TYPE_" + DATATYPES[tensor.type]
                into.add(name=tensor.name, data_type=kind, dims=dimensions(tensor.shape))
        return answer

    def ModelInfer(self, request, context):
        given = {tensor.name: np.frombuffer(raw, triton_to_np_dtype(tensor.datatype)).reshape(tensor.shape)
                 for tensor, raw in zip(request.inputs, request.raw_input_contents)}  # fmt: skip
        answer = pb.ModelInferResponse(model_name=request.model_name, model_version="1", id=request.id)
        for tensor, array in zip(self.outputs, self.session.run(None, given)):
            answer.outputs.add(name=tensor.name, datatype=DATATYPES[tensor.type], shape=array.shape)
            answer.raw_output_contents.append(array.tobytes())
        return answer


def main():
    server = grpc.server(futures.ThreadPoolExecutor(THREADS))
    pb_grpc.add_GRPCInferenceServiceServicer_to_server(Service(sys.argv[1]), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    sys.stdin.read()  # until whoever started it goes
    server.stop(None)


if __name__ == "__main__":
    main()
