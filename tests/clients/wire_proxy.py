"""A way to a kilnd that may tell the client something else than the server said: messages are bytes here, and a rule
may change, keep back, repeat or cut them.

A rule is a class with any of the functions of `Rule`; tests/clients/faults.py has them by name.
"""

import concurrent.futures
import functools
import itertools
import threading

import grpc

OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.enable_http_proxy", 0)]


class Cut(Exception):
    """The call ends as if its connection had."""


class Rule:
    """Hands everything on. `call` is a dict of the call's own, for what a rule wants to remember."""

    def __init__(self):
        self.calls = {}  # how many of each method have begun

    def metadata(self, method, pairs):
        return pairs

    def request(self, method, message, call):
        """The messages to send in the place of a client's."""
        return [message]

    def answer(self, method, message, call):
        """The messages to send in the place of a server's."""
        return [message]

    def trailers(self, method, pairs):
        """Of a call that failed."""
        return pairs


class WireProxy:
    def __init__(self, target, rule):
        self.rule = rule
        self._lock = threading.Lock()
        self._channel = grpc.insecure_channel(target, OPTIONS)
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(32), options=OPTIONS)
        self._server.add_generic_rpc_handlers((self,))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = "127.0.0.1:%d" % self.port
        self._server.start()

    def close(self):
        self._server.stop(None).wait()
        self._channel.close()

    # As grpc.GenericRpcHandler has it; all calls are streams, for on the wire they are.
    def service(self, details):
        name = details.method.rsplit(".", 1)[-1].replace("/", ".")
        return grpc.stream_stream_rpc_method_handler(functools.partial(self._carry, details.method, name))

    def _carry(self, path, name, requests, context):
        rule, call = self.rule, {}
        with self._lock:
            rule.calls[name] = call["number"] = rule.calls.get(name, 0) + 1
        pairs = [pair for pair in context.invocation_metadata() if not pair[0].startswith(("user-agent", "grpc-"))]
        sent = itertools.chain.from_iterable(rule.request(name, message, call) for message in requests)
        left = context.time_remaining()
        left = None if left is None or left > 1e6 else left  # a call without a deadline has one far away
        upstream = self._channel.stream_stream(path)(sent, metadata=rule.metadata(name, pairs), timeout=left)
        context.add_callback(upstream.cancel)
        try:
            for message in upstream:
                yield from rule.answer(name, message, call)
        except Cut:
            upstream.cancel()
            context.abort(grpc.StatusCode.UNAVAILABLE, "the connection was cut")
        except grpc.RpcError as error:
            upstream.cancel()  # what a rule refused, the server need do no more for
            context.set_trailing_metadata(rule.trailers(name, tuple(error.trailing_metadata() or ())))
            context.abort(error.code(), error.details() or "")
