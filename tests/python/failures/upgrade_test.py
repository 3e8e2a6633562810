"""Three servers, behind a balancer or in clients' lists, are replaced under load, one after the other: two are drained, one is killed. What was
answered stays true, and who has lost something hears of it: no more is lost than what an ended server held.

It prints how many requests there were, and what became of them."""

import collections
import pathlib
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np
import pool as pools
import support

import kiln

WORKERS = 6
LEASE = 60  # nobody waits for it: a server that is gone refuses connections
TRIES = 5  # of a request; the second finds the next server
# A client hears within two seconds, on a machine that has time.
HEARD_SECONDS = 30


def double():
    graph = kiln.Graph()
    x = graph.param("x", (4,), "float32")
    graph.output(x + x)
    return graph


class Ended:
    """Which servers have been ended, by their addresses, and when they were gone."""

    def __init__(self):
        self.begun, self.gone = [], {}


class Worker(threading.Thread):
    """A client that computes, and keeps a buffer at its server, until it is told to stop."""

    def __init__(self, number, address, ended, stop):
        super().__init__(daemon=True)  # one that hangs is told of by join, and is not waited for again
        self.number, self.address, self.ended, self.stop = number, address, ended, stop
        self.rounds = 0
        # By phase of the upgrade: what became of requests, and the longest that a loss took to be heard of.
        self.counts = collections.defaultdict(collections.Counter)
        self.heard = collections.defaultdict(float)
        self.fault = None

    def run(self):
        try:
            with kiln.connect(self.address, lease=LEASE) as client:
                program = client.compile(double())
                kept = kept_at = None
                while not self.stop.is_set():
                    if kept is None:
                        values = np.arange(4, dtype=np.float32) + 1000 * self.number + self.rounds
                        kept_at = client.target
                        kept = self.ask(client, lambda: self.made(client, values))
                        if client.target != kept_at:  # it went while that was made
                            kept = None
                        continue
                    x = np.full(4, self.rounds, np.float32)
                    answer = self.ask(client, lambda: program(x))
                    if answer is not None:  # else it has been counted as lost, which the test does not let pass
                        np.testing.assert_array_equal(answer, 2 * x)
                    read = self.ask(client, kept.numpy, kept_at)
                    if read is not None:
                        np.testing.assert_array_equal(read, values)
                    elif kept.lost or client.target != kept_at:
                        self.lost(kept_at)
                        kept = None
                    self.rounds += 1
        except BaseException as fault:
            self.fault = fault

    def made(self, client, values):
        """Acknowledged: the server has it."""
        buffer = client.buffer(values)
        client.fence()
        return buffer

    def ask(self, client, use, kept_at=None):
        """What it answers. What says that it has not been done is made again, as any program would. Nothing, where what it
        needs, which was kept there, is lost."""
        for _ in range(TRIES):
            phase = len(self.ended.begun)
            try:
                answer = use()
            except kiln.NotFound as lost:
                if kept_at is not None:
                    assert lost.code == "UNKNOWN_HANDLE" and "gone" in lost.message, lost
                    return None
            except kiln.Unavailable:
                if kept_at is not None and client.target != kept_at:
                    return None
            else:
                self.counts[phase]["answered"] += 1
                return answer
            self.counts[phase]["again"] += 1
        self.counts[phase]["never"] += 1
        return None

    def lost(self, kept_at):
        assert kept_at in self.ended.begun, "%s, which nobody has ended" % kept_at
        phase = self.ended.begun.index(kept_at) + 1
        self.counts[phase]["lost"] += 1
        if kept_at in self.ended.gone:
            self.heard[phase] = max(self.heard[phase], time.monotonic() - self.ended.gone[kept_at])


