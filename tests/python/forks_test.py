"""A forked child of a connected process: it is told, never waits, and does its parent no harm."""

import asyncio
import gc
import multiprocessing
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import graphs
import numpy as np

import kiln
import kiln.aio

X = np.arange(4, dtype=np.float32)


def in_child(function):
    """What `function()` gives in a forked child, or what it raises; AssertionError if the child does not end."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # longer than anything takes that does not hang
        try:
            answer = function()
        except BaseException as error:
            answer = error
        try:
            os.write(write, pickle.dumps(answer))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if status != 0 or not data:
        raise AssertionError("the child ended with %d" % status)
    return pickle.loads(data)


def refusals(*uses):
    """The classes of what each raises."""
    found = []
    for use in uses:
        try:
            use()
            found.append(None)
        except kiln.KilnError as error:
            found.append((type(error).__name__, "forked" in str(error) and "spawn" in error.remedy))
    return found


TOLD = ("FailedPrecondition", True)


class Forks(support.ServerTest):
    def test_a_child_is_told_and_its_parent_goes_on(self):
        for stream in (True, False):
            with kiln.connect(self.server.address, lease=2, stream=stream) as client:
                add, update = (client.compile(graph) for graph in (graphs.elementwise("ADD"), graphs.update()))
                recording = client.record([(update, [kiln.Memory(0), kiln.Memory(1)])])
                x, y = client.buffer(X), client.buffer(X)
                uses = (lambda: add(x, y), lambda: add(x, y, out="buffers"), lambda: update(x, y), lambda: recording(x, y),
                        x.numpy, lambda: x.fill(1), lambda: x.write(X), x.copy, lambda: x[1:], lambda: client.buffer(X),
                        lambda: client.empty(1 << 22), lambda: client.compile(graphs.elementwise("MUL")), client.devices,
                        lambda: client.arange(5), client.health, lambda: client.buffer(np.zeros(1 << 22, np.float32)),
                        lambda: client.all_reduce([x]), lambda: kiln.connect(self.server.address))  # fmt: skip
                for _ in range(3):
                    update(x, y)  # something is on its way
                    self.assertEqual(in_child(lambda: refusals(*uses)), [TOLD] * len(uses))
                self.assertEqual(x.numpy().tolist(), (4 * X).tolist())
                self.assertEqual(add(x, y).tolist(), (5 * X).tolist())
                token = client._connection.session.token
                renewed = []
                call = client._connection.session._call
                client._connection.session._call = lambda name, *rest: (call(name, *rest), renewed.append(name))[0]
                self.assertTrue(support.eventually(lambda: len(renewed) >= 2))
                self.assertEqual(client._connection.session.token, token)

    def test_what_a_child_drops_frees_nothing(self):
        before = self.in_use()
        buffers = [self.client.buffer(X) for _ in range(8)]

        def drop():
            buffers.pop().free()
            with buffers.pop(), self.client:
                pass
            buffers.clear()
            gc.collect()
            self.client.flush_frees()
            self.client.close()

        kept = list(buffers)
        self.assertIsNone(in_child(lambda: kept.clear() or drop()))
        self.assertEqual([buffer.numpy().tolist() for buffer in kept], [X.tolist()] * 8)
        del buffers, kept
        self.settle(before)

    def test_a_child_that_ends_as_a_process_does(self):
        code = """
            import gc, os, signal, sys
            sys.path.insert(0, sys.argv[1])
            import asyncio, support, graphs, kiln, kiln.aio
            import numpy as np
            client = kiln.connect(sys.argv[2])
            kept, add = client.buffer(np.ones(4, np.float32)), client.compile(graphs.elementwise("ADD"))
            y = add(kept, kept, out="buffers")
            shared = client.shared_empty(8)

            loop = asyncio.new_event_loop()
            waiting = loop.run_until_complete(kiln.aio.connect(sys.argv[2]))
            buffer = loop.run_until_complete(waiting.buffer(np.ones(3)))

            for how in range(4):
                child = os.fork()
                if child == 0:
                    signal.alarm(30)
                    if how == 1:
                        del client, kept, add, y, shared, waiting, buffer, loop
                        gc.collect()
                    if how == 2:
                        client.close()
                    if how == 3:
                        try:
                            kept.numpy()
                        except kiln.FailedPrecondition:
                            sys.exit(0)
                        sys.exit(3)
                    sys.exit(0)
                assert os.waitpid(child, 0)[1] == 0, how
                assert add(y, kept).tolist() == [3] * 4
                assert kept.numpy().tolist() == [1] * 4
                assert loop.run_until_complete(buffer.numpy()).tolist() == [1] * 3
            loop.run_until_complete(waiting.close())
        """
        before = self.in_use()
        self.run_alone(code)
        self.settle(before)

    def test_awaited(self):
        async def main():
            async with await kiln.aio.connect(self.server.address) as client:
                buffer, program = await client.buffer(X), await client.compile(graphs.update())

                async def use():
                    found = []
                    for one in (buffer.numpy, buffer.copy, lambda: program(buffer, X), client.devices, client.fence,
                                lambda: client.buffer(np.zeros(1 << 22, np.float32)), client.health,
                                lambda: kiln.aio.connect(self.server.address)):  # fmt: skip
                        try:
                            await one()
                            found.append(None)
                        except kiln.FailedPrecondition as error:
                            found.append("forked" in str(error))
                    await client.close()
                    return found

                # Nothing of it waits, so no loop is needed to run it.
                def run():
                    try:
                        use().send(None)
                    except StopIteration as end:
                        return end.value

                self.assertEqual(in_child(run), [True] * 8)
                await program(buffer, X)
                self.assertEqual((await buffer.numpy()).tolist(), (2 * X).tolist())

        asyncio.run(main())

    def test_multiprocessing(self):
        buffer = self.client.buffer(X)
        context = multiprocessing.get_context("fork")
        with context.Pool(2) as pool:
            self.assertEqual(pool.map(abs, [-1, 2]), [1, 2])
            with self.assertRaises(kiln.FailedPrecondition) as caught:
                pool.apply(support.connect_anew, (self.server.address,))
            self.assertIn("forked", str(caught.exception))
        self.assertEqual(buffer.numpy().tolist(), X.tolist())
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            self.assertEqual(pool.apply(support.connect_anew, (self.server.address,)), 3)

    def test_a_process_that_is_not_connected_may_fork_and_its_children_connect(self):
        code = """
            import os, signal, sys
            sys.path.insert(0, sys.argv[1])
            import support, kiln
            for _ in range(4):
                child = os.fork()
                if child == 0:
                    signal.alarm(30)
                    with kiln.connect(sys.argv[2]) as client:
                        sys.exit(int(client.arange(5).numpy().sum()))
                assert os.waitpid(child, 0)[1] == 10 << 8
        """
        self.run_alone(code)

    def test_where_grpc_was_told_of_forks_children_connect_too(self):
        code = """
            import os, signal, sys
            sys.path.insert(0, sys.argv[1])
            import support, kiln
            with kiln.connect(sys.argv[2]) as client:
                kept, ends = client.arange(7), []
                while 10 << 8 not in ends:
                    assert len(ends) < 50, ends
                    child = os.fork()
                    if child == 0:
                        signal.alarm(30)
                        try:
                            kept.numpy()
                            sys.exit(1)
                        except kiln.FailedPrecondition:
                            pass
                        try:
                            mine = kiln.connect(sys.argv[2])
                        except kiln.FailedPrecondition:  # gRPC was busy, and did not make way
                            sys.exit(2)
                        with mine:
                            sys.exit(int(mine.arange(5).numpy().sum()))
                    ends.append(os.waitpid(child, 0)[1])
                    assert ends[-1] in (10 << 8, 2 << 8), ends
                    assert kept.numpy().sum() == 21
        """
        self.run_alone(code, GRPC_ENABLE_FORK_SUPPORT="1")

    def run_alone(self, code, **environment):
        arguments = [str(pathlib.Path(__file__).parent), self.server.address]
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), *arguments], timeout=100,
                              stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
