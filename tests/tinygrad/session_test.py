"""Memory that is there no longer: of a session that has ended, or all in use."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import device
import numpy as np
import support

import kiln
from kiln.v1 import session_service_pb2

A = np.random.default_rng(2).standard_normal((8, 16)).astype(np.float32)
MEMORY = 16 << 20


def setUpModule():
    global plugin
    plugin = device.start("T", "--cpu_memory_bytes=%d" % MEMORY)


class Sessions(unittest.TestCase):
    def lose_session(self):
        """As if the process had been stopped for longer than its lease."""
        client = plugin.client()
        session = client._connection.session
        gone = session.token
        with kiln.connect(client.target) as other:
            other._connection.call("SessionService.Close", session_service_pb2.CloseSessionRequest(token=gone))
        self.assertTrue(support.eventually(lambda: session.token != gone))

    def test_it_goes_on(self):
        from tinygrad import Tensor, TinyJit

        for _ in range(3):
            np.testing.assert_allclose((Tensor(A) * 2 + 1).realize().numpy(), A * 2 + 1, rtol=1e-6)  # fills the cache
            kept = Tensor(A).realize()
            plugin.client().fence()
            self.lose_session()
            with self.assertRaises(kiln.NotFound):
                kept.numpy()
            del kept  # into the cache
            for step in range(4):
                np.testing.assert_allclose((Tensor(A) * 2 + step).realize().numpy(), A * 2 + step, rtol=1e-6)
            run = TinyJit(lambda x: (x.sum(0) * 3).realize())
            for step in range(4):
                np.testing.assert_allclose(run(Tensor(A + step).realize()).numpy(), (A + step).sum(0) * 3, rtol=1e-4)

    def test_what_tinygrad_keeps_is_given_back_where_memory_is_short(self):
        from tinygrad import Tensor

        for size in (16000, 24000, 32000, 40000):  # bytes: half the memory each time, and none fits what is kept
            arrays = [np.full(size // 4, i, np.float32) for i in range(MEMORY // (2 * size))]
            kept = [Tensor(array).realize() for array in arrays]
            for i in (0, len(kept) - 1):
                self.assertEqual(kept[i].numpy()[-1], i)
            del kept


if __name__ == "__main__":
    unittest.main()
