"""Data through memory that client and server share: the same bytes, and none on the wire."""

import gc
import pathlib
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import numpy as np

import kiln
from kiln.transport.shared_memory import PIECE, offered

MIB = 1 << 20


def connect(server, **settings):
    client = kiln.connect(server.address, **settings)
    return client


def wire_bytes(client):
    return sum(row.sent_bytes + row.received_bytes for row in client.traffic.values())


class SharedMemoryTest(support.ServerTest):
    FLAGS = ("--shared_memory_max_bytes=%d" % (64 * MIB),)

    def test_is_chosen_by_itself(self):
        self.assertIn("shared_memory", self.client.features)
        self.assertEqual(self.client.transport, "shared memory")
        with connect(self.server, shared_memory=False) as client:
            self.assertEqual(client.transport, "tcp")

    def test_bytes_arrive(self):
        for size in (0, 1, 7, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 1, 5 * PIECE + 13):
            data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
            with self.client.buffer(data) as buffer:
                before = wire_bytes(self.client)
                np.testing.assert_array_equal(buffer.numpy(), data)
                self.assertLess(wire_bytes(self.client) - before, 1024)
                before = wire_bytes(self.client)
                buffer.write(data[::-1].copy())
                self.assertLess(wire_bytes(self.client) - before, 1024)
                np.testing.assert_array_equal(buffer.numpy(), data[::-1])

    def test_parts_and_dtypes(self):
        with self.client.buffer(np.arange(1000, dtype=np.float32)) as buffer:
            buffer.write(np.array([-1, -2], np.float32), start=500)
            np.testing.assert_array_equal(buffer.read(498, 5), [498, 499, -1, -2, 502])
            target = np.zeros(4, np.float32)
            buffer.read_into(target, 8)
            np.testing.assert_array_equal(target, [2, 3, 4, 5])

    def test_a_shared_array_is_moved_as_it_lies(self):
        array = self.client.shared_empty((3, MIB), "float32")
        self.assertEqual((array.shape, array.dtype, array.any()), ((3, MIB), np.float32, False))
        array[:] = np.arange(3 * MIB, dtype=np.float32).reshape(3, MIB)
        with self.client.buffer(array) as buffer:
            calls = self.client.traffic["BufferService.Copy"].calls
            buffer.write(array)
            self.assertEqual(self.client.traffic["BufferService.Copy"].calls, calls + 1)
            array[:] = 0
            buffer.read_into(array)
            np.testing.assert_array_equal(array[2, :3], [2 * MIB, 2 * MIB + 1, 2 * MIB + 2])
            # A part of it lies in it, too.
            array[:] = 1
            buffer.write_bytes(array[1].view(np.uint8), 4)
            np.testing.assert_array_equal(buffer.read(0, 3), [0, 1, 1])

    def test_a_shared_array_is_given_back_with_its_last_part(self):
        part = self.client.shared_empty((40 * MIB,), "uint8")[5:7]
        with self.assertRaises(kiln.errors.ResourceExhausted) as caught:
            self.client.shared_empty((40 * MIB,), "uint8")
        self.assertEqual(caught.exception.limit, "shared memory bytes")
        del part
        gc.collect()

        def room():
            try:
                return self.client.shared_empty((40 * MIB,), "uint8").size
            except kiln.errors.ResourceExhausted:
                return 0

        self.assertTrue(support.eventually(room))

    def test_progress_counts_and_may_end_it(self):
        seen = []
        data = np.ones(2 * PIECE + 5, np.uint8)
        with self.client.buffer(data, progress=lambda done, total: seen.append((done, total))) as buffer:
            total = len(data)
            self.assertEqual(seen, [(0, total), (PIECE, total), (2 * PIECE, total), (total, total)])

            def stop(done, total):
                if done:
                    raise KeyboardInterrupt

            with self.assertRaises(KeyboardInterrupt):
                buffer.write(data * 2, progress=stop)
            buffer.write(data * 3)
            np.testing.assert_array_equal(buffer.numpy(), data * 3)

    def test_clients_that_go_leave_nothing(self):
        # Each takes 8 MiB of 64.
        for number in range(20):
            with connect(self.server) as client:
                if client.transport != "shared memory":  # the last one's is still on its way back
                    continue
                with client.buffer(np.full(10, number)) as buffer:
                    self.assertEqual(buffer.numpy().sum(), 10 * number)

        def shared():
            with connect(self.server) as client:
                return client.transport == "shared memory"

        self.assertTrue(support.eventually(shared))

    def test_what_is_outside_the_buffer_is_refused(self):
        with self.client.buffer(np.zeros(10, np.uint8)) as buffer:
            with self.assertRaises(kiln.errors.OutOfRange) as caught:
                buffer.write_bytes(b"12345678", 5)
            self.assertEqual(caught.exception.code, "OUT_OF_BOUNDS")
            self.assertEqual(self.client.transport, "shared memory")
        handle = buffer._handle
        self.assertIsNone(handle)

    def test_copies_that_are_none_are_refused(self):
        request = kiln.v1.buffer_service_pb2.CopyRequest
        with connect(self.server) as client, client.buffer(np.zeros(10, np.uint8)) as buffer:
            call = client._connection.call
            shared = {"handle": client._connection.shared_memory._staging.handle}
            ref = buffer.ref()
            for sides in ({"from_shared": shared, "to_shared": shared}, {"from_shared": shared},
                          {"from_shared": shared, "to": ref, "from": ref}, {"to_shared": shared, "to": ref}):
                with self.assertRaises(kiln.errors.InvalidArgument, msg=str(sides)):
                    call("BufferService.Copy", request(bytes=1, **sides))
            with self.assertRaises(kiln.errors.OutOfRange):
                call("BufferService.Copy", request(bytes=1, to=ref, from_shared=dict(shared, offset=2 * PIECE)))
            for stranger in ({"handle": 4711}, {"handle": buffer.handle}):
                with self.assertRaises(kiln.errors.NotFound):
                    call("BufferService.Copy", request(bytes=1, to=ref, from_shared=stranger))
            # Memory of one session is nothing to another.
            with connect(self.server) as other, other.buffer([1]) as theirs:
                with self.assertRaises(kiln.errors.NotFound):
                    other._connection.call("BufferService.Copy", request(bytes=1, to=theirs.ref(), from_shared=shared))

    def test_threads_share_the_pieces(self):
        failures = []

        def work(seed):
            data = np.random.default_rng(seed).integers(0, 256, PIECE + seed, np.uint8)
            with self.client.buffer(data) as buffer:
                for _ in range(5):
                    if not np.array_equal(buffer.numpy(), data):
                        failures.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


