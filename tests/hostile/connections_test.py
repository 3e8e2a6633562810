"""More connections than a server has descriptors, and messages that grow when they are read."""

import pathlib
import select
import socket
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import grpc
import processes
import support
from half_messages import HalfSender

import kiln
from kiln.transport import wire
from kiln.v1 import device_service_pb2

DESCRIPTORS = 200


def descriptors(process):
    return len(list(pathlib.Path("/proc/%d/fd" % process).iterdir()))


class Connections(unittest.TestCase):
    def test_a_server_without_descriptors_goes_on(self):
        process = support.Server(launcher=("prlimit", "--nofile=%d:%d" % (DESCRIPTORS, DESCRIPTORS)))
        self.addCleanup(process.stop)
        with kiln.connect(process.address) as client:
            self.assertEqual(int(client.arange(4).numpy().sum()), 6)
            quiet = descriptors(process.process.pid)
            for _ in range(3):
                taken = []
                try:
                    for _ in range(3 * DESCRIPTORS):
                        taken.append(socket.create_connection(("127.0.0.1", process.port)))
                except OSError:
                    pass
                # Who was there before is served, and the server has descriptors for itself.
                self.assertEqual(int(client.arange(5).numpy().sum()), 10)
                self.assertLess(descriptors(process.process.pid), DESCRIPTORS)
                for each in taken:
                    each.close()
                self.assertTrue(support.eventually(lambda: descriptors(process.process.pid) <= quiet))
                with kiln.connect(process.address) as another:
                    self.assertEqual(int(another.arange(6).numpy().sum()), 15)
        self.assertTrue(any("event=connection_refused" in line for line in process.log))

    def test_one_address_may_not_take_all(self):
        with support.running("--connection_limits_max_per_address=4") as server:
            taken = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(8)]
            # The first say what HTTP/2 begins with; the others hear that it is over.
            closed = 0
            for each in taken:
                each.settimeout(10)
                closed += each.recv(1) == b""
            self.assertEqual(closed, 4)
            for each in taken:
                each.close()
            with kiln.connect(server.address) as client:
                self.assertEqual(client.devices()[0].name, "CPU:0")

    def test_all_addresses_together_have_so_many_and_those_are_served(self):
        # Each from an address of its own, as all of 127.0.0.0/8 is this machine's.
        def connect(number):
            return socket.create_connection(("127.0.0.1", server.port), source_address=("127.0.1.%d" % number, 0), timeout=10)

        with support.running("--connection_limits_max_connections=6") as server, kiln.connect(server.address) as client:
            self.assertEqual(int(client.arange(4).numpy().sum()), 6)
            taken = [connect(number) for number in range(1, 13)]
            # HTTP/2 begins with something that the server says; who is one too many hears that it is over.
            let_in = [each for each in taken if each.recv(1)]
            self.assertEqual(len(let_in), 5)
            self.assertEqual(let_in, taken[:5])
            # Who is in is served, and who is not comes in once there is room: not before, and then at once.
            self.assertEqual(int(client.arange(5).numpy().sum()), 10)
            with connect(13) as late:
                self.assertEqual(late.recv(1), b"")
            for each in taken:
                each.close()

            def comes_in():
                with connect(14) as late:
                    return late.recv(1) != b""

            self.assertTrue(support.eventually(comes_in))
            with kiln.connect(server.address) as another:
                self.assertEqual(int(another.arange(6).numpy().sum()), 15)
        self.assertTrue(any("event=connection_refused" in line for line in server.log))

    def test_requests_that_never_end_have_a_bound_together(self):
        # 40 calls that stop before the last byte of 60 MiB each, which nobody has let in: 2.4 GiB.
        with support.running("--connection_limits_max_bytes=%d" % (96 << 20), "--graph_limits_max_bytes=%d" % (1 << 20)) as server:
            with kiln.connect(server.address) as client:
                self.assertEqual(int(client.arange(4).numpy().sum()), 6)
            before = processes.usage(server.process.pid).resident
            senders = [HalfSender(server.port, "/kiln.v1.DeviceService/List", 10, 60 << 20) for _ in range(4)]
            sent = rounds_without = 0
            while sent < 1 << 30 and rounds_without < 20:
                now = sum(sender.pump() for sender in senders)
                sent += now
                rounds_without = 0 if now else rounds_without + 1
                if not now:
                    select.select([sender.socket for sender in senders if not sender.ended], [], [], 0.1)
            more = processes.usage(server.process.pid).resident - before
            self.assertLess(more, 400 << 20, "%d MiB were sent" % (sent >> 20))
            for sender in senders:
                sender.close()
            with kiln.connect(server.address) as client:
                self.assertEqual(int(client.arange(5).numpy().sum()), 10)

    def test_a_connection_has_so_many_calls_and_others_wait(self):
        with support.running("--connection_limits_max_streams=4") as server, grpc.insecure_channel(server.address) as channel:
            watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
            calls = [watch(b"", timeout=60) for _ in range(4)]
            for call in calls:
                self.assertEqual(next(call), b"\x08\x01")
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            with self.assertRaises(grpc.RpcError) as caught:
                check(b"", timeout=0.2)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
            waits = check.future(b"", timeout=60)
            calls[0].cancel()
            self.assertEqual(waits.result(), b"\x08\x01")
            with kiln.connect(server.address) as client:
                self.assertEqual(client.devices()[0].name, "CPU:0")
            for call in calls:
                call.cancel()

    def test_a_compressed_message_is_refused_by_name(self):
        with support.running() as server, grpc.insecure_channel(server.address) as channel:
            describe = wire.stub(channel, "DeviceService.Describe")
            request = device_service_pb2.DescribeDeviceRequest(name="C" * (1 << 20))
            for compression in (grpc.Compression.Gzip, grpc.Compression.Deflate):
                with self.assertRaises(grpc.RpcError) as caught:
                    describe(request, compression=compression)
                self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
                self.assertIn(compression.name.lower(), caught.exception.details())
            with self.assertRaises(grpc.RpcError) as caught:
                describe(request)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)


if __name__ == "__main__":
    unittest.main()
