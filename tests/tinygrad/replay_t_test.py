"""TinyJit on Kiln, level T."""

import pathlib
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import device
import numpy as np
import replay_cases


def setUpModule():
    ReplayTest.plugin = device.start("T")


class ReplayTest(replay_cases.ReplayCases, unittest.TestCase):
    def test_graphs_and_kernels_in_one_step(self):
        """What level T refuses are kernels of tinygrad's, between graphs of ours."""
        from kiln.tinygrad import tensor_level
        from kiln.tinygrad.words import NotExpressible
        from tinygrad import Tensor, TinyJit

        prepare, asked = tensor_level.prepare, []

        def every_other(call):
            asked.append(call)
            if len(asked) % 2:
                raise NotExpressible("every other one")
            return prepare(call)

        def step(x):
            y = (x * 2 + 1).realize()
            z = (y @ x.T).realize()
            return (z.sum(1) - y[:, 0]).realize()

        captured = TinyJit(step)
        for i in range(6):
            x = Tensor(replay_cases.X[i]).realize()
            with unittest.mock.patch.object(tensor_level, "prepare", every_other):
                got, trips = self.round_trips(captured, x)
            y = replay_cases.X[i] * 2 + 1
            np.testing.assert_allclose(got.numpy(), (y @ replay_cases.X[i].T).sum(1) - y[:, 0], rtol=1e-4, atol=1e-4)
        self.assertEqual((trips, len(asked)), (1, 6))
        self.assertEqual(dict(self.plugin.stats().fallbacks), {"every other one": 3})
        self.plugin.reset_stats()


if __name__ == "__main__":
    unittest.main()
