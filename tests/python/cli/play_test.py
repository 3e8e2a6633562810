"""kilnd --capture and kiln play: the same answers bit for bit, and a difference found and named.

KILN_CLI names the `kiln` command; by default it is the one that Bazel built.
"""

import asyncio
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support
import graphs
import grpc
import numpy as np
from proxy import Proxy

import kiln
import kiln.aio
from kiln.v1 import buffer_service_pb2, capture_pb2, kernel_service_pb2, session_service_pb2

KILN = pathlib.Path(os.environ.get("KILN_CLI", support.ROOT / "bazel-bin" / "client" / "cli" / "kiln"))
RNG = np.random.default_rng(3)


def layer():
    """softmax(w @ x) for w[16, 16], x[16]: sums, whose order shows in the last bits."""
    graph = kiln.Graph()
    w, x = graph.param("w", (16, 16), "float32"), graph.param("x", (16,), "float32")
    graph.output(kiln.softmax(w @ x))
    return graph


def read_entries(path):
    data, entries, at = path.read_bytes(), [], 0
    while at < len(data):
        size, shift = 0, 0
        while True:
            byte = data[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        entries.append(capture_pb2.CaptureEntry.FromString(data[at : at + size]))
        at += size
    return entries


def write_entries(path, entries):
    with path.open("wb") as file:
        for entry in entries:
            body, head = entry.SerializeToString(), bytearray()
            size = len(body)
            while size >= 0x80:
                head.append(size & 0x7F | 0x80)
                size >>= 7
            file.write(bytes(head) + bytes((size,)) + body)


class Play(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "session.kilncap"

    def capture(self, session, *flags):
        """Runs `session(address)` on a kilnd that captures it; the server's log."""
        server = support.Server("--capture=%s" % self.file, *flags)
        try:
            session(server.address)
        finally:
            server.stop()
        return "".join(server.log)

    def play(self, *flags):
        command = [str(KILN), "play", str(self.file), "--backend=cpu", "--kilnd=%s" % support.KILND, *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout, done.stderr

    def play_well(self):
        status, out, err = self.play()
        self.assertEqual((status, err), (0, ""), out)
        return out

    # -- what is captured

    def calls_of_their_own(self, address):
        with kiln.connect(address, stream=False) as client:
            program, update = client.compile(layer()), client.compile(graphs.update(shape=(16,)))
            w, x = RNG.standard_normal((16, 16)).astype(np.float32), RNG.standard_normal(16).astype(np.float32)
            weights, state = client.buffer(w), client.buffer(x)
            for _ in range(5):
                y = program(weights, state, out="buffers")
                update(state, y)
            program(w, x)
            self.assertTrue(np.isfinite(state.numpy()).all())
            part = state.view((8,), start=4).fill(1)
            state.copy().read(2, 5)
            with self.assertRaises(kiln.NotFound):
                client.describe(part.free() or part)
            with self.assertRaises(kiln.InvalidArgument):
                program(w)
            large = client.buffer(RNG.integers(0, 256, (3 << 20) + 5, dtype=np.uint8))
            large.numpy()

    def commands(self, address):
        with kiln.connect(address) as client:
            program, update = client.compile(layer()), client.compile(graphs.update(shape=(16,)))
            weights = client.buffer(RNG.standard_normal((16, 16)).astype(np.float32))
            state = client.buffer(RNG.standard_normal(16).astype(np.float32))
            for _ in range(20):
                update(state, program(weights, state, out="buffers"))
            state.copy().view((4,), start=4).numpy()
            poisoned = program(weights, client.allocate(12).write_bytes(np.ones(3, np.float32)), out="buffers")
            with self.assertRaises(kiln.InvalidArgument):
                poisoned.numpy()
            client.fence()
            state.numpy()

    def several_clients(self, address):
        self.calls_of_their_own(address)
        with kiln.connect(address) as one, kiln.connect(address, lease=0) as two:
            update = one.compile(graphs.update(shape=(16,)))
            mine, theirs = one.buffer(np.ones(16, np.float32)), two.buffer(np.full(16, 2, np.float32))
            for _ in range(5):
                update(mine, np.ones(16, np.float32))
                two.compile(graphs.update(shape=(16,)))(theirs, np.full(16, 3, np.float32))
            self.assertEqual(mine.numpy()[0], 6)
            self.assertEqual(theirs.numpy()[0], 17)
            recording = one.record([(update, [kiln.Memory(0), kiln.Memory(1)])] * 3)
            recording(mine, one.buffer(np.ones(16, np.float32)))
            self.assertEqual(mine.numpy()[0], 9)
        self.commands(address)

        async def awaited():
            async with await kiln.aio.connect(address) as client:
                program = await client.compile(layer())
                y = await program(np.ones((16, 16), np.float32), np.ones(16, np.float32), out="buffers")
                await y.numpy()

        asyncio.run(awaited())

    # -- and played

    def test_calls_of_their_own(self):
        self.capture(self.calls_of_their_own)
        self.assertRegex(self.play_well(), r"the capture is whole")

    def test_commands_of_a_stream(self):
        self.capture(self.commands)
        out = self.play_well()
        self.assertGreater(int(re.search(r"([\d]+) commands", out).group(1)), 40)
        self.assertEqual(len(re.findall(r"^[0-9a-f]{16} ", out, re.MULTILINE)), 2, out)  # a line a program

    def test_a_stream_that_was_taken_up_again(self):
        def session(address):
            proxy = Proxy(int(address.split(":")[1]))
            self.addCleanup(proxy.close)
            with kiln.connect(proxy.address) as client:
                for step in range(4):
                    self.assertEqual(client.buffer(np.full(8, step, np.float32)).numpy()[0], step)
                    if step % 2:
                        proxy.cut()
                for step in range(4, 8):
                    self.assertEqual(client.buffer(np.full(8, step, np.float32)).numpy()[0], step)

        self.capture(session)
        self.play_well()

    def test_sessions_that_have_ended(self):
        def session(address):
            with kiln.connect(address, stream=False, lease=3600) as client:
                connection = client._connection
                metadata = connection.session.metadata
                close = session_service_pb2.CloseSessionRequest(token=connection.session.token)
                connection.call("SessionService.Close", close)
                allocate = connection.stub("BufferService.Allocate")
                with self.assertRaises(grpc.RpcError):
                    allocate(buffer_service_pb2.AllocateRequest(bytes=64), metadata=metadata)

        self.capture(session)
        self.play_well()

    def test_several_clients(self):
        self.capture(self.several_clients)
        self.play_well()

    def test_several_devices(self):
        def session(address):
            with kiln.connect(address) as client:
                parts = [client.buffer(np.full(64, i + 1.0), np.float32, device="CPU:%d" % i) for i in range(3)]
                client.all_reduce(parts, wait=False)
                client.all_reduce(parts)
                self.assertEqual(parts[2].numpy()[0], 18)

        self.capture(session, "--cpu_devices=3")
        self.play_well()

    def test_a_changed_payload_is_found_and_named(self):
        self.capture(self.commands)
        entries, changed = read_entries(self.file), None
        for entry in entries:
            if entry.HasField("received") and changed is None:
                request = kernel_service_pb2.SubmitRequest.FromString(entry.received.message)
                if request.WhichOneof("command") == "write" and len(request.write.data) == 64:
                    data = np.frombuffer(request.write.data, np.float32).copy()
                    data[3] += 1
                    request.write.data = data.tobytes()
                    entry.received.message = request.SerializeToString()
                    changed = entry.received.call
        write_entries(self.file, entries)
        status, _, err = self.play()
        self.assertEqual(status, 1)
        self.assertRegex(err, r"call %d, KernelService\.Submit, command \d+, program [0-9a-f]{64}, \[\d+\]" % changed)
        self.assertRegex(err, r"captured: -?[\d.e-]+ \(0x[0-9a-f]{8}\)\s+played: -?[\d.e-]+ \(0x[0-9a-f]{8}\)")

    def test_a_torn_end(self):
        self.capture(self.commands)
        data = self.file.read_bytes()
        self.file.write_bytes(data[: len(data) - 1])
        self.assertIn("torn", self.play_well())
        self.file.write_bytes(b"\x05hello")
        status, _, err = self.play()
        self.assertEqual(status, 1)
        self.assertIn("is no capture of kilnd's", err)

    def test_a_server_that_is_killed(self):
        server = support.Server("--capture=%s" % self.file)
        self.addCleanup(server.stop)
        client = kiln.connect(server.address, lease=1)
        self.addCleanup(client.close)
        program = client.compile(layer())
        program(np.ones((16, 16), np.float32), np.ones(16, np.float32))
        server.kill()
        self.assertIn("without its end mark", self.play_well())

    def test_its_size_is_bounded(self):
        log = self.capture(self.calls_of_their_own, "--capture_max_bytes=20000")
        self.assertIn("event=capture_full", log)
        self.assertLessEqual(self.file.stat().st_size, 20000)
        self.assertIn("where it was full", self.play_well())

    def test_it_has_no_token_and_is_nobody_elses_to_read(self):
        tokens = []

        def session(address):
            self.commands(address)
            for _ in range(3):
                with kiln.connect(address, token="a secret of mine") as client:
                    tokens.append(client._connection.session.token)
                    client.buffer(np.ones(4)).numpy()

        self.capture(session)
        data = self.file.read_bytes()
        for token in tokens + [b"a secret of mine"]:
            self.assertNotIn(token, data)
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)

    def test_it_has_no_token_of_what_is_no_message_or_has_not_its_place(self):
        token, other = b"sixteen bytes!!!", b"a second one of mine"
        hello = kernel_service_pb2.SubmitRequest()
        hello.hello.session_token = token
        later = kernel_service_pb2.SubmitRequest(command_id=1)
        later.hello.session_token = other
        closing = session_service_pb2.CloseSessionRequest(token=token).SerializeToString()

        def session(address):
            with grpc.insecure_channel(address) as channel:
                with self.assertRaises(grpc.RpcError):
                    channel.unary_unary("/kiln.v1.SessionService/Close")(closing + b"\x0a\x7f")
                submit = channel.stream_stream("/kiln.v1.KernelService/Submit")
                plain = kernel_service_pb2.SubmitRequest(hello=kernel_service_pb2.SubmitHello()).SerializeToString()
                for messages in ((hello.SerializeToString(),), (plain, later.SerializeToString()),
                                 (hello.SerializeToString() + b"\x12\x7f",)):  # fmt: skip
                    with self.assertRaises(grpc.RpcError):
                        list(submit(iter(messages)))

        self.capture(session)
        data = self.file.read_bytes()
        self.assertIn(b"KernelService.Submit", data)
        for secret in (token, other):
            self.assertNotIn(secret, data)

    def test_what_would_leave_gaps_is_refused(self):
        for flag in ("--shared_memory_max_bytes=1000000", "--program_cache_dir=%s" % self.file.parent):
            done = subprocess.run([str(support.KILND), "--capture=%s" % self.file, flag, "--check_config"],
                                  capture_output=True, text=True)  # fmt: skip
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("capture: ", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
