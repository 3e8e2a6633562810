"""Who stops waiting for a run stops the run: Ctrl-C, and a task that is cancelled."""

import asyncio
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support
import admin
import numpy as np

import kiln
import kiln.aio

SIDE = 1 << 14  # of a cube of sums, but for a sixteenth: minutes of work


def cube():
    """The sum of exp(x·y·z) over all elements of three rows."""
    graph = kiln.Graph()
    x, y, z = (graph.param(name, (size,), "float32") for name, size in (("x", SIDE), ("y", SIDE), ("z", SIDE // 16)))
    graph.output(kiln.exp(x.reshape((-1, 1, 1)) * y.reshape((1, -1, 1)) * z).sum())
    return graph


ROWS = np.zeros(SIDE, np.float32), np.zeros(SIDE, np.float32), np.zeros(SIDE // 16, np.float32)

_CHILD = """
    import signal, sys
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it runs in the background ignore it
    sys.path[:0] = sys.argv[1:3]
    import interrupt_test, support, kiln
    with kiln.connect(sys.argv[3], stream=sys.argv[4] == "True") as client:
        kept = client.arange(4)
        program = client.compile(interrupt_test.cube())
        if sys.argv[5] == "jit":  # results that stay on the device
            run = lambda *rows: program(*rows, out="buffers")
        else:
            run = program
        print("begins", flush=True)
        try:
            run(*interrupt_test.ROWS)
        except KeyboardInterrupt as error:
            interrupted = error  # as a shell keeps the last traceback, and all that is in it
        print("stopped", kept.numpy().sum(), flush=True)
        sys.stdin.readline()
"""


class Interrupts(support.ServerTest):
    FLAGS = ("--admin_listen=127.0.0.1:0",)

    def setUp(self):
        self.admin = admin.Admin(self.server)

    def cancelled(self):
        """Wherever it was: a run may be called off before its first step."""
        return sum(value for key, value in self.admin.samples().items() if key[0] == "kiln_cancelled_total")

    def runs(self):
        return self.admin.samples()["kiln_device_queue_entries", "CPU:0"] > 0

    def test_the_program_is_long(self):
        self.assertGreater(self.client.compile(cube()).cost.run_ns, 10e9)

    def test_control_c(self):
        for stream in (True, False):
            for how in ("call", "jit"):
                with self.subTest(stream=stream, how=how):
                    self.interrupt(stream, how)

    def interrupt(self, stream, how):
        before, here = self.cancelled(), pathlib.Path(__file__).resolve().parent
        child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(_CHILD), str(here), str(here.parent),
                                  self.server.address, str(stream), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 text=True)  # fmt: skip
        self.addCleanup(child.kill)
        with child.stdin, child.stdout:
            self.assertEqual(child.stdout.readline(), "begins\n")
            self.assertTrue(support.eventually(self.runs))
            os.kill(child.pid, signal.SIGINT)
            self.assertEqual(child.stdout.readline(), "stopped 6\n")
            self.assertTrue(support.eventually(lambda: self.cancelled() == before + 1))  # while the child lives
            self.assertTrue(support.eventually(lambda: not self.runs()))
            child.stdin.write("\n")
        self.assertEqual(child.wait(), 0)

    def test_a_task_that_is_cancelled(self):
        async def main():
            async with await kiln.aio.connect(self.server.address) as client:
                program, kept = await client.compile(cube()), await client.arange(4)
                before, task = self.cancelled(), asyncio.ensure_future(program(*ROWS))
                loop = asyncio.get_running_loop()
                self.assertTrue(await loop.run_in_executor(None, support.eventually, self.runs))
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertEqual((await kept.numpy()).sum(), 6)
                ended = await loop.run_in_executor(None, support.eventually, lambda: self.cancelled() == before + 1)
                self.assertTrue(ended)

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
