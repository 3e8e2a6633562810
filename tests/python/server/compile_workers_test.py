"""Programs that are compiled in processes of their own: the same values, and a deadline that is a kill."""

import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import admin
import graphs
import numpy as np
import support
from processes import children, compile_workers, ended_first

import kiln


def product():
    graph = kiln.Graph()
    x = graph.param("x", (64, 96))
    graph.output(x @ x.T)
    return graph


def sines():
    graph = kiln.Graph()
    value = graph.param("x", (64,), "float64")
    for _ in range(300):
        value = kiln.sin(value)
    graph.output(value)
    return graph


def ended(page):
    """(requests that nobody waited for any more, workers that were killed for it). Whether the server hears first of a
    deadline or of its client's end is chance."""
    found = page.samples()
    workers = "kiln_compile_worker_exits_total"
    return (found["kiln_cancelled_total", "compile"] + found["kiln_deadline_missed_total", "compile"],
            found[workers, "cancelled"] + found[workers, "deadline"])  # fmt: skip


class CompileWorkersTest(support.ServerTest):
    FLAGS = ("--compile_isolation=on", "--compile_threads=2", "--cpu_devices=2", "--admin_listen=127.0.0.1:0")

    def test_values_are_the_same(self):
        data = np.random.default_rng(1).random((64, 96), np.float32)
        with support.running() as plain, kiln.connect(plain.address) as other:
            for client in (self.client, other):
                program = client.compile(product())
                self.assertFalse(program.from_cache)
                np.testing.assert_allclose(program(data), data @ data.T, rtol=1e-5)
                # A stage's text comes from where it was made.
                stages = client.explain(product(), stages=["rangeify"]).stages
                self.assertIn("REDUCE", stages[0].text)

    def test_workers_are_ended_before_the_server(self):
        self.client.compile(product())
        server = self.server.process.pid
        self.assertLess(ended_first(server), 1000)
        self.assertTrue(compile_workers(server))
        self.assertEqual({ended_first(child) for child in children(server)}, {1000})

    def test_what_keeps_files_closed_is_in_the_log(self):
        started = [line for line in self.server.log if "event=compile_workers" in line]
        self.assertRegex(started[0], r"\blandlock=\d+\b")

    def test_a_refusal_is_the_compilers(self):
        with self.assertRaises(kiln.KilnError) as raised:
            self.client.compile(graphs.elementwise("ADD", shape=(4,), sources=1))
        self.assertEqual(raised.exception.code, "WRONG_SOURCE_COUNT")

    def test_a_deadline_is_a_kill(self):
        page = admin.Admin(self.server)
        before = ended(page)
        begin = time.monotonic()
        with kiln.connect(self.server.address, timeout=0.2) as hasty:
            with self.assertRaises(kiln.DeadlineExceeded):
                hasty.compile(sines())
        self.assertLess(time.monotonic() - begin, 5)
        self.assertTrue(support.eventually(lambda: ended(page)[0] == before[0] + 1))
        self.assertIn(ended(page)[1] - before[1], (0, 1))  # on a slow machine none had begun
        self.assertEqual(int(self.client.arange(4).numpy().sum()), 6)

    def test_a_search_compiles_there_too(self):
        data = np.random.default_rng(2).random((64, 96), np.float32)
        with kiln.connect(self.server.address, beam=2, beam_budget_ms=1500) as searching:
            np.testing.assert_allclose(searching.compile(product())(data), data @ data.T, rtol=1e-5)
        self.assertTrue(support.eventually(lambda: any("event=tuned" in line for line in self.server.log)))
        tuned = [line for line in self.server.log if "event=tuned" in line]
        self.assertNotIn("candidates=0 ", tuned[0])

    def test_gradients_are_made_there_too(self):
        gradient = self.client.gradient(graphs.elementwise("MUL", shape=(1,)), wrt=[0, 1])
        dx, dy = self.client.compile(gradient.graph)(np.float32([3]), np.float32([5]))
        self.assertEqual((dx[0], dy[0]), (5, 3))
        with self.assertRaises(kiln.KilnError) as raised:
            self.client.gradient(graphs.elementwise("MUL", shape=(1,)), wrt=[7])
        self.assertEqual(raised.exception.code, "UNKNOWN_ARGUMENT")

    def test_as_many_processes_as_wait(self):
        for size in range(8, 16):
            self.client.arange(size).numpy()
        # The zygote and its workers.
        self.assertLessEqual(len(children(self.server.process.pid)), 1 + 2)
        self.assertGreaterEqual(len(children(self.server.process.pid)), 2)

    def test_they_end_with_the_server(self):
        with support.running("--compile_isolation=on") as server:
            with kiln.connect(server.address) as client:
                client.arange(3).numpy()
            left = children(server.process.pid)
            self.assertGreaterEqual(len(left), 2)
            server.kill()
            self.assertTrue(support.eventually(lambda: not any(pathlib.Path("/proc/%d" % pid).exists() for pid in left)))


if __name__ == "__main__":
    unittest.main()
