"""KILN, KILN:1, … on a server with four devices: each is its own, collectives are Kiln's, and results are one device's."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import device
import numpy as np

RNG = np.random.default_rng(3)
A = RNG.standard_normal((8, 16)).astype(np.float32)
B = RNG.standard_normal((16, 12)).astype(np.float32)
C = RNG.standard_normal((12, 4)).astype(np.float32)
FOUR = ("KILN", "KILN:1", "KILN:2", "KILN:3")
SERVERS = ["CPU:0", "CPU:1", "CPU:2", "CPU:3"]
AXES = (0, 1, None)


def setUpModule():
    global plugin
    plugin = device.start("T", "--cpu_devices=4")


def places(tensor):
    """The server's device of each of a tensor's shards."""
    held = tensor.uop.base.buf_uop.buffer
    return [part._buf.buffer.device for part in getattr(held, "bufs", [held])]


def in_use():
    return {row.name: row.memory_in_use_bytes for row in plugin.client().devices()}


class Devices(unittest.TestCase):
    def setUp(self):
        plugin.reset_stats()

    def assert_no_fallback(self):
        self.assertEqual(dict(plugin.stats().fallbacks), {})

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

        before = in_use()
        x = Tensor(np.zeros((1 << 12, 1 << 10), np.float32)).shard(FOUR, 0).realize()
        y = (x + 1).realize()
        plugin.client().fence()
        self.assertEqual((places(x), places(y)), (SERVERS, SERVERS))
        share = (1 << 22) // 4 * 4
        for name, used in in_use().items():
            self.assertGreaterEqual(used - before[name], 2 * share, name)
        self.assertEqual(float(y.sum().item()), float(1 << 22))
        self.assert_no_fallback()

    def test_copies_between_devices_are_the_servers(self):
        from tinygrad import Tensor

        x = Tensor(np.tile(A, (1 << 10, 1)), device="KILN:1").realize()
        plugin.reset_stats()
        y = x.to("KILN:3").realize()
        plugin.client().fence()
        sent = plugin.stats()
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

    def test_what_crosses_the_borders_of_shards(self):
        """tinygrad's own scheduler refuses these."""
        from tinygrad import Tensor

        x = Tensor(A).shard(FOUR, 0).realize()
        self.near(x[3:7] * 2, A[3:7] * 2)
        self.near(x.flip(0) + 1, A[::-1] + 1)
        self.near(x.pad(((1, 3), (0, 0))) + 1, np.pad(A, ((1, 3), (0, 0))) + 1)
        x[3:6] = 7
        expected = A.copy()
        expected[3:6] = 7
        self.near(x, expected)
        self.assertEqual(places((x + 1).realize()), SERVERS)
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

    def test_training_on_four_devices_is_training(self):
        """Data-parallel: shares of the batch; tensor-parallel: of the hidden units. Within 1e-5 of one device."""
        from tinygrad import Tensor

        wanted = RNG.standard_normal((8, 4)).astype(np.float32)
        for jit in (False, True):
            losses, weights = self.train(Tensor(A), Tensor(wanted), [Tensor(B), Tensor(C)], jit)
            for batch, first, second in ((0, None, None), (None, 1, 0)):
                with self.subTest(jit=jit, batch=batch):
                    plugin.reset_stats()
                    spread = [Tensor(B).shard(FOUR, first), Tensor(C).shard(FOUR, second)]
                    got = self.train(Tensor(A).shard(FOUR, batch), Tensor(wanted).shard(FOUR, batch), spread, jit)
                    np.testing.assert_allclose(got[0], losses, rtol=1e-5)
                    for mine, theirs in zip(got[1], weights):
                        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
                    self.assertEqual([places(weight) for weight in spread], [SERVERS, SERVERS])
                    self.assert_no_fallback()

    def test_a_step_on_four_devices_is_one_round_trip(self):
        from tinygrad import Tensor, TinyJit

        weight = Tensor(B).shard(FOUR, None).realize()

        @TinyJit
        def step(x):
            y = (x @ weight).realize()
            weight.assign(weight - 0.01 * (x.T @ y)).realize()
            return y.sum().realize()

        x, expected = Tensor(A).shard(FOUR, 0).realize(), B
        for _ in range(5):
            plugin.client().fence()
            plugin.reset_stats()
            step(x)
            expected = expected - 0.01 * (A.T @ (A @ expected))
        self.assertEqual(plugin.stats().round_trips, 1)
        self.near(weight, expected)
        self.assert_no_fallback()

    def test_what_a_graph_on_several_devices_cannot_take_goes_down_a_level(self):
        from tinygrad import Tensor, TinyJit, Variable
        from tinygrad.uop.ops import KernelInfo, UOp

        def doubled(out, x):
            out, x = out.flatten(), x.flatten()
            i = UOp.range(x.numel(), 0)
            return out[i].store(x[i] * 2).end(i).sink(arg=KernelInfo(name="doubled"))

        x = Tensor(A).shard(FOUR, 0).realize()
        out = Tensor.zeros(8, 16).contiguous().shard(FOUR, 0).realize()
        self.near(out.custom_kernel(x, fxn=doubled)[0] + 1, A * 2 + 1)
        self.assertEqual(sum(plugin.stats().fallbacks.values()), 1)
        plugin.reset_stats()

        run = TinyJit(lambda x, n: (x[:, :n].sum(1) * 2).realize())
        for n in range(1, 7):
            self.near(run(x, Variable("n", 1, 8).bind(n)), A[:, :n].sum(1) * 2)
        self.assertGreater(sum(plugin.stats().fallbacks.values()), 0)


if __name__ == "__main__":
    unittest.main()
