"""Buffers: what is written is what is read, in every dtype, by ranges, views and copies."""

import gc
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import numpy as np

import kiln
from kiln import dtypes

STORED = [row for row in dtypes.BY_NUMBER.values() if row.itemsize]
SHAPES = [(), (1,), (0,), (7,), (3, 0, 2), (2, 3, 4)]


class Buffers(support.ServerTest):
    def test_every_dtype_and_shape_comes_back(self):
        random = np.random.default_rng(1)
        for kind in STORED:
            for shape in SHAPES:
                with self.subTest(kind=kind, shape=shape):
                    bits = random.integers(0, 2 if kind is kiln.bool_ else 256,
                                           shape + (kind.itemsize,), dtype=np.uint8)  # fmt: skip
                    array = bits.view(kind.numpy).reshape(shape)
                    with self.client.buffer(array) as buffer:
                        self.assertEqual((buffer.shape, buffer.dtype), (shape, kind))
                        self.assertEqual(buffer.nbytes, array.nbytes)
                        back = buffer.numpy()
                    self.assertEqual(back.dtype, array.dtype)
                    self.assertEqual(back.tobytes(), array.tobytes())
                    self.assertTrue(back.flags.writeable)

    def test_lists_and_numbers(self):
        self.assertEqual(self.client.buffer([1, 2, 3]).dtype, kiln.int64)
        self.assertEqual(self.client.buffer([1, 2, 3], "float32").numpy().tolist(), [1.0, 2.0, 3.0])
        self.assertEqual(self.client.buffer(2.5).shape, ())
        self.assertEqual(self.client.buffer(np.arange(3), "uint8").dtype, kiln.uint8)

    def test_a_buffer_begins_as_zeros(self):
        for kind in ("float32", "int8"):
            self.assertEqual(self.client.empty((3, 2), kind).numpy().tolist(), [[0, 0]] * 3)
        raw = self.client.allocate(5)
        self.assertEqual((raw.dtype, raw.shape, raw.nbytes), (kiln.uint8, (5,), 5))

    def test_ranges(self):
        buffer = self.client.buffer(np.arange(10, dtype=np.int32))
        buffer.write(np.array([70, 80], np.int32), start=7)
        self.assertEqual(buffer.read(6, 3).tolist(), [6, 70, 80])
        self.assertEqual(buffer.read(8).tolist(), [80, 9])
        self.assertEqual(buffer.read(10).tolist(), [])
        buffer.fill(-1, 1, 2)
        self.assertEqual(buffer.read(0, 4).tolist(), [0, -1, -1, 3])
        buffer.fill(5)
        self.assertEqual(set(buffer.numpy().tolist()), {5})
        memory = bytearray(8)
        buffer.read_into(memory, 4)
        self.assertEqual(bytes(memory), np.array([5, 5], np.int32).tobytes())
        buffer.write_bytes(b"\1\0\0\0", 8)
        self.assertEqual(buffer.read(1, 2).tolist(), [5, 1])

    def test_ranges_outside_are_refused(self):
        buffer = self.client.buffer(np.arange(10, dtype=np.int32))
        for attempt in (lambda: buffer.read(5, 6), lambda: buffer.read(-1, 2), lambda: buffer.read(11),
                        lambda: buffer.fill(0, 9, 2), lambda: buffer.write(np.zeros(3, np.int32), start=8),
                        lambda: buffer.view((11,)), lambda: buffer.view((1,), start=10), lambda: buffer[10],
                        lambda: buffer.copy_from(buffer, start=1), lambda: buffer.read_into(bytearray(8), 36),
                        lambda: buffer.write_bytes(b"12345", 36)):  # fmt: skip
            with self.assertRaises(kiln.OutOfRange) as caught:
                attempt()
            self.assertEqual(caught.exception.code, "OUT_OF_BOUNDS")
        self.assertEqual(buffer.numpy().tolist(), list(range(10)))

    def test_what_does_not_fit_is_refused(self):
        buffer = self.client.empty((2, 3), "float32")
        with self.assertRaises(kiln.ShapeError):
            buffer.write(np.zeros((3, 2), np.float32))
        with self.assertRaises(kiln.DTypeError):
            buffer.write(np.zeros((2, 3)))
        with self.assertRaises(kiln.DTypeError):
            buffer.copy_from(self.client.empty((2, 3), "int32"))
        with self.assertRaises(kiln.ShapeError):
            self.client.empty((-1,))
        with self.assertRaises(kiln.ShapeError):
            self.client.empty((1 << 40, 1 << 40))
        with self.assertRaises(kiln.DTypeError):
            self.client.empty((1,), "weakint")

    def test_views_share_memory(self):
        buffer = self.client.buffer(np.arange(12, dtype=np.float32).reshape(3, 4))
        self.assertEqual(buffer[1].numpy().tolist(), [4, 5, 6, 7])
        self.assertEqual(buffer[-1].shape, (4,))
        self.assertEqual(buffer[1:].shape, (2, 4))
        self.assertEqual(buffer[2:1].shape, (0, 4))
        buffer[0:2].write(np.zeros((2, 4), np.float32))
        self.assertEqual(buffer.numpy().sum(), 8 + 9 + 10 + 11)
        as_bits = buffer.view(dtype="uint32")
        self.assertEqual((as_bits.shape, as_bits.dtype, as_bits.is_view), ((12,), kiln.uint32, True))
        self.assertEqual(as_bits.read(8, 1)[0], np.float32(8).view(np.uint32))
        rows = [row.numpy()[0] for row in buffer]
        self.assertEqual(rows, [0, 0, 8])
        row = buffer[2]
        buffer.free()
        self.assertEqual(row.numpy().tolist(), [8, 9, 10, 11])

    def test_copies(self):
        buffer = self.client.buffer(np.arange(6, dtype=np.int16))
        other = buffer.copy()
        other.copy_from(buffer, start=0, from_start=4, count=2)
        self.assertEqual(other.numpy().tolist(), [4, 5, 2, 3, 4, 5])
        buffer.copy_from(buffer, start=1, from_start=0, count=5)
        self.assertEqual(buffer.numpy().tolist(), [0, 0, 1, 2, 3, 4])

    def test_strides_and_byte_order_are_copied_once(self):
        array = np.arange(24, dtype=np.float32).reshape(4, 6)
        for odd in (array.T, array[::2, ::-1], np.asfortranarray(array), array.astype(">f4"),
                    np.broadcast_to(np.float32(3), (2, 5))):  # fmt: skip
            self.assertEqual(self.client.buffer(odd).numpy().tolist(), odd.tolist())
        from kiln import arrays

        self.assertIs(arrays.host_array(array), array)
        self.assertTrue(np.shares_memory(arrays.byte_view(array), array))
        copied = arrays.host_array(array.T)
        self.assertTrue(copied.flags.c_contiguous and copied.base is None)

    def test_dtypes_that_kiln_has_not(self):
        for array in (np.zeros(2, complex), np.array([object()]), np.array(["a"]), np.array([b"a"]),
                      np.array(["2020-01-01"], "M8[D]"), np.zeros(1, "m8[s]"), np.zeros(1, np.longdouble),
                      np.zeros(1, [("a", "i4")])):  # fmt: skip
            with self.subTest(array.dtype), self.assertRaises(kiln.UnsupportedDType) as caught:
                self.client.buffer(array)
            self.assertTrue(caught.exception.remedy)

    def test_progress_counts_bytes_and_may_end_an_upload(self):
        array = np.random.default_rng(2).integers(0, 255, 5 << 19, dtype=np.uint8)
        seen = []
        buffer = self.client.buffer(array, progress=lambda done, total: seen.append((done, total)))
        self.assertEqual([seen[0], seen[-1]], [(0, array.nbytes), (array.nbytes, array.nbytes)])
        self.assertEqual(seen, sorted(seen))
        self.assertEqual(len(seen), 4)
        seen.clear()
        back = buffer.numpy(progress=lambda done, total: seen.append(done))
        self.assertEqual((seen[0], seen[-1]), (0, array.nbytes))
        self.assertTrue((back == array).all())

        def refuse(done, total):
            if done:
                raise LookupError("enough")

        before = self.in_use()
        with self.assertRaisesRegex(LookupError, "enough"):
            self.client.buffer(array, progress=refuse)
        with self.assertRaisesRegex(LookupError, "enough"):
            buffer.numpy(progress=refuse)
        self.settle(before)
        self.assertTrue((buffer.numpy() == array).all())

    def test_freed_by_hand_by_with_and_by_the_collector(self):
        gc.collect()
        before = self.in_use()
        kept = self.client.empty((1000,))
        self.assertEqual(self.in_use()[1], before[1] + 1)
        kept.free()
        kept.free()
        with self.client.empty((10,)):
            pass
        self.client.empty((10,))
        cycle = [self.client.empty((10,))]
        cycle.append(cycle)
        del cycle
        gc.collect()
        self.assertEqual(self.in_use(), before)
        for use in (kept.numpy, kept.copy, lambda: kept.fill(0), lambda: kept[0], lambda: kept.handle):
            with self.assertRaises(kiln.BufferFreed):
                use()
        self.assertIn("freed", repr(kept))

    def test_a_client_gives_all_back_when_it_closes(self):
        before = self.in_use()
        with kiln.connect(self.server.address) as client:
            kept = client.empty((100,))
            client.fence()
            self.assertEqual(self.in_use()[1], before[1] + 1)
        self.assertEqual(self.in_use(), before)
        with self.assertRaises(kiln.FailedPrecondition):
            kept.numpy()
        with self.assertRaises(kiln.FailedPrecondition):
            client.devices()
        kept.free()
        client.close()

    def test_array_protocol(self):
        buffer = self.client.buffer([1, 2, 3], "int32")
        self.assertEqual(np.asarray(buffer).dtype, np.int32)
        self.assertEqual(np.sum(np.asarray(buffer, dtype=float)), 6)


if __name__ == "__main__":
    unittest.main()
