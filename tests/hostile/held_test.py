"""What the suite says of numbers that are made up: that a server which keeps too much is found, and its row named; and that
it sees what a process of its own does."""

import contextlib
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import held
import suite
from attack import ATTACKS

HELD = held.Held(resident=100 << 20, descriptors=10, threads=30, mappings=700, workers=0, workers_resident=0,
                 workers_descriptors=0, workers_threads=0)  # fmt: skip


def grown(what, by, held_=HELD):
    return held_._replace(**{what: getattr(held_, what) + by})


@contextlib.contextmanager
def child(*words):
    """A process that this one has started, and that has said something."""
    with subprocess.Popen([sys.executable, "-c", "; ".join(words)], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


class HeldTest(unittest.TestCase):
    def test_each_number_has_a_bound(self):
        for what in held.Held._fields:
            most = getattr(held.MORE, what)
            self.assertEqual(held.more_than(HELD, grown(what, most)), [])
            (fault,) = held.more_than(HELD, grown(what, most + 1))
            self.assertTrue(fault.startswith(what + " went from"), fault)
            # Less is no fault.
            self.assertEqual(held.more_than(grown(what, most + 1), HELD), [])

    def test_several_faults_are_all_said(self):
        after = grown("threads", held.MORE.threads + 1, grown("descriptors", held.MORE.descriptors + 1))
        self.assertEqual(len(held.more_than(HELD, after)), 2)

    def test_what_each_row_may_leave_all_may_not(self):
        for what in held.Held._fields:
            most, now = getattr(held.MORE, what), HELD
            ledger = held.Ledger(HELD)
            for row in ("first", "second", "third"):
                before, now = now, grown(what, most, now)
                self.assertEqual(held.more_than(before, now), [])
                ledger.note(row, now)
                self.assertEqual(bool(ledger.faults()), row != "first", what)

    def test_the_row_that_left_most_is_named(self):
        ledger, now = held.Ledger(HELD), HELD
        for row, more in (("small", 1), ("large", held.MORE.descriptors), ("gives_back", -1), ("none", 0), ("second", 2)):
            now = grown("descriptors", more, now)
            ledger.note(row, now)
        (fault,) = ledger.faults()
        self.assertIn("most of it by large (+%d), second (+2), small (+1)" % held.MORE.descriptors, fault)
        # What is given back in the end was no leak.
        self.assertEqual(ledger.faults(HELD), [])

    def test_a_sanitizer_excuses_some_memory_alone(self):
        for what in held.Held._fields:
            self.assertEqual(held.more_than(HELD, grown(what, getattr(held.MORE, what) + 1), suite.UNDER_SANITIZERS) == [],
                             what.endswith("resident"))  # fmt: skip
            self.assertTrue(held.more_than(HELD, grown(what, 4 << 30), suite.UNDER_SANITIZERS))

    def test_a_suite_whose_server_keeps_too_much_fails(self):
        class Leaking(suite.Servers):
            def together(self):
                for ledger in self._ledgers.values():
                    ledger.first = grown("mappings", -held.MORE.mappings - 1000, ledger.first)
                return super().together()

        settles, servers = suite.SETTLES, suite.Servers
        suite.SETTLES, suite.Servers = 0.1, Leaking
        try:
            with open(os.devnull, "w") as nowhere:
                row, together = suite.run([row for row in ATTACKS if row.name == "graph_shrink_before"], out=nowhere)
        finally:
            suite.SETTLES, suite.Servers = settles, servers
        self.assertEqual((row.fault, together.attack.name), ("", "all_rows_together_open"))
        self.assertIn("mappings went from", together.fault)

    def test_processes_that_it_started_count(self):
        before = held.of(os.getpid())
        with child("import threading, time", "files = [open('/dev/null') for _ in range(50)]",
                   "[threading.Thread(target=time.sleep, args=(60,), daemon=True).start() for _ in range(9)]",
                   "print(flush=True)", "time.sleep(60)"):  # fmt: skip
            after = held.of(os.getpid())
            self.assertLess(held.cores_of(os.getpid()), held.IDLE_CORES)
        self.assertEqual(after.workers - before.workers, 1)
        self.assertGreaterEqual(after.workers_descriptors - before.workers_descriptors, 50)
        self.assertGreaterEqual(after.workers_threads - before.workers_threads, 10)
        self.assertGreater(after.workers_resident, before.workers_resident)
        self.assertTrue(held.more_than(before, after))

    def test_one_that_works_for_nobody_is_seen(self):
        with child("print(flush=True)", "list(iter(int, 1))") as busy:
            # On a machine whose cores others want, it has a part of one.
            self.assertGreater(max(held.cores_of(os.getpid()) for _ in range(20)), held.IDLE_CORES)
            self.assertGreater(max(held.cores_of(busy) for _ in range(20)), held.IDLE_CORES)


if __name__ == "__main__":
    unittest.main()
