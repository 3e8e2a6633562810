"""A captured TinyJit is one round trip a step, at level T."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import device
import numpy as np

RNG = np.random.default_rng(2)
W1 = (RNG.standard_normal((16, 32)) * 0.3).astype(np.float32)
W2 = (RNG.standard_normal((32, 4)) * 0.3).astype(np.float32)
X = RNG.standard_normal((10, 8, 16)).astype(np.float32)
Y = RNG.integers(0, 4, (10, 8)).astype(np.int32)


def setUpModule():
    global plugin
    plugin = device.start("T")


class Replay(unittest.TestCase):
    def losses(self, captured):
        """The losses of ten steps of Adam, and the round trips and graphs of the last."""
        from tinygrad import Tensor, TinyJit
        from tinygrad.helpers import Context
        from tinygrad.nn.optim import Adam

        weights = [Tensor(W1).is_param_(), Tensor(W2).is_param_()]
        optimizer = Adam(weights, lr=0.01)

        def step(x, y):
            optimizer.zero_grad()
            loss = (x @ weights[0]).relu().matmul(weights[1]).sparse_categorical_crossentropy(y)
            loss.backward()
            optimizer.step()
            return loss.realize()

        run, found = TinyJit(step) if captured else step, []
        with Context(TRAINING=1):
            for x, y in zip(X, Y):
                x, y = Tensor(x).realize(), Tensor(y).realize()
                plugin.reset_stats()
                loss = run(x, y)
                trips = plugin.stats().round_trips
                found.append(loss.item())
        self.assertEqual(dict(plugin.stats().fallbacks), {})
        return found, trips

    def test_a_step_is_one_round_trip(self):
        plain, several = self.losses(captured=False)
        replayed, one = self.losses(captured=True)
        self.assertEqual(replayed, plain)
        self.assertGreater(several, 1)
        self.assertEqual(one, 1)

    def test_a_result_may_be_the_next_input(self):
        from tinygrad import Tensor, TinyJit

        @TinyJit
        def step(x, state):
            return (state * 0.5 + x).realize()

        state, expected = Tensor([1.0, 2.0]).realize(), np.array([1.0, 2.0])
        for i in range(6):
            state = step(Tensor([float(i), 1.0]).realize(), state)
            expected = expected * 0.5 + np.array([i, 1.0])
            self.assertEqual(state.tolist(), expected.tolist())

    def test_variables_come_with_each_call(self):
        from tinygrad import Tensor, TinyJit, Variable

        data = np.arange(30, dtype=np.float32).reshape(10, 3)
        table = Tensor(data).realize()

        @TinyJit
        def head(n):
            return (table[:n].sum(0) * 2).realize()

        for count in range(1, 8):
            got = head(Variable("n", 1, 10).bind(count))
            self.assertEqual(got.tolist(), (data[:count].sum(0) * 2).tolist())


if __name__ == "__main__":
    unittest.main()
