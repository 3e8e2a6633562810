"""A gRPC server that answers as a test wants, for what no kilnd can be made to do."""

import concurrent.futures
import itertools
import threading

import grpc

from kiln import errors

from kiln.transport import wire
from kiln.v1 import buffer_service_pb2, device_service_pb2, error_pb2


class FakeServer:
    """Answers calls with what a test says: {"DeviceService.List": function(request, context)}.

    A method that streams is given an iterator of requests, or gives one of answers, or both.
    """

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
            kind = {(False, False): grpc.unary_unary_rpc_method_handler, (True, False): grpc.stream_unary_rpc_method_handler,
                    (False, True): grpc.unary_stream_rpc_method_handler, (True, True): grpc.stream_stream_rpc_method_handler}
            handler = kind[method.streams_in, method.streams_out]
            return handler(answer, method.request.FromString, method.response.SerializeToString)


def listing(protocol=(1, 1)):
    return device_service_pb2.ListDevicesResponse(protocol_min=protocol[0], protocol_max=protocol[1],
                                                  devices=[device_service_pb2.Device(name="CPU:0")])  # fmt: skip


def abort(context, status, text="", **detail):
    """Ends a call as kilnd does, with an ErrorDetail."""
    packed = errors._Status()
    packed.details.add(type_url="type.googleapis.com/other")
    packed.details.add(type_url="type.googleapis.com/kiln.v1.ErrorDetail",
                       value=error_pb2.ErrorDetail(**detail).SerializeToString())  # fmt: skip
    context.set_trailing_metadata((("grpc-status-details-bin", packed.SerializeToString()),))
    context.abort(status, text)


class FakeBuffers(FakeServer):
    """Hands out handles and takes them back, as long as it is not `down`."""

    def __init__(self):
        self.held = set()
        self._names = itertools.count(1)
        self.frees = []  # sets of handles that calls asked for
        self.down = None  # what Free does instead: function(context)
        self.asked = threading.Event()  # a Free has come
        self.open = threading.Event()  # Frees are answered
        self.open.set()
        self.empty = threading.Event()
        super().__init__({"DeviceService.List": lambda request, context: listing(),
                          "BufferService.Allocate": self._allocate, "BufferService.Free": self._free})  # fmt: skip

    def _allocate(self, request, context):
        handle = next(self._names)
        self.held.add(handle)
        buffer = buffer_service_pb2.BufferDescription(handle=handle, bytes=request.bytes)
        return buffer_service_pb2.AllocateResponse(buffer=buffer)

    def _free(self, request, context):
        self.frees.append(set(request.handle))
        self.asked.set()
        self.open.wait()
        if self.down:
            self.down(context)
        for handle in request.handle:
            if handle not in self.held:
                abort(context, grpc.StatusCode.NOT_FOUND, code=error_pb2.UNKNOWN_HANDLE, handle=handle)
        self.held.difference_update(request.handle)
        if not self.held:
            self.empty.set()
        return buffer_service_pb2.FreeResponse()


def unavailable(context):
    context.abort(grpc.StatusCode.UNAVAILABLE, "try again")


def without_session(context):
    abort(context, grpc.StatusCode.NOT_FOUND, code=error_pb2.UNKNOWN_HANDLE, field="kiln-session-bin")
