"""A model that two tenants use at once: each has its share of the device, and its own faults alone; its weights are in
memory once. And what the server says of the time that requests took is what their clients have measured."""

import contextlib
import functools
import hashlib
import pathlib
import sys
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "python"), str(HERE)]

import admin
import numpy as np
import serving_models as models
import support
import tritonclient.grpc as triton
from serving_test import given
from tritonclient.utils import InferenceServerException

TENANTS = """
tenant { name: "light" token { sha256: "%s" } weight: 1 }
tenant { name: "heavy" token { sha256: "%s" } weight: 3 }
"""
DEEP = models.Deep()
# Of a tenant, and the rows of each: more bytes than are run together with others' (docs/batching.md), so that of each
# tenant several runs wait for the device at any time, whatever its clients do meanwhile.
CALLERS, ROWS = 4, 136


class Served(unittest.TestCase):
    """A server of Deep, which takes milliseconds, and of a model that takes as much and gives it back."""

    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = models.Folder(cls)
        cls.fill()
        cls.server = support.Server("--models=%s" % cls.folder.path, "--admin_listen=127.0.0.1:0", *cls.flags())
        cls.addClassCleanup(cls.server.stop)
        cls.port = admin.Admin(cls.server)
        assert support.eventually(lambda: cls.port.get("/readyz")[0] == 200), "".join(cls.server.log[-20:])

    @classmethod
    def fill(cls):
        cls.folder.put("deep", DEEP.file())

    @classmethod
    def flags(cls):
        return ()

    def samples(self, name):
        return {key[1:]: value for key, value in self.port.samples().items() if key[0] == name}

    @contextlib.contextmanager
    def client(self):
        with triton.InferenceServerClient(self.server.address) as client:
            yield client

    def spread(self, jobs):
        """Runs these functions at once; what one raises is raised."""
        failures = []

        def run(job):
            try:
                job()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]


