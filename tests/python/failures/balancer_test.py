"""Three servers behind a balancer that sends each call to the next one."""

import pathlib
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import grpc
import numpy as np
import pool as pools
import support

import kiln
from kiln.errors import from_rpc
from kiln.session import HEADER
from kiln.transport import wire
from kiln.transport.credentials import Credentials
from kiln.v1 import buffer_service_pb2, device_service_pb2, session_service_pb2

class FollowsTest(unittest.TestCase):
    def test_not_wherever_a_server_says(self):
        anyone = Credentials("host:1")
        # That something else encrypts holds for where the user has sent the token.
        readable = Credentials("host:1", token="secret", insecure=True)
        encrypted = Credentials("host:1", token="secret", tls=True)
        for address in ("gpu1.example:7437", "10.0.0.1:1", "[fe80::1]:1"):
            self.assertEqual([one.may_follow(address) for one in (anyone, encrypted, readable)], [True, True, False])
        self.assertTrue(readable.may_follow("127.0.0.1:7437"))
        for address in ("", "host", ":1", "host:", "unix:/tmp/x", "xds:host:1", "dns:///host:1", "a..b:1", "a b:1",
                        "ipv4:127.0.0.1:1,10.0.0.1:1", "127.0.0.1:1,10.0.0.1:1", "%s:1" % ("a" * 64)):  # fmt: skip
            self.assertFalse(anyone.may_follow(address), address)


@unittest.skipUnless(pools.HAPROXY, "haproxy is not installed; ./dev test installs it")
class BalancerTest(unittest.TestCase):
    def pool(self, *flags):
        made = pools.Pool([support.Server(*flags) for _ in range(3)])
        self.addCleanup(made.stop)
        return made

    def test_clients_go_to_the_server_behind_it(self):
        pool = self.pool("--advertise=127.0.0.1:0")
        reached = set()
        for more in range(4):
            # Servers take turns at calls, and clients may make as many calls each as there are servers.
            with grpc.insecure_channel(pool.address) as channel:
                for _ in range(more):
                    wire.stub(channel, "DeviceService.List")(device_service_pb2.ListDevicesRequest())
            with kiln.connect(pool.address) as client:
                reached.add(client.target)
                for i in range(20):
                    with client.buffer(np.full(1000, i, np.float32)) as buffer:
                        self.assertEqual(buffer.numpy().sum(), 1000 * i)
        self.assertLessEqual(reached, {server.address for server in pool.servers})
        self.assertGreater(len(reached), 1)

    def test_the_command_line_does_too(self):
        pool = self.pool("--advertise=127.0.0.1:0")
        with tempfile.NamedTemporaryFile("w", suffix=".uop") as graph:
            graph.write("0 CONST [] float32 2.0\n1 TUPLE [0]\n")
            graph.flush()
            for _ in range(3):
                self.assertIn("2", support.cli("--server", pool.address, "run", graph.name))

    def test_one_that_leaves_gets_no_new_clients(self):
        # A grace without end: it is cut short by the second signal.
        pool = self.pool("--advertise=127.0.0.1:0", "--admin_listen=127.0.0.1:0", "--drain_grace_seconds=3600")

        def reached():
            targets = set()
            for _ in range(6):
                with kiln.connect(pool.address) as client:
                    targets.add(client.target)
            return targets

        everyone = {server.address for server in pool.servers}
        self.assertTrue(support.eventually(lambda: reached() == everyone))
        leaving, *staying = pool.servers
        for server in staying:
            self.addCleanup(server.kill)  # not gently, or the grace would be waited for
        with kiln.connect(leaving.address) as client:
            leaving.process.send_signal(signal.SIGTERM)
            self.assertTrue(support.eventually(lambda: reached() == everyone - {leaving.address}))
            self.assertEqual(client.arange(4).numpy().sum(), 6)  # who is there is served
        leaving.process.send_signal(signal.SIGTERM)
        self.assertEqual(leaving.process.wait(60), 0)

    def test_when_it_goes_the_balancer_finds_another(self):
        pool = self.pool("--advertise=127.0.0.1:0")
        with kiln.connect(pool.address) as client:
            graph = kiln.Graph()
            x = graph.param("x", (4,), "float32")
            graph.output(x + x)
            program = client.compile(graph)
            first = client.target
            next(server for server in pool.servers if server.address == first).stop()
            np.testing.assert_array_equal(program(np.arange(4, dtype=np.float32)), [0, 2, 4, 6])
            self.assertNotEqual(client.target, first)

    def test_another_server_names_the_one_that_has_the_session(self):
        pool = self.pool("--advertise=127.0.0.1:0")
        home, other, _ = pool.servers
        with grpc.insecure_channel(home.address) as there, grpc.insecure_channel(other.address) as here:
            said = wire.stub(there, "DeviceService.List")(device_service_pb2.ListDevicesRequest())
            self.assertEqual(said.address, home.address)
            opened = wire.stub(there, "SessionService.Open")(session_service_pb2.OpenSessionRequest())
            request = buffer_service_pb2.AllocateRequest(bytes=4)
            metadata = ((HEADER, opened.token),)
            self.assertTrue(wire.stub(there, "BufferService.Allocate")(request, metadata=metadata).buffer.handle)
            with self.assertRaises(grpc.RpcError) as raised:
                wire.stub(here, "BufferService.Allocate")(request, metadata=metadata)
        error = from_rpc(raised.exception, other.address)
        self.assertIsInstance(error, kiln.KilnError)
        self.assertEqual((error.code, error.field), ("WRONG_SERVER", HEADER))
        self.assertIn(home.address, error.message)
        self.assertIs(raised.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)

    def test_only_the_server_itself_will_do(self):
        """Where another server is at that address, or none that may be gone to, the client stays."""
        with support.running() as other:
            pool = pools.Pool([support.Server("--advertise=%s" % other.address)])
            self.addCleanup(pool.stop)
            with kiln.connect(pool.address) as client:
                self.assertEqual(client.target, pool.address)
                self.assertEqual(client.arange(4).numpy().sum(), 6)
            self.assertIn(pool.address, support.cli("--server", pool.address, "devices"))

    def test_one_that_cannot_be_reached_itself_is_used_by_way_of_it(self):
        server = support.Server("--advertise=127.0.0.1:1")
        pool = pools.Pool([server])
        self.addCleanup(pool.stop)
        with kiln.connect(pool.address) as client:
            self.assertEqual(client.target, pool.address)
            self.assertEqual(client.arange(4).numpy().sum(), 6)


if __name__ == "__main__":
    unittest.main()
