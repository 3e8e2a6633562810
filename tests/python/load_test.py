"""Files of the server's become buffers: the values that numpy and safetensors wrote, and no way out of the folder."""

import json
import os
import pathlib
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import numpy as np

import kiln


def safetensors(tensors, metadata=None, **wrong):
    """A file's bytes, by the format's own text: {name: (dtype's name, array)}."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, array) in tensors.items():
        begin = len(data)
        data += array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, len(data)]}
    header.update(wrong)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class LoadTest(support.ServerTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.outside = pathlib.Path(folder.name) / "secret.npy"
        np.save(cls.outside, np.arange(3))
        cls.folder = pathlib.Path(folder.name) / "data"
        (cls.folder / "models").mkdir(parents=True)
        cls.FLAGS = ("--data_folder=%s" % cls.folder,)
        super().setUpClass()

    def write(self, name, data):
        (self.folder / name).write_bytes(data)
        return name

    def test_npy(self):
        for dtype in ("bool", "int8", "uint16", "int64", "float16", "float32", "float64"):
            for shape in ((), (0, 3), (7,), (2, 3, 4)):
                array = (np.random.default_rng(1).random(shape) * 100).astype(dtype)
                np.save(self.folder / "models" / "a.npy", array)
                with self.client.load("models/a.npy")[""] as buffer:
                    self.assertEqual((buffer.dtype.name, buffer.shape), (dtype, shape))
                    np.testing.assert_array_equal(buffer.numpy(), array)

    def test_safetensors(self):
        rng = np.random.default_rng(2)
        wanted = {
            "w": ("F32", rng.random((100, 30), np.float32)),
            "bias": ("F64", rng.random(7)),
            "ids": ("I64", np.array([[-1, 1 << 40]])),
            "flag": ("BOOL", np.array(True)),
            "none": ("U8", np.zeros((0, 4), np.uint8)),
        }
        file = self.write("m.safetensors", safetensors(wanted, {"format": "pt"}))
        listed = {row.name: (tuple(row.type.shape), row.bytes) for row in self.client.tensors(file)}
        self.assertEqual(listed, {name: (array.shape, array.nbytes) for name, (_, array) in wanted.items()})
        loaded = self.client.load(file)
        self.assertEqual(set(loaded), set(wanted))
        for name, (_, array) in wanted.items():
            np.testing.assert_array_equal(loaded[name].numpy(), array)
            self.assertEqual(loaded[name].shape, array.shape)
        some = self.client.load(file, ["ids", "w"])
        self.assertEqual(list(some), ["ids", "w"])
        np.testing.assert_array_equal(some["w"].numpy(), wanted["w"][1])

    def test_large_ones_are_read_whole(self):
        array = np.random.default_rng(3).integers(0, 1 << 32, (5 << 20) + 3, np.uint32)
        np.save(self.folder / "large.npy", array)
        with self.client.load("large.npy")[""] as buffer:
            np.testing.assert_array_equal(buffer.numpy(), array)

    def refused(self, file, why, names=()):
        before = self.in_use()
        with self.assertRaises(kiln.errors.InvalidArgument) as caught:
            self.client.load(file, names)
        self.assertIn(why, str(caught.exception))
        self.settle(before)

    def test_nothing_leads_out(self):
        os.symlink(self.outside, self.folder / "link.npy")
        os.symlink(self.folder.parent, self.folder / "up")
        os.symlink("models", self.folder / "inside")
        os.mkfifo(self.folder / "pipe")
        for file in ("../secret.npy", "models/../../secret.npy", str(self.outside), "link.npy", "up/secret.npy", "",
                     ".", "models", "pipe", "/proc/self/exe", "none.npy", "a\0b"):  # fmt: skip
            self.refused(file, "no such file")
        np.save(self.folder / "models" / "b.npy", np.arange(4))
        np.testing.assert_array_equal(self.client.load("inside/b.npy")[""].numpy(), np.arange(4))

    def test_files_that_are_wrong(self):
        one = {"x": ("F32", np.ones(4, np.float32))}
        good = safetensors(one)
        np.save(self.folder / "good.npy", np.arange(9.0))
        npy = (self.folder / "good.npy").read_bytes()
        row = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
        for data, why in (
            (b"", "fewer than 8 bytes"),
            (b"hello, world", "a header of"),
            (good[:-1], "ends after the file does"),
            (npy[:-1], "takes 72 bytes"),
            (npy + b"!", "takes 72 bytes"),
            (npy[:20], "ends in the header"),
            (struct.pack("<Q", 2) + b"[]", "no JSON object"),
            (struct.pack("<Q", 1) + b"{", "no JSON object"),
            (struct.pack("<Q", 1 << 63), "a header of"),
            (safetensors(one, y=dict(row, dtype="C64")), "dtype C64"),
            (safetensors(one, y=dict(row, shape=[5])), "takes 20 bytes"),
            (safetensors(one, y=dict(row, shape=[-4])), "not said by"),
            (safetensors(one, y=dict(row, shape=[1 << 62, 1 << 62])), "not said by"),
            (safetensors(one, y=dict(row, shape=[1 << 59, 1 << 59])), "y"),
            (safetensors(one, y=dict(row, shape=[1.5])), "not said by"),
            (safetensors(one, y=dict(row, shape=[1] * 40)), "y"),
            (safetensors(one, y=dict(row, data_offsets=[16, 0])), "not said by"),
            (safetensors(one, y=dict(row, data_offsets=[0])), "not said by"),
            (safetensors(one, y=dict(row, data_offsets=[1 << 50, (1 << 50) + 16])), "ends after the file does"),
            (safetensors(one, y=[]), "not said by"),
            (safetensors(one, y={}), "not said by"),
        ):
            self.refused(self.write("bad", data), why)
        self.refused(self.write("ok", good), 'no tensor "z"', ["x", "z"])


class WithoutTest(support.ServerTest):
    def test_there_is_no_folder(self):
        self.assertNotIn("load", self.client.features)
        with self.assertRaises(kiln.errors.Unimplemented):
            self.client.load("x.npy")
        with self.assertRaises(kiln.errors.Unimplemented):
            self.client.tensors("x.npy")


if __name__ == "__main__":
    unittest.main()
