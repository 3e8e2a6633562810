"""A gRPC server that answers as a test wants, for what no kilnd can be made to do."""

import concurrent.futures

import grpc

from kiln import wire
from kiln.v1 import device_service_pb2


class FakeServer:
    """Answers calls with what a test says: {"DeviceService.List": function(request, context)}."""

    def __init__(self, answers, credentials=None):
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        self.server.add_generic_rpc_handlers((self._Handler(answers),))
        self.port = (self.server.add_secure_port("localhost:0", credentials) if credentials
                     else self.server.add_insecure_port("127.0.0.1:0"))  # fmt: skip
        self.address = "%s:%d" % ("localhost" if credentials else "127.0.0.1", self.port)
        self.server.start()

    class _Handler(grpc.GenericRpcHandler):
        def __init__(self, answers):
            self.by_path = {wire.METHODS[name].path: (wire.METHODS[name], answer) for name, answer in answers.items()}

        def service(self, details):
            if details.method not in self.by_path:
                return None
            method, answer = self.by_path[details.method]
            return grpc.unary_unary_rpc_method_handler(answer, method.request.FromString, method.response.SerializeToString)


def listing(protocol=(1, 1)):
    return device_service_pb2.ListDevicesResponse(protocol_min=protocol[0], protocol_max=protocol[1],
                                                  devices=[device_service_pb2.Device(name="CPU:0")])  # fmt: skip
