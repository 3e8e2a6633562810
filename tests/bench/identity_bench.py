"""What it costs a warm Execute that the server knows who asks, in one run.

    ./dev bench identity [--rounds=400] [--calls=10]

Microseconds a call as its client sees it, by credentials, in turns: a few calls of each, round after round, so that
what else the machine does is everybody's. Calls are bytes that were made beforehand, of a program that adds to four
numbers in place. Ratios are of medians, to nobody's over the same kind of connection. Four servers of one binary: one
that asks nobody and one that does, without encryption and with it. What a token costs by being sent, by this client and
by gRPC, is seen where a server is sent one that it does not look at.
"""

import argparse
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python")]

import support  # noqa: E402
import graphs  # noqa: E402
import grpc  # noqa: E402
import identities  # noqa: E402
import numpy as np  # noqa: E402

from kiln.v1 import buffer_service_pb2, kernel_service_pb2  # noqa: E402

ROW = "%-28s %8s %8s %8s"
# Of two ways to one server the second would find its caches warm, and the first would not.
UNCOUNTED = 10


class Way:
    """A connection that shows some credentials, and what its calls have taken."""

    def __init__(self, name, address, beside=None, tls=None, token=None):
        self.name, self.beside, self.seconds = name, beside or self, []
        self.metadata = None if token is None else (("authorization", "Bearer " + token),)
        self.channel = grpc.insecure_channel(address) if tls is None else grpc.secure_channel(address, tls)
        graph = graphs.update()
        compiled = self.call("KernelService/Compile", kernel_service_pb2.CompileRequest(graph=graph))
        request = kernel_service_pb2.ExecuteRequest(
            graph_hash=kernel_service_pb2.CompileResponse.FromString(compiled).graph_hash
        )
        for slot in range(2):
            made = self.call("BufferService/Allocate", buffer_service_pb2.AllocateRequest(bytes=16))
            handle = buffer_service_pb2.AllocateResponse.FromString(made).buffer.handle
            request.arguments.add(slot=slot).buffer.handle = handle
        self.request = request.SerializeToString()
        self.execute = self.channel.unary_unary("/kiln.v1.KernelService/Execute")

    def call(self, method, message):
        return self.channel.unary_unary("/kiln.v1." + method)(message.SerializeToString(), metadata=self.metadata)

    def run(self, calls, counted=True):
        for _ in range(calls):
            begin = time.perf_counter()
            self.execute(self.request, metadata=self.metadata)
            if counted:
                self.seconds.append(time.perf_counter() - begin)


def credentials(who, certificate=None):
    """For a channel; with a certificate of the client's or without."""
    files = [who.folder / "ca.pem"] + [who.folder / (certificate + end) for end in (".key", ".pem") if certificate]
    return grpc.ssl_channel_credentials(*(file.read_bytes() for file in files))


def measure(who, servers, options):
    plain, asks, tls, tls_asks = servers
    token = identities.token()
    anonymous = Way("nobody", plain.address)
    encrypted = Way("TLS: nobody", tls, tls=credentials(who))
    ways = [
        anonymous,
        Way("nobody, a token is sent", plain.address, anonymous, token="secret"),
        Way("nobody, a JSON Web Token is", plain.address, anonymous, token=token),
        Way("token", asks.address, anonymous, token="secret"),
        Way("JSON Web Token", asks.address, anonymous, token=token),
        encrypted,
        Way("TLS: token", tls_asks, encrypted, tls=credentials(who), token="secret"),
        Way("TLS: JSON Web Token", tls_asks, encrypted, tls=credentials(who), token=token),
        Way("TLS: certificate", tls_asks, encrypted, tls=credentials(who, "member")),
    ]
    for way in ways:
        way.run(500, counted=False)  # warm
    for _ in range(options.rounds):
        for way in ways:
            way.run(UNCOUNTED, counted=False)
            way.run(options.calls)
    print(ROW % ("who asks", "p50", "p99", "ratio"))
    for way in ways:
        p50, p99 = (1e6 * np.percentile(way.seconds, part) for part in (50, 99))
        ratio = np.median(way.seconds) / np.median(way.beside.seconds)
        print(ROW % (way.name, "%.1f" % p50, "%.1f" % p99, "%.3f" % ratio))


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--calls", type=int, default=10)
    options = parser.parse_args(arguments)
    # Its certificates, keys and file of tenants, and its server, which has all of them.
    who = identities.Identities
    who.setUpClass()
    try:
        encrypted = ["--tls_certificate=%s" % (who.folder / "server.pem"), "--tls_key=%s" % (who.folder / "server.key")]
        with support.running() as plain, support.running("--tenants=%s" % who.tenants) as asks:
            with support.running(*encrypted) as tls:
                addresses = plain, asks, tls.address.replace("127.0.0.1", "localhost"), who.address
                measure(who, addresses, options)
    finally:
        who.doClassCleanups()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
