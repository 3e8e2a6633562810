"""Arrays that the device makes: numpy's arange; Threefry's published vectors, and numpy's own run of it."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import numpy as np

import kiln


def threefry(counter, key):
    """Threefry-2x32-20 of arrays of uint64, as the paper writes it; the low half is the first word."""
    mask = np.uint64(0xFFFFFFFF)
    words = [(counter & mask).astype(np.uint32), (counter >> np.uint64(32)).astype(np.uint32)]
    keys = [np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 32)]
    keys.append(np.uint32(keys[0] ^ keys[1] ^ np.uint32(0x1BD11BDA)))
    turns = ((13, 15, 26, 6), (17, 29, 16, 24))
    words = [words[0] + keys[0], words[1] + keys[1]]
    for group in range(5):
        for turn in turns[group % 2]:
            words[0] = words[0] + words[1]
            words[1] = (words[1] << np.uint32(turn)) | (words[1] >> np.uint32(32 - turn))
            words[1] = words[1] ^ words[0]
        words[0] = words[0] + keys[(group + 1) % 3]
        words[1] = words[1] + keys[(group + 2) % 3] + np.uint32(group + 1)
    return words[0].astype(np.uint64) | words[1].astype(np.uint64) << np.uint64(32)


@np.errstate(over="ignore")
def bits(count, seed):
    return threefry(np.arange(count, dtype=np.uint64), seed)


class MadeTest(support.ServerTest):
    def test_arange(self):
        for bounds in ((10,), (0,), (3, 17), (3, 17, 5), (10, -3, -4), (5, 2)):
            for dtype in ("int64", "int32", "float32", "uint8" if min(bounds) >= 0 else "int8"):
                with self.subTest((bounds, dtype)), self.client.arange(*bounds, dtype=dtype) as buffer:
                    np.testing.assert_array_equal(buffer.numpy(), np.arange(*bounds, dtype=dtype), strict=True)
        with self.client.arange(0, 1, 0.125, dtype="float64") as buffer:
            np.testing.assert_array_equal(buffer.numpy(), np.arange(0, 1, 0.125), strict=True)
        with self.assertRaises(kiln.InvalidArgument):
            self.client.arange(0, 5, 0)

    def test_arange_has_numpys_dtype_and_values_to_the_last_bit(self):
        f32, i8 = np.float32, np.int8
        for bounds in ((0, 1, 0.25), (0.5,), (5.0,), (0, 1, 0.1), (1, 0, -0.1), (-3, 3, 0.7), (f32(0), f32(1), f32(0.1)),
                       (i8(3), i8(9)), (True, 5), (2**53, 2**53 + 5), (-(2**62), -(2**62) + 3), (0.1, 2.5, 1), (7, 7.5),
                       (1e300, 3e300, 1e300), (0, -1, 0.25), (np.uint8(3), 6), (0, 300, 0.3)):  # fmt: skip
            with self.subTest(bounds), self.client.arange(*bounds) as buffer:
                np.testing.assert_array_equal(buffer.numpy(), np.arange(*bounds), strict=True)
        for bounds, dtypes in (((0, 1, 0.1), ("float32", "float16", "bfloat16", "float64", "float8_e5m2")),
                               ((10, -3, -4), ("int16", "bfloat16")), ((10, 3, -2), ("uint8", "uint64", "uint16")),
                               ((2**24 - 2, 2**24 + 6), ("float32", "int32")), ((0, 2**24 + 4099, 4097), ("float32",)),
                               ((2**63, 2**63 + 4), ("uint64",)), ((-128, 128, 5), ("int8",)), ((2, 7.5), ("int64",)),
                               ((0.25, 40, 0.3), ("float32", "float16", "bfloat16"))):  # fmt: skip
            for dtype in dtypes:
                with self.subTest((bounds, dtype)), self.client.arange(*bounds, dtype=dtype) as buffer:
                    wanted = np.arange(*bounds, dtype=kiln.dtype(dtype).numpy)
                    self.assertEqual((buffer.dtype, buffer.shape), (wanted.dtype, wanted.shape))
                    self.assertEqual(buffer.numpy().tobytes(), wanted.tobytes(), (buffer.numpy(), wanted))

    def test_what_numpy_would_cut_off_or_wrap_is_refused(self):
        for attempt in (lambda: self.client.arange(0, 1, 0.25, "int64"), lambda: self.client.arange(0.5, 3, dtype="int32"),
                        lambda: self.client.arange(300, dtype="uint8"), lambda: self.client.arange(-1, 3, dtype="uint8"),
                        lambda: self.client.arange(3, dtype="bool"), lambda: self.client.arange("3"),
                        lambda: self.client.arange(1j), lambda: self.client.arange(0, float("inf")),
                        lambda: self.client.arange(float("nan")), lambda: self.client.arange(0, 9, 1, 5),
                        lambda: self.client.random(3, seed=-1), lambda: self.client.random(3, seed=1 << 64),
                        lambda: self.client.random(3, seed=1.5), lambda: self.client.random(2, 3, seed=1)):  # fmt: skip
            with self.assertRaises(kiln.InvalidArgument):
                attempt()

    def test_published_vectors(self):
        self.assertEqual(int(bits(1, 0)[0]), 0x99BA4EFE6B200159)
        with self.client.random(1, "uint64", seed=0) as buffer:
            self.assertEqual(int(buffer.numpy()[0]), 0x99BA4EFE6B200159)

    def test_random_integers(self):
        for dtype in ("uint64", "int64", "uint32", "int16", "uint8"):
            with self.subTest(dtype), self.client.random((13, 7), dtype, seed=2**64 - 5) as buffer:
                wanted = bits(91, 2**64 - 5).astype(dtype).reshape(13, 7)
                np.testing.assert_array_equal(buffer.numpy(), wanted, strict=True)
        with self.client.random(1000, "bool", seed=3) as buffer:
            np.testing.assert_array_equal(buffer.numpy(), bits(1000, 3) % np.uint64(2) == 1)

    def test_random_floats(self):
        for dtype, digits in (("float64", 53), ("float32", 24), ("float16", 11)):
            with self.subTest(dtype), self.client.random(100_000, dtype, seed=7) as buffer:
                values = buffer.numpy()
                wanted = (bits(100_000, 7) >> np.uint64(64 - digits)).astype(np.float64) * 2.0**-digits
                np.testing.assert_array_equal(values, wanted.astype(dtype), strict=True)
                self.assertTrue(((values >= 0) & (values < 1)).all())
                self.assertAlmostEqual(float(values.astype(np.float64).mean()), 0.5, delta=0.01)

    def test_nothing_large_travels(self):
        self.client.random(1 << 20, seed=1).free()
        before = self.wire()
        with self.client.random(1 << 20, seed=2) as buffer:
            self.assertLess(self.wire() - before, 256)
            self.assertEqual(buffer.nbytes, 4 << 20)
        with self.client.random((3, 0), seed=2) as nothing:
            self.assertEqual(nothing.numpy().shape, (3, 0))
        with self.assertRaises(kiln.DTypeError):
            self.client.random(3, "float8_e4m3", seed=1)

    def wire(self):
        return sum(row.sent_bytes + row.received_bytes for row in self.client.traffic.values())


if __name__ == "__main__":
    unittest.main()
