"""keccak() and hash() on Kiln: hashlib's digests, and written once for each shape."""

import hashlib
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))

import device
import numpy as np
import sort_bench


def setUpModule():
    global plugin
    plugin = device.start("T")


class Hash(unittest.TestCase):
    def tearDown(self):
        self.assertEqual(dict(plugin.stats().fallbacks), {})

    def test_digests(self):
        from tinygrad import Tensor

        rng = np.random.default_rng(9)
        for count in (1, 20, 135, 136):
            data = rng.integers(0, 256, count, dtype=np.uint8)
            digest = Tensor(data).keccak("sha3_256")
            self.assertEqual(bytes(digest.numpy()), hashlib.sha3_256(data.tobytes()).digest())

    def test_a_second_one_of_a_shape_is_not_written_again(self):
        from tinygrad import Tensor

        times = []
        for seed in range(3):
            data = np.random.default_rng(seed).integers(0, 256, (2, 400), dtype=np.uint8)
            begin = time.process_time()
            digest = Tensor(data).keccak("shake_128")
            got = digest.numpy()
            times.append(time.process_time() - begin)
            for row, mine in zip(data, got):
                self.assertEqual(bytes(mine), hashlib.shake_128(row.tobytes()).digest(len(mine)))
        self.assertLess(times[2], times[0] / 4)

    def test_a_mebibyte(self):
        """A digest of the digests of each 4096 bytes. The first takes tinygrad and the compiler their time."""
        from tinygrad import Tensor

        times = []
        for seed in range(4):
            data = np.random.default_rng(seed).integers(0, 256, 1 << 20, dtype=np.uint8)
            x = Tensor(data).realize()
            begin = time.monotonic()
            digest = bytes(x.hash().numpy())
            times.append(time.monotonic() - begin)
            self.assertEqual(digest, sort_bench.hashed(data))
        # The quickest of three, by a server that is not optimized: 0.2 s where nothing else runs.
        self.assertLess(min(times[1:]), 1)

    def test_fewer_bytes_are_hashed_with_zeros_behind_them(self):
        from tinygrad import Tensor

        data = np.arange(100, dtype=np.uint8)
        self.assertEqual(bytes(Tensor(data).hash().numpy()), sort_bench.hashed(data))


if __name__ == "__main__":
    unittest.main()
