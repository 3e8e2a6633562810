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

THREADS = 64  # as many callers at a time


def dimensions(shape):
    return [size if isinstance(size, int) else -1 for size in shape]


class Service(pb_grpc.GRPCInferenceServiceServicer):
    def __init__(self, path):
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

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
        for tensors, into in ((self.session.get_inputs(), answer.inputs), (self.session.get_outputs(), answer.outputs)):
            for tensor in tensors:
                into.add(name=tensor.name, datatype="FP32", shape=dimensions(tensor.shape))
        return answer

    def ModelConfig(self, request, context):
        answer = pb.ModelConfigResponse()
        answer.config.name = request.name
        for tensor in self.session.get_inputs():
            answer.config.input.add(name=tensor.name, data_type="TYPE_FP32", dims=dimensions(tensor.shape))
        for tensor in self.session.get_outputs():
            answer.config.output.add(name=tensor.name, data_type="TYPE_FP32", dims=dimensions(tensor.shape))
        return answer

    def ModelInfer(self, request, context):
        given = {tensor.name: np.frombuffer(raw, np.float32).reshape(tensor.shape)
                 for tensor, raw in zip(request.inputs, request.raw_input_contents)}  # fmt: skip
        answer = pb.ModelInferResponse(model_name=request.model_name, model_version="1", id=request.id)
        for tensor, array in zip(self.session.get_outputs(), self.session.run(None, given)):
            answer.outputs.add(name=tensor.name, datatype="FP32", shape=array.shape)
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