class TwoTenants(Served):
    @classmethod
    def flags(cls):
        file = cls.folder.path / ".tenants.txtpb"
        file.write_text(TENANTS % tuple(hashlib.sha256(name.encode()).hexdigest() for name in ("light", "heavy")))
        return ("--tenants=%s" % file,)

    def infer(self, client, tenant, x):
        return client.infer("deep", [given("x", x)], headers={"authorization": "Bearer " + tenant}).as_numpy("y")

    def busy(self):
        """Seconds of the device by tenant."""
        return {tenant: seconds for (_, tenant), seconds in self.samples("kiln_device_busy_seconds_total").items()}

    def weights(self):
        """Bytes of the model's weights: what it says that it has, and what the owner of all models' pays for."""
        return (self.samples("kiln_model_memory_bytes")["deep", "1"],
                self.samples("kiln_quota_used").get(("(models)", "device_bytes")))  # fmt: skip

    def test_shares_are_as_weighted_and_weights_in_memory_once(self):
        x = np.random.default_rng(1).standard_normal((ROWS, DEEP.WIDTH)).astype(np.float32)
        stop, wrong, had, before = threading.Event(), [], {}, self.weights()
        with self.client() as client:
            expected = self.infer(client, "light", x)
        np.testing.assert_allclose(expected, DEEP(x), rtol=1e-3, atol=1e-4)

        def call(tenant):
            with self.client() as client:
                while not stop.is_set():
                    if not np.array_equal(self.infer(client, tenant, x), expected):
                        wrong.append(tenant)

        def watch():
            try:
                # From when both have been served.
                assert support.eventually(lambda: set(self.busy()) >= {"light", "heavy"})
                had["first"] = self.busy()
                assert support.eventually(lambda: sum(self.busy().values()) - sum(had["first"].values()) > 2)
                had["last"], had["weights"] = self.busy(), self.weights()
                had["shares"] = {tenant: ratio for (_, tenant), ratio in self.samples("kiln_share_ratio").items()}
            finally:
                stop.set()

        self.spread([watch, *(functools.partial(call, tenant) for tenant in ("light", "heavy") for _ in range(CALLERS))])
        self.assertEqual(wrong, [])
        got = {tenant: had["last"][tenant] - had["first"][tenant] for tenant in ("light", "heavy")}
        # What each had, over what its weight gives it for as long as it asked.
        self.assertEqual(set(had["shares"]), {"light", "heavy"})
        for tenant, ratio in had["shares"].items():
            self.assertLess(abs(ratio - 1), 0.2, (tenant, had["shares"], got))
        # By the clock it is 3 : 1 on a quiet machine where both always ask.
        self.assertGreater(got["heavy"], got["light"])
        self.assertEqual(had["weights"], before)
        self.assertEqual(before, (DEEP.bytes, DEEP.bytes))

    def test_bad_requests_of_one_fail_alone(self):
        x = np.random.default_rng(2).standard_normal((2, DEEP.WIDTH)).astype(np.float32)
        expected, asked, refused, wrong = DEEP(x), 40, [], []

        def good(tenant):
            with self.client() as client:
                for _ in range(asked):
                    if not np.allclose(self.infer(client, tenant, x), expected, rtol=1e-3, atol=1e-4):
                        wrong.append(tenant)

        def bad():
            with self.client() as client:
                for spoilt in (x[:, 1:], x.astype(np.float64), x[:0], x[0]) * (asked // 4):
                    try:
                        self.infer(client, "light", spoilt)
                        wrong.append(spoilt)
                    except InferenceServerException as error:
                        refused.append((error.status(), '"x"' in error.message()))

        before = self.counts()
        self.spread([lambda: good("heavy"), lambda: good("heavy"), lambda: good("light"), bad, bad])
        self.assertEqual(wrong, [])
        self.assertEqual(refused, [("StatusCode.INVALID_ARGUMENT", True)] * 2 * asked)
        after = self.counts()
        more = {tenant: tuple(np.subtract(after[tenant], before[tenant])) for tenant in after}
        self.assertEqual(more, {"heavy": (2 * asked, 0), "light": (asked, 2 * asked)})

    def counts(self):
        """By tenant, how many of its own requests succeeded and how many failed."""
        found = {}
        with self.client() as client:
            for tenant in ("light", "heavy"):
                said = client.get_inference_statistics("deep", headers={"authorization": "Bearer " + tenant})
                sums = said.model_stats[0].inference_stats
                found[tenant] = (sums.success.count, sums.fail.count)
        return found


class OneBackbone(Served):
    """Two models of one weight, which the device reads in an order of its own."""

    @classmethod
    def fill(cls):
        super().fill()
        cls.folder.put("other", DEEP.file("Sigmoid"))

    def in_use(self):
        return sum(value for (_, kind), value in self.samples("kiln_memory_bytes").items() if kind == "in_use")

    def test_its_weight_is_in_memory_once_and_packed_once(self):
        self.assertEqual(self.in_use(), DEEP.bytes)
        self.assertEqual(self.samples("kiln_model_memory_bytes"),
                         {("deep", "1"): DEEP.bytes, ("other", "1"): DEEP.bytes})  # fmt: skip
        x = np.random.default_rng(1).standard_normal((DEEP.ROWS, DEEP.WIDTH)).astype(np.float32)
        with self.client() as client:
            answers = []
            for name in ("deep", "other", "deep"):
                answers.append(client.infer(name, [given("x", x)]).as_numpy("y"))
                # The weight as it came, and once more in that order. What a run takes is given back as it ends.
                self.assertTrue(support.eventually(lambda: self.in_use() == 2 * DEEP.bytes), (name, self.in_use()))
        deep, other, again = answers
        np.testing.assert_allclose(deep, DEEP(x), rtol=1e-3, atol=1e-4)
        np.testing.assert_array_equal(again, deep)
        self.assertGreater(float(other.min()), 0)  # a sigmoid's


class Statistics(Served):
    """The server's sums of what requests took beside their client's. Between the two are the client's own work, the
    connection, and what a call costs before and after its request: the same for a model that does nothing with as much
    data. That one is asked in turn, and the difference of its two sums taken off."""

    @classmethod
    def fill(cls):
        super().fill()
        cls.folder.put("nothing", models.negated(DEEP.WIDTH))

    def took(self, client, name):
        sums = client.get_inference_statistics(name).model_stats[0].inference_stats
        parts = (sums.queue, sums.compute_input, sums.compute_infer, sums.compute_output)
        self.assertEqual(sum(part.ns for part in parts), sums.success.ns)
        return sums.success.ns * 1e-9

    def compare(self, callers, each):
        x = np.random.default_rng(3).standard_normal((DEEP.ROWS, DEEP.WIDTH)).astype(np.float32)
        names, lock = ("deep", "nothing"), threading.Lock()
        walls = dict.fromkeys(names, 0.0)

        def call():
            with self.client() as client:
                asked = [given("x", x)]
                for _ in range(each):
                    for name in names:
                        began = time.perf_counter()
                        client.infer(name, asked)
                        ended = time.perf_counter()
                        with lock:
                            walls[name] += ended - began

        with self.client() as client:
            for name in names:
                client.infer(name, [given("x", x)])
            before = {name: self.took(client, name) for name in names}
            self.spread([call] * callers)
            said = {name: self.took(client, name) - before[name] for name in names}
        between = walls["nothing"] - said["nothing"]
        return walls["deep"], said["deep"], between

    def best_of_three(self, callers, each):
        """Other work on the machine may come between a client and what it measures."""
        off = []
        while not off or min(off) >= 0.05 and len(off) < 3:
            wall, said, between = self.compare(callers, each)
            self.assertLess(said, wall)
            off.append(abs(wall - between - said) / wall)
        self.assertLess(min(off), 0.05, off)

    def test_add_up_to_what_a_client_has_measured(self):
        self.best_of_three(callers=1, each=100)

    def test_add_up_with_the_wait_for_others(self):
        self.best_of_three(callers=4, each=25)


if __name__ == "__main__":
    unittest.main()
