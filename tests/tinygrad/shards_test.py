"""Tensors over several KILN devices, at level T, against numpy."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import device
import numpy as np

RNG = np.random.default_rng(1)
A = RNG.standard_normal((8, 16)).astype(np.float32)
B = RNG.standard_normal((16, 12)).astype(np.float32)
TWO = ("KILN", "KILN:1")
FOUR = ("KILN", "KILN:1", "KILN:2", "KILN:3")
AXES = (0, 1, None)


def setUpModule():
    global plugin
    plugin = device.start("T")


class Shards(unittest.TestCase):
    def tearDown(self):
        self.assertEqual(dict(plugin.stats().fallbacks), {})

    def near(self, tensor, expected):
        np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-4, atol=1e-4)

    def test_elementwise_and_reductions(self):
        from tinygrad import Tensor

        for devices in (TWO, FOUR):
            for axis in AXES:
                with self.subTest(devices=len(devices), axis=axis):
                    x = Tensor(A).shard(devices, axis)
                    self.near(x * 2, A * 2)
                    self.near(x.sum(0), A.sum(0))
                    self.near(x.max(1), A.max(1))
                    self.near(x.sum(), A.sum())

    def test_matmul(self):
        from tinygrad import Tensor

        for left in AXES:
            for right in AXES:
                with self.subTest(left=left, right=right):
                    self.near(Tensor(A).shard(FOUR, left) @ Tensor(B).shard(FOUR, right), A @ B)

    def test_each_shard_is_updated(self):
        from tinygrad import Tensor

        x = Tensor(A).shard(TWO, 0).realize()
        x.assign(x + 1).realize()
        self.near(x, A + 1)
        x[2:5] = 7
        expected = A + 1
        expected[2:5] = 7
        self.near(x, expected)
        self.near(x.to("KILN"), expected)

    def test_one_axis_alone(self):
        from tinygrad import Tensor

        numbers = np.arange(8, dtype=np.float32)
        for devices in (TWO, FOUR):
            x = Tensor(numbers).shard(devices, 0)
            self.near(x + 1, numbers + 1)
            self.near(x.reshape(4, 2).sum(1), numbers.reshape(4, 2).sum(1))
            x = x.realize()
            x[3:6] = 0
            self.near(x, np.where((numbers >= 3) & (numbers < 6), 0, numbers))

    def test_sums_over_devices(self):
        from tinygrad import Tensor
        from tinygrad.uop.ops import Ops

        for axis, parts in ((0, np.split(A, 4, 0)), (1, np.split(A, 4, 1)), (None, [A] * 4)):
            with self.subTest(axis=axis):
                summed = Tensor(Tensor(A).shard(FOUR, axis).uop.allreduce(Ops.ADD, FOUR))
                self.near(summed, sum(parts) if axis is None else np.concatenate([sum(parts)] * 4, axis))

    def test_a_part_of_each_shard_is_updated(self):
        from tinygrad import Tensor, TinyJit, Variable

        for axis in (0, None):
            with self.subTest(axis=axis):
                table = Tensor.zeros(4, 6).contiguous().realize().shard(TWO, axis).realize()
                column = Tensor.ones(4, 1).shard(TWO, axis).contiguous().realize()

                @TinyJit
                def step(table, at):
                    table[:, at : at + 1].assign(column).realize()
                    column.assign(column + 1).realize()

                for at in range(1, 5):
                    step(table, Variable("at", 0, 5).bind(at))
                self.near(table, np.tile(np.float32([0, 1, 2, 3, 4, 0]), (4, 1)))

    def test_functions(self):
        from tinygrad import Tensor, function

        for precompile in (False, True):
            with self.subTest(precompile=precompile):
                product = function(lambda x, y: (x @ y, x.sum(0)), precompile=precompile)
                whole, sums = product(Tensor(A).shard(TWO, 0), Tensor(B).shard(TWO, None))
                self.near(whole + 1, A @ B + 1)
                self.near(sums, A.sum(0))

    def test_a_kernel_of_ones_own_runs_on_each_shard(self):
        from tinygrad import Tensor
        from tinygrad.uop.ops import KernelInfo, UOp

        def doubled(out, x):
            out, x = out.flatten(), x.flatten()
            i = UOp.range(x.numel(), 0)
            return out[i].store(x[i] * 2).end(i).sink(arg=KernelInfo(name="doubled"))

        x = Tensor(A).shard(TWO, 0).realize()
        out = Tensor.zeros(8, 16).contiguous().shard(TWO, 0).realize()
        self.near(out.custom_kernel(x, fxn=doubled)[0] + 1, A * 2 + 1)

    def test_training_on_shards_is_training(self):
        from tinygrad import Tensor
        from tinygrad.helpers import Context
        from tinygrad.nn.optim import SGD

        def train(weights, inputs):
            optimizer = SGD([weights], lr=0.1)
            with Context(TRAINING=1):
                for _ in range(3):
                    optimizer.zero_grad()
                    (inputs @ weights).square().mean().backward()
                    optimizer.step()
            return weights

        alone = train(Tensor(B).is_param_(), Tensor(A)).numpy()
        self.near(train(Tensor(B).shard(TWO, None).is_param_(), Tensor(A).shard(TWO, 0)), alone)


if __name__ == "__main__":
    unittest.main()
