"""KILN, KILN:1, … on a server with four devices, level T."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import device
import devices_cases
import numpy as np
from devices_cases import A, B, FOUR, SERVERS, places


def setUpModule():
    DevicesTest.plugin = device.start("T", "--cpu_devices=4")


class DevicesTest(devices_cases.DevicesCases, unittest.TestCase):
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
            self.plugin.client().fence()
            self.plugin.reset_stats()
            step(x)
            expected = expected - 0.01 * (A.T @ (A @ expected))
        self.assertEqual(self.plugin.stats().round_trips, 1)
        self.near(weight, expected)
        self.assert_no_fallback()

    def test_what_a_graph_on_several_devices_cannot_take_goes_down_a_level(self):
        from tinygrad import Tensor
        from tinygrad.uop.ops import KernelInfo, UOp

        def doubled(out, x):
            out, x = out.flatten(), x.flatten()
            i = UOp.range(x.numel(), 0)
            return out[i].store(x[i] * 2).end(i).sink(arg=KernelInfo(name="doubled"))

        x = Tensor(A).shard(FOUR, 0).realize()
        out = Tensor.zeros(8, 16).contiguous().shard(FOUR, 0).realize()
        self.near(out.custom_kernel(x, fxn=doubled)[0] + 1, A * 2 + 1)
        self.assertEqual(sum(self.plugin.stats().fallbacks.values()), 1)

    def test_sizes_with_variables(self):
        from tinygrad import Tensor, TinyJit, Variable

        x = Tensor(A).shard(FOUR, 0).realize()
        run = TinyJit(lambda x, n: (x[:, :n].sum(1) * 2).realize())
        for n in range(1, 7):
            self.near(run(x, Variable("n", 1, 8).bind(n)), A[:, :n].sum(1) * 2)
        self.assert_no_fallback()


if __name__ == "__main__":
    unittest.main()
