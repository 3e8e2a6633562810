"""kiln.save and kiln.load: values by name in both kinds of file, as numpy and safetensors read and write them; nothing
that is no array of numbers, and no half a file."""

import os
import pathlib
import pickle
import struct
import sys
import tempfile
import unittest
import unittest.mock
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support
import numpy as np

import kiln

try:
    import safetensors.numpy
except ImportError:
    safetensors = None

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
NAMES = ["w", "layers/0.weight", "file", "ä b"]


def of(dtype):
    return (np.arange(6).reshape(2, 3) % 5).astype(kiln.dtype(dtype).numpy)


class Bomb:
    """What a pickle would run."""

    def __reduce__(self):
        return (os.mkdir, ("was-run",))


class FilesTest(support.ServerTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def same(self, found, wanted):
        self.assertEqual(list(found), list(wanted))
        for name, value in wanted.items():
            value = np.asarray(value)
            self.assertEqual(
                (type(found[name]), found[name].dtype, found[name].shape), (kiln.Array, value.dtype, value.shape)
            )
            np.testing.assert_array_equal(found[name].numpy(), value)


class Npz(FilesTest):
    def test_there_and_back_and_as_numpy_has_it(self):
        path = self.folder / "a.npz"
        wanted = {dtype: of(dtype) for dtype in NUMPYS}
        wanted.update({name: np.float32(at) for at, name in enumerate(NAMES)}, none=np.zeros((0, 3)))
        kiln.save(
            path, {name: kiln.array(value) if at % 2 else value for at, (name, value) in enumerate(wanted.items())}
        )
        self.same(kiln.load(path), wanted)
        with np.load(path, allow_pickle=False) as theirs:
            for name, value in wanted.items():
                np.testing.assert_array_equal(theirs[name], value)
        for write in (np.savez, np.savez_compressed):
            write(path, a=np.asfortranarray(of("float64")), b=of("int32").astype(">i4"))
            self.same(kiln.load(str(path)), {"a": of("float64"), "b": of("int32")})

    def test_equal_arrays_make_equal_files(self):
        for name in ("a.npz", "b.npz"):
            kiln.save(self.folder / name, {"x": kiln.array([1.0]), "y": self.client.buffer([2])})
        self.assertEqual((self.folder / "a.npz").read_bytes(), (self.folder / "b.npz").read_bytes())

    def test_by_name(self):
        path = self.folder / "a.npz"
        np.savez(path, a=1, b=2, c=np.array([Bomb()], object))
        self.same(kiln.load(path, ["b", "a"]), {"b": np.int64(2), "a": np.int64(1)})
        with self.assertRaisesRegex(kiln.NotFound, "holds no 'd'.*it holds a, b, c"):
            kiln.load(path, ["d"])
        with self.assertRaisesRegex(TypeError, "list of names"):
            kiln.load(path, "a")

    def test_pickles_are_refused_and_not_run(self):
        path = self.folder / "a.npz"
        np.savez(path, a=np.array([Bomb()], object))
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        with self.assertRaisesRegex(kiln.InvalidArgument, "'a' of .* is no array of numbers"):
            kiln.load(path)
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("a.npy", pickle.dumps(Bomb()))
        with self.assertRaisesRegex(kiln.InvalidArgument, "'a' of .* is no array of numbers"):
            kiln.load(path)
        self.assertEqual(os.listdir(self.folder), ["a.npz"])

    def test_what_is_no_npz_or_lies(self):
        path = self.folder / "a.npz"
        path.write_bytes(b"no zip at all")
        with self.assertRaisesRegex(kiln.InvalidArgument, "is no .npz"):
            kiln.load(path)
        for name, data in (("short", _npy("<f8", (1 << 40,), b"12345678")), ("text", _npy("<U2", (1,), b"12345678")),
                           ("complex", _npy("<c16", (1,), bytes(16))), ("version", b"\x93NUMPY\x09\x00" + bytes(20)),
                           ("other", b"some text")):  # fmt: skip
            with zipfile.ZipFile(path, "w") as file:
                file.writestr("a.npy", data)
            with (
                self.subTest(name),
                self.assertRaisesRegex(kiln.InvalidArgument, "'a' of .* is no array of numbers: ."),
            ):
                kiln.load(path)
        kiln.save(path, {"x": np.arange(100)})
        whole = bytearray(path.read_bytes())
        whole[-300] ^= 1  # one of its numbers
        path.write_bytes(whole)
        with self.assertRaisesRegex(kiln.InvalidArgument, "CRC"):
            kiln.load(path)

    def test_what_an_npz_does_not_hold(self):
        for dtype in NARROW:
            with self.assertRaisesRegex(kiln.DTypeError, "an .npz holds no .*safetensors"):
                kiln.save(self.folder / "a.npz", {"x": self.client.buffer(of(dtype))})
        with self.assertRaises(kiln.UnsupportedDType):
            kiln.save(self.folder / "a.npz", {"x": np.array([1j])})
        self.assertEqual(os.listdir(self.folder), [])


class Anyhow(FilesTest):
    def test_a_failed_save_leaves_what_was_there(self):
        path = self.folder / "a.npz"
        kiln.save(path, {"x": 1})
        os.chmod(path, 0o640)
        before = path.read_bytes()

        def stop(done, total):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            kiln.save(path, {"x": kiln.array([1.0])}, progress=stop)
        self.assertEqual((os.listdir(self.folder), path.read_bytes()), (["a.npz"], before))
        kiln.save(path, {"x": 2})
        self.assertEqual((int(kiln.load(path)["x"]), path.stat().st_mode & 0o777), (2, 0o640))
        with self.assertRaises(OSError):
            kiln.save(self.folder / "none" / "a.npz", {"x": 1})
        with self.assertRaises(FileNotFoundError):
            kiln.load(self.folder / "none.npz")

    def test_what_is_wrong_is_named(self):
        for call, named in ((lambda: kiln.save("a.npy", {"x": 1}), "save: path is 'a.npy', whose suffix"),
                            (lambda: kiln.load("a"), "load: path is 'a', whose suffix is none of .npz, .safetensors"),
                            (lambda: kiln.save("a.npz", [1]), "values is a dict of arrays by name, not list"),
                            (lambda: kiln.save("a.npz", {1: 1}), "values is a dict of arrays by name")):  # fmt: skip
            with self.assertRaisesRegex(kiln.InvalidArgument, named):
                call()

    def test_progress_counts_all_arrays(self):
        path, seen, more = self.folder / "a.npz", [], []
        values = {"a": kiln.array(np.zeros(3 << 17)), "b": np.ones(2), "c": kiln.array(np.zeros(1 << 17))}
        kiln.save(path, values, progress=lambda done, total: seen.append((done, total)))
        self.assertEqual((seen[0], seen[-1]), ((0, 4 << 20), (4 << 20, 4 << 20)))
        self.assertEqual(seen, sorted(seen))
        kiln.load(path, progress=more.append)
        self.assertEqual(sum(more), (4 << 20) + 16)
        self.assertGreater(min(more), 0)


@unittest.skipIf(safetensors is None, "the package safetensors is not installed")
class Safetensors(FilesTest):
    def test_there_and_back_and_as_the_package_has_it(self):
        path = self.folder / "a.safetensors"
        wanted = {dtype: of(dtype) for dtype in NUMPYS + NARROW[:3]}
        wanted.update(
            {name: np.float32(at) for at, name in enumerate(NAMES)}, none=np.zeros((0, 3)), turned=of("int32").T
        )
        kiln.save(
            path, {name: kiln.array(value) if at % 2 else value for at, (name, value) in enumerate(wanted.items())}
        )
        found = kiln.load(path)
        self.same({name: found[name] for name in wanted}, wanted)
        self.assertEqual(len(found), len(wanted))
        with safetensors.safe_open(path, framework="np") as theirs:
            for dtype in NUMPYS:
                np.testing.assert_array_equal(theirs.get_tensor(dtype), of(dtype))
        safetensors.numpy.save_file({"x": of("float32")}, path)
        self.same(kiln.load(path, ["x"]), {"x": of("float32")})

    def test_what_only_newer_versions_hold(self):
        path = self.folder / "a.safetensors"
        for dtype in NARROW[3:]:
            try:
                kiln.save(path, {"x": self.client.buffer(of(dtype))})
            except kiln.DTypeError as error:
                self.assertRegex(str(error), "safetensors .*fnuz")
            else:
                self.same(kiln.load(path), {"x": of(dtype)})

    def test_what_is_none(self):
        path = self.folder / "a.safetensors"
        header = b'{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,%d]}}'
        for data in (b"", b"no header", struct.pack("<Q", 1 << 60) + b"{}", struct.pack("<Q", len(header)) + header % 4,
                     struct.pack("<Q", len(header) - 1) + header % 9 + bytes(9)):  # fmt: skip
            path.write_bytes(data)
            with self.subTest(data), self.assertRaisesRegex(kiln.InvalidArgument, "is no .safetensors: ."):
                kiln.load(path)
        with self.assertRaises(FileNotFoundError):
            kiln.load(self.folder / "none.safetensors")


class Without(unittest.TestCase):
    def test_the_package_is_named(self):
        with (
            tempfile.TemporaryDirectory() as folder,
            unittest.mock.patch.dict(sys.modules, {"safetensors": None, "safetensors.numpy": None}),
        ):
            with self.assertRaisesRegex(ImportError, "pip install safetensors"):
                kiln.load(pathlib.Path(folder) / "a.safetensors")
            with self.assertRaisesRegex(ImportError, "the package safetensors"):
                kiln.save(pathlib.Path(folder) / "a.safetensors", {})
            self.assertEqual(os.listdir(folder), [])


def _npy(kind, shape, data):
    header = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


if __name__ == "__main__":
    unittest.main()
