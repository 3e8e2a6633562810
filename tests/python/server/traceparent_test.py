"""kiln.traceparent: calls are part of their caller's trace, each thread's and task's of its own, and take effect in order."""

import asyncio
import pathlib
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support
import numpy as np

import kiln
import kiln.aio
from kiln.v1 import debug_service_pb2

SPAN = "b7ad6b7169203331"


def parent(number):
    return "00-%032x-%s-01" % (number, SPAN)


class Traces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = support.Server()
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        self.client = kiln.connect(self.server.address)
        self.addCleanup(self.client.close)

    def methods(self, number):
        """What the server was called for as part of a trace, the first first."""
        answer = self.client._connection.call("DebugService.Trace", debug_service_pb2.TraceRequest())
        calls = [call for call in answer.calls if call.trace_id == number.to_bytes(16, "big")]
        return [call.method for call in sorted(calls, key=lambda call: call.begin_ns)]

    def counting(self):
        graph = kiln.Graph()
        x = graph.param("x", (4,))
        graph.update(x, x + 1.0)
        return self.client.compile(graph)

    def test_all_that_is_called_within_and_nothing_else(self):
        program, before = self.counting(), self.client.buffer(np.zeros(4, np.float32))
        with kiln.traceparent(parent(1)):
            buffer = self.client.buffer(np.float32([1, 2, 3, 4]))
            program.run([buffer], out="buffers")
            with kiln.traceparent(None):
                program.run([buffer], out="buffers")
        program.run([before], out="buffers")
        self.assertEqual(buffer.numpy().tolist(), [3, 4, 5, 6])
        said = self.methods(1)
        self.assertEqual([name for name in said if name.endswith(("Allocate", "Execute"))],
                         ["BufferService.Allocate", "KernelService.Execute"])  # fmt: skip

    def test_what_was_sent_before_comes_first(self):
        program, buffer = self.counting(), self.client.buffer(np.zeros(4, np.float32))
        for number in range(20):
            program.run([buffer], out="buffers")
            with kiln.traceparent(parent(100 + number)):
                program.run([buffer], out="buffers")
                self.assertEqual(buffer.numpy().tolist(), [2.0 * number + 2] * 4)

    def test_compilations_too_and_functions(self):
        """A compilation is called by another thread, so that Ctrl-C ends it."""
        with kiln.traceparent(parent(2)):
            self.assertEqual(kiln.jit(lambda x: x * 3.0 + 2.0)(np.float32([1, 2])).numpy().tolist(), [5, 8])
        said = self.methods(2)
        self.assertIn("KernelService.Compile", said)
        self.assertIn("KernelService.Execute", said)

    def test_threads_and_tasks_have_their_own(self):
        def work(number):
            with kiln.traceparent(parent(number)):
                self.client.buffer(np.zeros(number, np.float32))

        threads = [threading.Thread(target=work, args=(number,)) for number in (3, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        async def task(client, number):
            with kiln.traceparent(parent(number)):
                buffer = await client.buffer(np.zeros(number, np.float32))
                return (await buffer.numpy()).shape

        async def both():
            async with await kiln.aio.connect(self.server.address) as client:
                return await asyncio.gather(task(client, 5), task(client, 6))

        self.assertEqual(asyncio.run(both()), [(5,), (6,)])
        for number in (3, 4, 5, 6):
            self.assertEqual(self.methods(number).count("BufferService.Allocate"), 1, number)

    def test_what_is_no_traceparent(self):
        later, zeros = "01" + parent(7)[2:], "00-%s-%s-01"
        for value in ("", "00", parent(1) + "\n", parent(1).upper(), parent(1)[1:], parent(1) + "0", parent(1) + "-more",
                      "ff" + parent(1)[2:], zeros % ("0" * 32, "1" * 16), zeros % ("1" * 32, "0" * 16)):  # fmt: skip
            with self.subTest(value), self.assertRaises(kiln.InvalidArgument) as raised:
                with kiln.traceparent(value):
                    self.fail("it was taken")
            self.assertEqual(raised.exception.code, "BAD_ARGUMENT")
        for value in (later, later + "-more"):
            with kiln.traceparent(value):
                pass


if __name__ == "__main__":
    unittest.main()