class Upgrade(unittest.TestCase):
    def server(self, port=None, admin_port=None):
        """On these ports, or on some that it can come back to."""
        port, admin_port = port or support.free_port(), admin_port or support.free_port()
        # The balancer looks five times a second, and a grace of a second is enough for it.
        made = support.Server("--advertise=127.0.0.1:0", "--admin_listen=127.0.0.1:%d" % admin_port,
                              "--drain_grace_seconds=1", port=port)  # fmt: skip
        self.addCleanup(made.stop)
        return made

    @unittest.skipUnless(pools.HAPROXY, "haproxy is not installed; ./dev test installs it")
    def test_behind_haproxy(self):
        self.nothing_is_lost_but_what_an_ended_server_held("HAProxy, calls", pools.Pool)

    @unittest.skipUnless(pools.NGINX, "nginx or its module stream is not installed; ./dev test installs both")
    def test_behind_nginx(self):
        self.nothing_is_lost_but_what_an_ended_server_held("nginx, connections", pools.Nginx)

    def test_in_clients_lists(self):
        self.nothing_is_lost_but_what_an_ended_server_held("clients' lists", pools.Listed)

    def nothing_is_lost_but_what_an_ended_server_held(self, way, kind):
        pool = kind([self.server() for _ in range(3)])
        self.addCleanup(pool.stop)
        ended, stop = Ended(), threading.Event()
        workers = [Worker(number, pool.address_for(number), ended, stop) for number in range(WORKERS)]
        for worker in workers:
            worker.start()
        self.addCleanup(self.join, workers, stop)
        self.work(workers)
        for end in (self.drain, self.drain, self.kill):
            old = pool.servers[0]
            ended.begun.append(old.address)
            end(old)
            ended.gone[old.address] = time.monotonic()
            self.work(workers)  # with two
            # The new one is where the old one was, for the balancer and for who had its address.
            new = self.server(old.port, pools.admin.Admin(old).port)
            pool.servers = [*pool.servers[1:], new]
            self.assertTrue(support.eventually(lambda: new.address in self.reached(pool)))
            self.work(workers)
        self.join(workers, stop)
        for worker in workers:
            # Each has at most the one buffer at a server that is ended, and makes it again elsewhere.
            for phase in (1, 2, 3):
                self.assertLessEqual(worker.counts[phase]["lost"], 1)
                self.assertLess(worker.heard[phase], HEARD_SECONDS)
                self.assertEqual(worker.counts[phase]["never"], 0)
        self.assertGreater(sum(worker.counts[phase]["lost"] for worker in workers for phase in (1, 2, 3)), 0)
        self.tell(way, workers)

    def drain(self, server):
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(60), 0)

    def kill(self, server):
        server.kill()

    def work(self, workers):
        """Each makes some rounds more."""
        wanted = {worker: worker.rounds + 20 for worker in workers}

        def done():
            for worker in workers:
                if worker.fault is not None:
                    raise worker.fault
            return all(worker.rounds >= wanted[worker] for worker in workers)

        self.assertTrue(support.eventually(done), [worker.rounds for worker in workers])

    def reached(self, pool):
        targets = set()
        for number in range(6):
            with kiln.connect(pool.address_for(number)) as client:
                targets.add(client.target)
        return targets

    def join(self, workers, stop):
        stop.set()
        end = time.monotonic() + 120
        for worker in workers:
            worker.join(max(0, end - time.monotonic()))
        self.assertEqual([worker.number for worker in workers if worker.is_alive()], [], "workers that do not end")
        for worker in workers:
            if worker.fault is not None:
                raise worker.fault

    def tell(self, way, workers):
        for phase, name in enumerate(("nothing yet", "drained", "drained", "killed")):
            total = sum((worker.counts[phase] for worker in workers), collections.Counter())
            print("| %s | %s | %s | %d | %d | %d | %.1f s |" % (
                way, name, format(total["answered"], ","), total["again"], total["never"], total["lost"],
                max(worker.heard[phase] for worker in workers)))  # fmt: skip


if __name__ == "__main__":
    unittest.main()
