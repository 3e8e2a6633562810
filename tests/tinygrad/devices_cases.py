"""KILN, KILN:1, … on a server with four devices: each is its own, and results are one device's. At any level."""

import gc
import os
import re

import numpy as np
import support

RNG = np.random.default_rng(3)
A = RNG.standard_normal((8, 16)).astype(np.float32)
B = RNG.standard_normal((16, 12)).astype(np.float32)
C = RNG.standard_normal((12, 4)).astype(np.float32)
FOUR = ("KILN", "KILN:1", "KILN:2", "KILN:3")
SERVERS = ["CPU:0", "CPU:1", "CPU:2", "CPU:3"]
AXES = (0, 1, None)


def places(tensor):
    """The server's device of each of a tensor's shards."""
    held = tensor.uop.base.buf_uop.buffer
    return [part._buf.buffer.device for part in getattr(held, "bufs", [held])]


class DevicesCases:
    plugin = None  # set by the module

    def setUp(self):
        self.plugin.reset_stats()

    def in_use(self):
        return {row.name: row.memory_in_use_bytes for row in self.plugin.client().devices()}

    def in_use_by_the_command_line(self):
        """Bytes by device, as `kiln devices` prints them; rounded to four digits."""
        units = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
        rows = support.cli("devices", "--server", os.environ["KILN_ADDR"]).splitlines()
        used = {}
        for row in rows:
            if found := re.match(r"(CPU:\d) +HEALTHY +\S+ +[\d.]+ [kMGT]?B +([\d.]+) ([kMG]?B) ", row):
                used[found.group(1)] = float(found.group(2)) * units[found.group(3)]
        return used

    def assert_no_fallback(self):
        self.assertEqual(dict(self.plugin.stats().fallbacks), {})

    def near(self, tensor, expected):
        np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-4, atol=1e-4)

    def test_each_is_a_device_of_the_servers(self):
        from tinygrad import Tensor

        for name, there in zip(FOUR, SERVERS):
            x = Tensor(A, device=name).realize()
            y = (x * 2 + 1).realize()
            self.assertEqual((places(x), places(y)), ([there], [there]))
            self.near(y, A * 2 + 1)
        self.assertEqual(places(Tensor(A, device="KILN:6").realize()), ["CPU:2"])
        self.assert_no_fallback()

    def test_shards_lie_on_four_devices(self):
        from tinygrad import Tensor

        gc.collect()
        self.plugin.client().flush_frees()
        before = self.in_use()
        x = Tensor(np.zeros((1 << 12, 1 << 10), np.float32)).shard(FOUR, 0).realize()
        y = (x + 1).realize()
        self.plugin.client().fence()
        self.assertEqual((places(x), places(y)), (SERVERS, SERVERS))
        share = (1 << 22) // 4 * 4
        for name, used in self.in_use().items():
            self.assertGreaterEqual(used - before[name], 2 * share, name)
        self.assertEqual(float(y.sum().item()), float(1 << 22))
        self.assert_no_fallback()

    def test_copies_between_devices_are_the_servers(self):
        from tinygrad import Tensor

        x = Tensor(np.tile(A, (1 << 10, 1)), device="KILN:1").realize()
        self.plugin.reset_stats()
        y = x.to("KILN:3").realize()
        self.plugin.client().fence()
        sent = self.plugin.stats()
        self.assertEqual(places(y), ["CPU:3"])
        self.assertLess(sent.bytes_sent + sent.bytes_received, 4096)
        np.testing.assert_array_equal(y.numpy(), np.tile(A, (1 << 10, 1)))

    def test_elementwise_reductions_and_products(self):
        from tinygrad import Tensor

        for axis in AXES:
            x = Tensor(A).shard(FOUR, axis)
            self.near(x * 2, A * 2)
            self.near(x.sum(0), A.sum(0))
            self.near(x.max(1), A.max(1))
            self.near(x.sum(), A.sum())
            self.near(x.softmax(), np.exp(A) / np.exp(A).sum(1, keepdims=True))
            for other in AXES:
                self.near(x @ Tensor(B).shard(FOUR, other), A @ B)
        self.assert_no_fallback()

    def train(self, inputs, wanted, weights, jit):
        from tinygrad import Tensor, TinyJit
        from tinygrad.helpers import Context
        from tinygrad.nn.optim import Adam

        # Of weights that are there: else the first loss would be one from before the step on shards alone, with any device.
        optimizer = Adam([weight.is_param_().realize() for weight in weights], lr=0.01)

        def step(inputs, wanted):
            optimizer.zero_grad()
            loss = ((inputs @ weights[0]).relu() @ weights[1] - wanted).square().mean()
            loss.backward()
            optimizer.step()
            return loss.realize()

        run = TinyJit(step) if jit else step
        with Context(TRAINING=1):
            losses = [run(inputs.realize(), wanted.realize()).item() for _ in range(6)]
        return losses, [weight.numpy() for weight in weights]

    def test_training_shows_on_the_command_line(self):
        """While a step's weights and batch are spread over four devices, `kiln devices` has memory on each."""
        from tinygrad import Tensor

        gc.collect()
        self.plugin.client().flush_frees()
        before = self.in_use_by_the_command_line()
        self.assertEqual(list(before), SERVERS)
        inputs = Tensor(np.ones((1 << 10, 1 << 10), np.float32)).shard(FOUR, 0)
        wanted = Tensor(np.ones((1 << 10, 4), np.float32)).shard(FOUR, 0)
        weights = [Tensor(np.full((1 << 10, 8), 1e-3, np.float32)).shard(FOUR, None),
                   Tensor(np.full((8, 4), 0.1, np.float32)).shard(FOUR, None)]  # fmt: skip
        inputs.realize()
        losses, _ = self.train(inputs, wanted, weights, jit=False)
        self.assertLess(losses[-1], losses[0])
        during = self.in_use_by_the_command_line()
        self.assertEqual(list(during), SERVERS)
        share, whole = (1 << 20) // 4 * 4, (1 << 13) * 4
        for name, used in during.items():
            # A quarter of the batch; the weights, and Adam's two sums of each. Figures have four digits.
            self.assertGreaterEqual(used - before[name], (share + 3 * whole) * 0.999, name)
        self.assert_no_fallback()

    def test_training_on_four_devices_is_training(self):
        """Data-parallel: shares of the batch; tensor-parallel: of the hidden units. Within 1e-5 of one device."""
        from tinygrad import Tensor

        wanted = RNG.standard_normal((8, 4)).astype(np.float32)
        for jit in (False, True):
            losses, weights = self.train(Tensor(A), Tensor(wanted), [Tensor(B), Tensor(C)], jit)
            for batch, first, second in ((0, None, None), (None, 1, 0)):
                with self.subTest(jit=jit, batch=batch):
                    self.plugin.reset_stats()
                    spread = [Tensor(B).shard(FOUR, first), Tensor(C).shard(FOUR, second)]
                    got = self.train(Tensor(A).shard(FOUR, batch), Tensor(wanted).shard(FOUR, batch), spread, jit)
                    np.testing.assert_allclose(got[0], losses, rtol=1e-5)
                    for mine, theirs in zip(got[1], weights):
                        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
                    self.assertEqual([places(weight) for weight in spread], [SERVERS, SERVERS])
                    self.assert_no_fallback()
