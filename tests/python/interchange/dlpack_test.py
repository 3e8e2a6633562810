"""Arrays go to numpy and jax and come from them by DLPack, of every dtype, and torch where it is installed."""

import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support
import numpy as np

import kiln
import kiln.numpy as knp

try:
    import jax.numpy  # not the folder of tests of that name
except ImportError:
    jax = None
try:
    import torch
except ImportError:
    torch = None

NUMPYS = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)
NARROW = ("bfloat16", "float8_e4m3", "float8_e5m2", "float8_e4m3_fnuz", "float8_e5m2_fnuz")


def of(dtype, shape=(2, 3)):
    count = int(np.prod(shape))
    return (np.arange(count).reshape(shape) % 5).astype(kiln.dtype(dtype).numpy)


class OnDevice:
    """Memory of a GPU, as far as DLPack says."""

    def __dlpack__(self, **named):
        raise AssertionError("it is not read")

    def __dlpack_device__(self):
        return (2, 0)


class DLPack(support.ServerTest):
    def test_numpy_reads_arrays_and_buffers(self):
        for dtype in NUMPYS:
            for shape in ((2, 3), (), (0, 4), (7,)):
                for one in (kiln.array(of(dtype, shape)), self.client.buffer(of(dtype, shape))):
                    with self.subTest(dtype=dtype, shape=shape, kind=type(one).__name__):
                        found = np.from_dlpack(one)
                        self.assertEqual((found.dtype, found.shape), (np.dtype(dtype), shape))
                        np.testing.assert_array_equal(found, of(dtype, shape))
        self.assertEqual(kiln.array(1).__dlpack_device__(), (1, 0))

    def test_each_capsule_is_of_its_own_copy(self):
        x = kiln.array([1.0, 2.0])
        first, second = np.from_dlpack(x), np.from_dlpack(x)
        self.assertFalse(np.shares_memory(first, second))
        del x
        self.assertEqual((first.tolist(), second.tolist()), ([1, 2], [1, 2]))

    def test_what_is_no_copy_or_elsewhere_is_a_buffer_error(self):
        x = kiln.array([1.0])
        for named in ({"copy": False}, {"dl_device": (2, 0)}):
            with self.assertRaises(BufferError):
                x.__dlpack__(**named)
        self.assertIsNotNone(x.__dlpack__(copy=True, dl_device=(1, 0), max_version=(1, 0)))

    def test_from_numpy(self):
        for dtype in NUMPYS + NARROW:
            for given in (of(dtype), of(dtype).T, of(dtype)[::-1, ::2]):
                given.flags.writeable = False
                with self.subTest(dtype=dtype):
                    x = kiln.from_dlpack(given)
                    self.assertEqual((x.dtype, x.shape), (given.dtype, given.shape))
                    np.testing.assert_array_equal(x.numpy(), given)
        self.assertIs(kiln.from_dlpack, knp.from_dlpack)

    def test_our_own_arrays_come_back_of_every_dtype(self):
        for dtype in NUMPYS + NARROW:
            for shape in ((2, 3), (), (0,)):
                with self.subTest(dtype=dtype, shape=shape):
                    x = self.client.buffer(of(dtype, shape))
                    y = kiln.from_dlpack(x)
                    self.assertEqual((type(y), y.dtype, y.shape), (kiln.Array, x.dtype, shape))
                    np.testing.assert_array_equal(y.numpy(), of(dtype, shape))

    def test_what_cannot_be_read_is_said(self):
        with self.assertRaisesRegex(kiln.InvalidArgument, "memory of a device.*kind 2"):
            kiln.from_dlpack(OnDevice())
        with self.assertRaisesRegex(TypeError, "takes an array of a package that knows DLPack, not a list"):
            kiln.from_dlpack([1, 2])
        with self.assertRaises(ValueError):
            kiln.from_dlpack(np.ones(2), copy=False)

    @unittest.skipIf(jax is None, "jax is not installed")
    def test_jax(self):
        for dtype in ("bool", "int8", "uint32", "float16", "float32", "bfloat16"):
            with self.subTest(dtype):
                theirs = jax.numpy.asarray(of(dtype))
                x = kiln.from_dlpack(theirs)
                self.assertEqual(x.dtype, theirs.dtype)
                np.testing.assert_array_equal(x.numpy(), of(dtype))
                np.testing.assert_array_equal(kiln.array(theirs).numpy(), of(dtype))
                back = jax.dlpack.from_dlpack(x)
                self.assertEqual(back.dtype, theirs.dtype)
                np.testing.assert_array_equal(np.asarray(back), of(dtype))
                np.testing.assert_array_equal(np.asarray(jax.numpy.asarray(x)), of(dtype))

    @unittest.skipIf(torch is None, "torch is not installed")
    def test_torch(self):
        for name in ("int8", "int64", "uint8", "float16", "float32", "float64", "bfloat16"):
            with self.subTest(name):
                theirs = torch.arange(6).reshape(2, 3).to(getattr(torch, name)).T
                x = kiln.from_dlpack(theirs)
                self.assertEqual((x.dtype.name, x.shape), (name, (3, 2)))
                self.assertEqual((x.tolist(), kiln.array(theirs).tolist()), (theirs.tolist(), theirs.tolist()))
                back = torch.from_dlpack(x)
                self.assertEqual((back.dtype, back.tolist()), (theirs.dtype, theirs.tolist()))


class Shared(support.ServerTest):
    FLAGS = ("--shared_memory_max_bytes=%d" % (64 << 20),)

    def test_a_large_array_is_written_by_the_server(self):
        self.assertEqual(self.client.transport, "shared memory")
        given = np.arange(3 << 20, dtype=np.uint16).reshape(3, -1)
        x = kiln.array(given)
        self.client.fence()
        shared = self.client._connection.shared_memory
        with mock.patch.object(shared, "_through_pieces", side_effect=AssertionError("it goes through pieces")):
            found = np.from_dlpack(x)
            np.testing.assert_array_equal(found, given)
            y = kiln.from_dlpack(found)  # whose memory the server reads, too
        np.testing.assert_array_equal(y.numpy(), given)

    def test_where_all_that_is_shared_is_in_use_it_is_read_like_any(self):
        x = kiln.array(np.arange(2 << 20))
        shared = self.client._connection.shared_memory
        with mock.patch.object(shared, "empty", side_effect=kiln.ResourceExhausted("no more")):
            self.assertEqual(int(np.from_dlpack(x)[-1]), (2 << 20) - 1)


if __name__ == "__main__":
    unittest.main()
