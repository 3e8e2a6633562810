"""What is done to a server that is watched: known calls of two tenants, memory of one, a trace."""

import hashlib

import grpc

import graphs
from kiln.transport import wire
from kiln.v1 import buffer_service_pb2, kernel_service_pb2

TENANTS = """
tenant { name: "alice" token { sha256: "%s" } right: EXECUTE_RIGHT quota { device_bytes: 4096 } }
tenant { name: "bob" token { sha256: "%s" } right: EXECUTE_RIGHT weight: 3 }
tenant { name: "operator" token { sha256: "%s" } right: EXECUTE_RIGHT right: DEBUG_RIGHT right: ADMIN_RIGHT }
""" % tuple(hashlib.sha256(name.encode()).hexdigest() for name in ("alice", "bob", "operator"))  # a name is its token
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
EXECUTE = "kiln.v1.KernelService/Execute"
CALLS = {"alice": 50, "bob": 150}  # and one more of bob, with the trace
ALL_CALLS = sum(CALLS.values()) + 1
BYTES = 4096  # of alice: all that she may have


class Caller:
    """A tenant, who executes x + y."""

    def __init__(self, server, name):
        self.metadata = [("authorization", "Bearer " + name)]
        self.channel = grpc.insecure_channel(server.address)
        compiled = self.call("KernelService.Compile", kernel_service_pb2.CompileRequest(graph=graphs.elementwise("ADD")))
        self.request = graphs.of_zeros(compiled)

    def call(self, name, request, *metadata):
        return wire.stub(self.channel, name)(request, metadata=[*self.metadata, *metadata])

    def execute(self, *metadata):
        self.call("KernelService.Execute", self.request, *metadata)


def do(server):
    callers = {name: Caller(server, name) for name in CALLS}
    for name, calls in CALLS.items():
        for _ in range(calls):
            callers[name].execute()
    callers["alice"].call("BufferService.Allocate", buffer_service_pb2.AllocateRequest(bytes=BYTES))
    callers["bob"].execute(("traceparent", "00-%s-%s-01" % (TRACE, SPAN)))
