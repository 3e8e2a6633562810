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
