"""A short call waits for what is wanted of it (kiln/deferred.py): what it saves, and that nobody can tell otherwise."""

import contextlib
import pathlib
import sys
import threading
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support
import numpy as np

import kiln
import kiln.program
from kiln.errors import BufferFreed

X = np.arange(4, dtype=np.float32)


def calls(client):
    return {name: row.calls for name, row in client.traffic.items()}


class Deferred(support.ServerTest):
    def moved(self, before):
        after = calls(self.client)
        return {name: count - before.get(name, 0) for name, count in after.items() if count != before.get(name, 0)}

    def test_a_result_that_is_read_next_comes_along(self):
        f, x = kiln.jit(lambda x: x + 1.0), kiln.array(X)
        self.assertEqual(f(x).tolist(), [1, 2, 3, 4])
        self.client.fence()
        memory, before = self.in_use(), calls(self.client)
        y = f(x)
        self.assertEqual(calls(self.client), before)
        self.assertEqual((y.shape, y.dtype, y.device), ((4,), kiln.float32, x.device))
        self.assertEqual(y.tolist(), [1, 2, 3, 4])
        self.assertEqual(self.moved(before), {"KernelService.Execute": 1})
        self.assertEqual(self.in_use(), memory)

    def test_of_a_numpy_array_too(self):
        f = kiln.jit(lambda x: x * 2.0)
        f(X).tolist()
        before = calls(self.client)
        self.assertEqual(f(X).tolist(), [0, 2, 4, 6])
        self.assertEqual(self.moved(before), {"KernelService.Execute": 1})

    def test_two_results_come_with_one_reading(self):
        f = kiln.jit(lambda x: (x + 1.0, x.sum()))
        f(X)
        self.client.fence()
        one, other = f(X)
        before = calls(self.client)
        self.assertEqual((float(other), one.tolist()), (6, [1, 2, 3, 4]))
        self.assertEqual(self.moved(before), {"KernelService.Execute": 1})

    def test_what_is_read_is_ones_own(self):
        y = kiln.jit(lambda x: x + 1.0)(X)
        first = y.numpy()
        first[:] = 9
        self.assertEqual(y.tolist(), [1, 2, 3, 4])

    def test_an_argument_may_change_after_the_call(self):
        x = X.copy()
        y = kiln.jit(lambda x: x + 1.0)(x)
        x[:] = 100
        self.assertEqual(y.tolist(), [1, 2, 3, 4])
        big_endian, strided = X.astype(">f4"), np.arange(8, dtype=np.float32)[::2]
        self.assertEqual(kiln.jit(lambda x: x + 1.0)(big_endian).tolist(), [1, 2, 3, 4])
        self.assertEqual(kiln.jit(lambda x: x + 1.0)(strided).tolist(), [1, 3, 5, 7])

    def test_an_argument_may_be_given_up_after_the_call(self):
        f, step = kiln.jit(lambda x: x + 1.0), kiln.jit(lambda x: x * 10.0, donate_argnums=0)
        x = kiln.array(X)
        y = f(x)
        z = step(x)
        self.assertEqual((y.tolist(), z.tolist()), ([1, 2, 3, 4], [0, 10, 20, 30]))
        x = kiln.array(X)
        y = f(x)
        x.buffer.free()
        self.assertEqual(y.tolist(), [1, 2, 3, 4])
        x = kiln.array(X)
        y = f(x)
        x.buffer.fill(7.0)
        self.assertEqual(y.tolist(), [1, 2, 3, 4])

    def test_a_state_may_change_after_the_call(self):
        state = kiln.State(kiln.array(X))

        @kiln.jit
        def step(state):
            state.value = state.value + 100.0

        y = kiln.jit(lambda x: x + 1.0)(state.value)
        step(state)
        self.assertEqual((y.tolist(), state.value.tolist()), ([1, 2, 3, 4], [100, 101, 102, 103]))

    def test_one_that_was_read_is_an_argument_still(self):
        for count in (4, 4096):  # goes along with the call; goes to the device
            x = np.arange(count, dtype=np.float32)
            f = kiln.jit(lambda x: x + 1.0)
            y = f(x)
            np.testing.assert_array_equal(y, x + 1)
            np.testing.assert_array_equal(f(y), x + 2)
            np.testing.assert_array_equal(y[1:3], [2, 3])
            np.testing.assert_array_equal(f(y), x + 2)
            y.buffer.write(x)
            np.testing.assert_array_equal(y, x)

    def test_a_chain_without_reading_stays_on_the_device(self):
        f, x = kiln.jit(lambda x: x + 1.0), kiln.array(X)
        for _ in range(10):
            x = f(x)
        handle = x.buffer.handle
        self.assertEqual((x.tolist(), x.buffer.handle), ([10, 11, 12, 13], handle))

    def test_freed_or_forgotten_before_it_is_sent(self):
        f, x = kiln.jit(lambda x: x + 1.0), kiln.array(X)
        f(x).tolist()
        before = self.in_use()
        y = f(x)
        self.assertFalse(y.buffer.freed)
        y.buffer.free()
        self.assertTrue(y.buffer.freed)
        with self.assertRaises(BufferFreed):
            y.numpy()
        f(x)
        self.client.fence()
        self.settle(before)

    def test_a_call_by_another_way_comes_after_it(self):
        runs = kiln.jit(lambda x: x + 1.0)
        y = runs(kiln.array(X))
        self.client.devices()  # a call, which waits for commands
        before = calls(self.client)
        self.assertEqual(y.tolist(), [1, 2, 3, 4])
        self.assertEqual(self.moved(before), {"BufferService.Read": 1})

    def test_threads_read_and_give_up_at_once(self):
        f, g = kiln.jit(lambda x: x + 1.0), kiln.jit(lambda x: x * 2.0, donate_argnums=0)
        wrong = []

        def run(base):
            for turn in range(100):
                x = kiln.array(X + base + turn)
                y = f(x)
                z = g(x)
                if turn % 2:
                    wrong.extend([] if np.array_equal(y, X + base + turn + 1) else [y.tolist()])
                wrong.extend([] if np.array_equal(z, 2 * (X + base + turn)) else [z.tolist()])
                wrong.extend([] if float(f(np.float32(turn))) == turn + 1 else [turn])

        threads = [threading.Thread(target=run, args=(1000 * one,)) for one in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_two_threads_read_one(self):
        y = kiln.jit(lambda x: x + 1.0)(X)
        found = []
        threads = [threading.Thread(target=lambda: found.append(y.tolist())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [[1, 2, 3, 4]] * 4)

    def test_the_client_is_closed_before_it_is_read(self):
        with kiln.connect(self.server.address) as client:
            y = kiln.jit(lambda x: x + 1.0, client=client)(X)
            z = kiln.jit(lambda x: x + 2.0, client=client)(X)
        for one in (y, z):
            with self.assertRaisesRegex(kiln.KilnError, "closed"):
                one.numpy()

    def test_with_a_deadline_nothing_waits(self):
        with kiln.connect(self.server.address, timeout=30) as client:
            f = kiln.jit(lambda x: x + 1.0, client=client)
            f(X)
            before = calls(client)
            y = f(X)
            self.assertGreater(calls(client)["KernelService.Execute"], before["KernelService.Execute"])
            self.assertEqual(y.tolist(), [1, 2, 3, 4])


class Forgotten(support.ServerTest):
    FLAGS = ("--program_cache_bytes=100000",)

    def forget_all(self):
        for size in range(9, 60):
            kiln.jit(lambda x: x + 1.0)(np.zeros(size, np.float32)).tolist()

    def test_the_graph_goes_along_or_is_asked_for(self):
        f, x = kiln.jit(lambda x: x + 3.0), kiln.array(X)
        f(x).tolist()
        with mock.patch.object(kiln.program, "_KNOWN", 1e9):
            f(x).tolist()
            for known in (x, X):
                self.forget_all()
                before = self.client.traffic["KernelService.Execute"].calls
                self.assertEqual(f(known).tolist(), [3, 4, 5, 6])
                self.assertEqual(self.client.traffic["KernelService.Execute"].calls, before + 2)


class Gone(unittest.TestCase):
    def test_what_is_in_no_servers_memory_another_one_computes(self):
        with contextlib.ExitStack() as stack:
            one, other = (stack.enter_context(support.running()) for _ in range(2))
            client = stack.enter_context(kiln.connect("%s,%s" % (one.address, other.address)))
            f = kiln.jit(lambda x: x + 1.0, client=client)
            x = kiln.array(X, client=client)
            f(X).tolist(), f(x).tolist()
            y = f(X)
            one.kill()
            self.assertEqual(y.tolist(), [1, 2, 3, 4])
            self.assertEqual(client.target, other.address)
            with self.assertRaises(kiln.KilnError):
                f(x).tolist()
            self.assertEqual(f(X).tolist(), [1, 2, 3, 4])

    def test_what_is_bound_to_a_server_that_is_gone_fails(self):
        with support.running() as server, kiln.connect(server.address) as client:
            f, x = kiln.jit(lambda x: x + 1.0, client=client), kiln.array(X, client=client)
            before = f(x)
            self.assertEqual(before.tolist(), [1, 2, 3, 4])
            y = f(x)
            server.kill()
            for _ in range(2):
                with self.assertRaises(kiln.Unavailable):
                    y.numpy()
            self.assertEqual(before.tolist(), [1, 2, 3, 4])


if __name__ == "__main__":
    unittest.main()