class OfferedTest(unittest.TestCase):
    def test_a_server_elsewhere_does_not_say_which_socket_is_opened_here(self):
        def call(name, request):
            raise AssertionError("%s was called" % name)

        for target in ("10.0.0.1:1", "gpu.example:7437", "localhost.example:1"):
            self.assertIsNone(offered(target, call, call, ["shared_memory"]))


class WithoutTest(support.ServerTest):
    """A server that shares none, or too little."""

    def test_whoever_asks_all_the_same_is_told(self):
        with self.client.buffer([1]) as buffer, self.assertRaises(kiln.errors.Unimplemented):
            self.client._connection.call("BufferService.Copy", kiln.v1.buffer_service_pb2.CopyRequest(
                bytes=1, to=buffer.ref(), from_shared={"handle": 1}))  # fmt: skip
        with self.assertRaises(kiln.errors.Unimplemented):
            self.client._connection.call("BufferService.MapSharedMemory",
                                         kiln.v1.buffer_service_pb2.MapSharedMemoryRequest(bytes=1))  # fmt: skip

    def test_it_is_off_by_itself(self):
        self.assertNotIn("shared_memory", self.client.features)
        self.assertEqual(self.client.transport, "tcp")
        array = self.client.shared_empty((3,), "int32")
        with self.client.buffer(array + 1) as buffer:
            np.testing.assert_array_equal(buffer.numpy(), [1, 1, 1])

    def test_no_room_means_the_socket(self):
        server = support.Server("--shared_memory_max_bytes=1000")
        self.addCleanup(server.stop)
        with connect(server) as client:
            self.assertEqual(client.transport, "tcp")
            with client.buffer([1, 2, 3]) as buffer:
                np.testing.assert_array_equal(buffer.numpy(), [1, 2, 3])


class LostSessionTest(support.ServerTest):
    FLAGS = ("--shared_memory_max_bytes=%d" % (64 * MIB),)

    def test_a_new_session_uses_the_socket(self):
        client = connect(self.server)
        self.addCleanup(client.close)
        buffer = client.buffer([1.0])
        # As if its lease had run out.
        client._connection.session._call(
            "SessionService.Close", kiln.v1.session_service_pb2.CloseSessionRequest(token=client._connection.session.token),
            None)  # fmt: skip
        with self.assertRaises(kiln.KilnError):
            buffer.numpy()

        def works():
            try:
                with client.buffer([2.0]) as again:
                    return again.numpy()[0] == 2.0
            except kiln.KilnError:
                return False

        self.assertTrue(support.eventually(works))


if __name__ == "__main__":
    unittest.main()
