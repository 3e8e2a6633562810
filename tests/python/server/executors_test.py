"""A tenant whose programs run in a process of its own, beside one whose programs run in the server."""

import gc
import hashlib
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np
import processes
import support

import kiln

TENANT = 'tenant { name: "%s" token { sha256: "%s" } isolation: %s quota { device_bytes: 4194304 } }\n'
ISOLATION = {"apart": "PROCESS", "other": "PROCESS", "plain": "SHARED"}


def executors(server):
    return processes.executors(server.process.pid)


def product():
    graph = kiln.Graph()
    x = graph.param("x", (32, 48))
    graph.output(x @ x.T)
    return graph


class ExecutorsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.tenants = folder / "tenants.txtpb"
        cls.write_tenants(ISOLATION)
        cls.server = support.Server("--tenants=%s" % cls.tenants, "--cpu_devices=2", "--cpu_threads=2")
        cls.addClassCleanup(cls.server.stop)
        cls.clients = {}
        for name in ISOLATION:
            cls.clients[name] = kiln.connect(cls.server.address, token=name + "'s secret")
            cls.addClassCleanup(cls.clients[name].close)
        cls.apart, cls.other, cls.plain = (cls.clients[name] for name in ("apart", "other", "plain"))

    @classmethod
    def write_tenants(cls, isolation):
        rows = [TENANT % (name, hashlib.sha256((name + "'s secret").encode()).hexdigest(), how)
                for name, how in isolation.items()]  # fmt: skip
        cls.tenants.write_text("".join(rows))

    def check(self, client):
        data = np.random.default_rng(1).random((32, 48), np.float32)
        np.testing.assert_allclose(client.compile(product())(data), data @ data.T, rtol=1e-5)

    def test_values_are_right_and_the_devices_its_own(self):
        for client in self.clients.values():
            self.check(client)
        self.assertEqual(len(executors(self.server)), 2)
        names = {name: [device.name for device in client.devices()] for name, client in self.clients.items()}
        self.assertEqual(names["apart"], names["plain"])
        self.assertIn("in a process of its own", self.apart.devices()[0].description)
        self.assertNotIn("in a process of its own", self.plain.devices()[0].description)
        held = self.apart.buffer(np.zeros(1 << 20, np.uint8))
        self.assertGreaterEqual(self.apart.devices()[0].memory_in_use_bytes, 1 << 20)
        self.assertLess(self.other.devices()[0].memory_in_use_bytes, 1 << 20)
        held.free()

    def test_one_that_is_ended_disturbs_nobody_else(self):
        for how in (signal.SIGKILL, signal.SIGSEGV):
            kept = self.apart.buffer(np.arange(8, dtype=np.float32))
            self.check(self.apart)
            self.check(self.other)
            before = executors(self.server)
            stop, wrong = threading.Event(), []

            def run_on():
                try:
                    while not stop.is_set():
                        self.check(self.plain)
                except Exception as error:  # for the thread that looks
                    wrong.append(error)

            neighbour = threading.Thread(target=run_on)
            neighbour.start()
            for process in before:
                os.kill(process, how)
            # What was under way may be lost, and what comes soon after.
            self.assertTrue(support.eventually(lambda: self.goes_on(self.apart)))
            self.assertTrue(support.eventually(lambda: self.goes_on(self.other)))
            stop.set()
            neighbour.join()
            self.assertEqual(wrong, [])
            self.assertEqual(set(before) & set(executors(self.server)), set())
            np.testing.assert_array_equal(kept.numpy(), np.arange(8, dtype=np.float32))

    def test_one_that_hangs_holds_up_its_tenant_alone(self):
        self.check(self.apart)
        self.check(self.other)
        # Of the same tenant: a client asks for the devices once what it sent before is answered.
        watching = kiln.connect(self.server.address, token="apart's secret")
        self.addCleanup(watching.close)
        before, wrong = watching.devices()[0].queue_depth, []

        def run():
            try:
                self.check(self.apart)
            except Exception as error:  # for the thread that looks
                wrong.append(error)

        hung = threading.Thread(target=run)
        stopped = executors(self.server)
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        try:
            hung.start()
            self.assertTrue(support.eventually(lambda: watching.devices()[0].queue_depth > before))
            for _ in range(10):
                self.check(self.plain)
            self.assertTrue(hung.is_alive())
        finally:
            for process in stopped:
                os.kill(process, signal.SIGCONT)
            hung.join()
        self.assertEqual(wrong, [])
        self.check(self.apart)

    def goes_on(self, client):
        try:
            self.check(client)
        except kiln.KilnError as error:
            self.assertEqual(error.code, "EXECUTOR_LOST")
            return False
        return True

    def test_its_quota_counts_there_too(self):
        self.check(self.other)
        before = self.in_use(self.other)
        held = self.other.buffer(np.zeros(3 << 20, np.uint8))
        with self.assertRaises(kiln.KilnError) as raised:
            self.other.buffer(np.zeros(2 << 20, np.uint8))
        self.assertEqual(raised.exception.code, "QUOTA_EXCEEDED")
        for process in executors(self.server):
            os.kill(process, signal.SIGKILL)
        held.free()
        # All of it is there again.
        self.assertEqual(self.in_use(self.other), before)
        self.other.buffer(np.zeros(7 << 19, np.uint8)).free()
        self.assertEqual(self.in_use(self.other), before)

    def in_use(self, client):
        gc.collect()
        client.flush_frees()
        return client.devices()[0].memory_in_use_bytes

    def test_what_it_has_not(self):
        with self.assertRaises(kiln.KilnError) as raised:
            self.apart.buffer(np.zeros(4, np.float32), device="CPU:7")
        self.assertEqual(raised.exception.code, "UNKNOWN_DEVICE")
        buffers = [self.apart.buffer(np.ones(4, np.float32), device="CPU:%d" % i) for i in range(2)]
        with self.assertRaises(kiln.Unimplemented):
            self.apart.all_reduce(buffers)
        buffers[0].fill(7)
        self.assertEqual(buffers[1].copy_from(buffers[0]).numpy().tolist(), [7, 7, 7, 7])

    def test_isolation_stays(self):
        self.write_tenants(dict(ISOLATION, plain="PROCESS"))
        self.server.process.send_signal(signal.SIGHUP)

        def refused():
            return any("event=tenants_refused" in line and "isolation" in line for line in self.server.log)

        self.assertTrue(support.eventually(refused))
        self.check(self.plain)
        self.write_tenants(ISOLATION)
        self.server.process.send_signal(signal.SIGHUP)

    def test_they_end_with_the_server(self):
        server = support.Server("--tenants=%s" % self.tenants, "--cpu_threads=2")
        self.addCleanup(server.stop)
        with kiln.connect(server.address, token="apart's secret") as client:
            self.check(client)
        left = executors(server)
        self.assertEqual(len(left), 1)
        server.kill()
        self.assertTrue(support.eventually(lambda: not any(pathlib.Path("/proc/%d" % pid).exists() for pid in left)))


if __name__ == "__main__":
    unittest.main()
