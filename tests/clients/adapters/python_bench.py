"""What the Python adapter measures: a client's calls, and the same by gRPC alone, with the protocol's messages."""

import time

import grpc
import numpy as np

import kiln
from kiln.transport import wire
from kiln.v1 import buffer_service_pb2, graph_pb2, kernel_service_pb2, tensor_pb2

CHUNK = 1 << 20
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0)]


class Bench:
    """`ask` is tests/clients/README.md's request `bench`, whose `what` is "prepare"."""

    def __init__(self, ask, graph_of):
        self.client = kiln.connect(ask["address"], shared_memory=False, stream=False)
        self.streaming = kiln.connect(ask["address"], shared_memory=False)
        affine, count, self.large = (graph_of(ask[name]) for name in ("affine", "counting", "large"))
        self.x = np.arange(4, dtype=np.float32)
        self.program, self.step = self.client.compile(affine), self.streaming.compile(count)
        self.counter = self.streaming.buffer(np.zeros(4, np.int32))
        self.data = np.resize(np.arange(251, dtype=np.uint8), ask["bytes"])
        self.buffer = self.client.buffer(self.data)
        self.channel = grpc.insecure_channel(ask["address"], OPTIONS)
        allocate = self.bare_stub("BufferService.Allocate")
        of_counter = buffer_service_pb2.AllocateRequest()
        of_counter.type.dtype, of_counter.type.shape[:] = kiln.int32.number, [4]
        self.bare_counter = allocate(of_counter).buffer.handle
        self.bare_buffer = allocate(buffer_service_pb2.AllocateRequest(bytes=ask["bytes"])).buffer.handle
        self.execute = self.bare_stub("KernelService.Execute")
        self.submit = self.bare_stub("KernelService.Submit")
        self.write, self.read = self.bare_stub("BufferService.Write"), self.bare_stub("BufferService.Read")

    def bare_stub(self, name):
        return wire.stub(self.channel, name)

    def measure(self, ask):
        work = getattr(self, ("bare_" if ask.get("bare") else "kiln_") + ask["what"])
        begun = time.perf_counter()
        work(ask["count"])
        return {"seconds": time.perf_counter() - begun}

    def kiln_execute(self, count):
        for _ in range(count):
            self.program(self.x)

    def bare_execute(self, count):
        for _ in range(count):
            request = kernel_service_pb2.ExecuteRequest(
                graph_hash=self.program.hash, result_mode=kernel_service_pb2.RESULT_INLINE
            )
            tensor = tensor_pb2.Tensor(dtype=kiln.float32.number, shape=self.x.shape, data=self.x.tobytes())
            request.arguments.add(slot=0, tensor=tensor)
            np.frombuffer(self.execute(request).results[0].tensor.data, np.float32)

    def kiln_submit(self, count):
        for _ in range(count):
            self.step.run([self.counter], out="buffers")
        self.streaming.fence()

    def bare_submit(self, count):
        def commands():
            yield kernel_service_pb2.SubmitRequest(hello=kernel_service_pb2.SubmitHello())
            for number in range(count):
                request = kernel_service_pb2.SubmitRequest(command_id=number + 1)
                request.execute.request.graph_hash = self.step.hash
                request.execute.request.arguments.add(slot=0, buffer=tensor_pb2.BufferRef(handle=self.bare_counter))
                yield request
            yield kernel_service_pb2.SubmitRequest(command_id=count + 1, fence=kernel_service_pb2.FenceCommand())

        for answer in self.submit(commands()):
            if answer.HasField("failed"):
                raise RuntimeError(answer.failed.status)

    def kiln_upload(self, count):
        for _ in range(count):
            self.buffer.write(self.data)

    def bare_upload(self, count):
        def parts():
            header = buffer_service_pb2.WriteHeader(bytes=len(self.data))
            header.buffer.handle = self.bare_buffer
            yield buffer_service_pb2.WriteRequest(header=header)
            for at in range(0, len(self.data), CHUNK):
                yield buffer_service_pb2.WriteRequest(chunk=self.data[at : at + CHUNK].tobytes())

        for _ in range(count):
            self.write(parts())

    def kiln_download(self, count):
        for _ in range(count):
            self.buffer.numpy()

    def bare_download(self, count):
        request = buffer_service_pb2.ReadRequest(buffer=tensor_pb2.BufferRef(handle=self.bare_buffer))
        for _ in range(count):
            made, at = np.empty(len(self.data), np.uint8), 0
            for answer in self.read(request):
                chunk = np.frombuffer(answer.chunk, np.uint8)
                made[at : at + len(chunk)] = chunk
                at += len(chunk)

    def kiln_hash(self, count):
        for _ in range(count):
            kiln.graph_hash(self.large)
