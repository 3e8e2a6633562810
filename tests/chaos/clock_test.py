"""A server whose clock is set: what it counts from now on it counts by another (base/clock.h)."""

import hashlib
import pathlib
import shutil
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import numpy as np
import programs
from machine import Machine
from world import support

import kiln
from kiln.transport import wire

HOUR = 3600
# Seconds: Abseil looks at the system's clock every two, and counts on by itself.
LOOKS = 3
TENANTS = "".join('tenant { name: "%s" token { sha256: "%s" } isolation: %s }\n' % (
    name, hashlib.sha256(name.encode()).hexdigest(), how) for name, how in (("inside", "SHARED"), ("apart", "PROCESS")))  # fmt: skip


class Clock(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        self.tenants = folder / "tenants.txtpb"
        self.tenants.write_text(TENANTS)
        self.machine = Machine(folder, folder / "disk")
        self.server = support.Server("--tenants=%s" % self.tenants, "--cpu_threads=2", environment=self.machine.environment)
        self.addCleanup(self.server.stop)

    def client(self, tenant, **how):
        client = kiln.connect(self.server.address, token=tenant, **how)
        self.addCleanup(client.close)
        return client

    def while_it_is_set(self, use, step):
        """What `use()` gives, again and again, while the clock goes by an hour each time."""
        found = []

        def run():
            end = time.monotonic() + LOOKS
            try:
                while not found or time.monotonic() < end:
                    found.append(use())
            except Exception as error:  # for the thread that looks
                found.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        ahead = 0
        while thread.is_alive():
            ahead += step
            self.machine.set_clock(ahead)
            thread.join(0.02)
        if isinstance(found[-1], Exception):
            raise found[-1]
        return found[-1]

    def test_it_is_the_servers(self):
        """Else the tests below would show nothing."""
        self.tenants.write_text(TENANTS.replace('token { sha256: "%s"' % hashlib.sha256(b"inside").hexdigest(),
            'token { sha256: "%s" expires: "2100-01-01T00:00:00Z"' % hashlib.sha256(b"inside").hexdigest()))  # fmt: skip
        client = self.client("inside")
        self.assertTrue(support.eventually(lambda: any("reloaded=true" in line for line in self.server.log)))
        client.programs()
        self.machine.set_clock(100 * 365 * 24 * HOUR)

        def refused():
            try:
                client.programs()
            except kiln.Unauthenticated:
                return True
            return False

        self.assertTrue(support.eventually(refused))

    def test_no_deadline_passes(self):
        for step in (HOUR, -HOUR):
            client = self.client("inside", timeout=600)
            run = self.while_it_is_set(lambda: client.compile(programs.Slow(step, steps=20).graph())(np.zeros(64)), step)
            self.assertEqual(run.shape, (64,))

    def test_a_process_apart_is_waited_for(self):
        client = self.client("apart", timeout=600)
        for step in (HOUR, -HOUR):
            affine, x = programs.Affine(step, 7), programs.numbers(1)
            program = client.compile(affine.graph())
            results = self.while_it_is_set(lambda: [program(x) for _ in range(20)], step)
            for result in results:
                np.testing.assert_array_equal(result, affine.of(x))

    def test_leases_end(self):
        client = self.client("inside", lease=0)
        opened = client._connection.call("SessionService.Open", wire.METHODS["SessionService.Open"].request(lease_seconds=2))
        self.machine.set_clock(-HOUR)
        renewed = wire.METHODS["SessionService.Open"].request(resume_token=opened.token, lease_seconds=2)
        # Nobody renews it; a look would begin it anew, so the account is asked.
        def sessions():
            usage = client._connection.call("SessionService.Usage", wire.METHODS["SessionService.Usage"].request())
            return next(quota.used for quota in usage.tenants[0].quotas if quota.name == "sessions")

        self.assertTrue(support.eventually(lambda: sessions() == 0))
        self.assertFalse(client._connection.call("SessionService.Open", renewed).resumed)

    def test_files_are_looked_at(self):
        self.machine.set_clock(-HOUR)
        self.client("inside").programs()
        self.tenants.write_text(TENANTS + " ")
        self.assertTrue(support.eventually(lambda: any("reloaded=true" in line for line in self.server.log)))


if __name__ == "__main__":
    unittest.main()
