"""A server that reads files of a folder and shares memory: files that lie, ways out of the folder, memory that is none."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct

from attack import attack, refused
from kiln.v1 import tensor_pb2

MIB = 1 << 20
# Of linux/fcntl.h.
F_ADD_SEALS, F_SEAL_SHRINK, F_SEAL_WRITE = 1033, 2, 8


# -- Files


def _load(target, name, data=None):
    """Must be refused, whatever `data` makes of the file, and take nothing; a good file is loaded before."""
    (target.folder / "good").write_bytes(_safetensors({"x": ROW}))
    good = target.call("BufferService.Load", file="good")
    assert good, good.error
    target.free(good.answer.tensors[0].buffer.handle)
    if data is not None:
        (target.folder / name).write_bytes(data)
    before = target.device_memory()
    for rpc in ("ListTensors", "Load"):
        error = refused(target.call("BufferService." + rpc, file=name), "BAD_ARGUMENT")
        assert str(target.folder) not in error.message, "it says where the folder lies: %s" % error
    assert target.gives_back_to(before)


@attack(local=True)
def file_outside_of_the_folder(target):
    """No name leads out of the folder: not upwards, absolute, by a link, nor through /proc."""
    for name, to in (("link", "/etc/passwd"), ("up", ".."), ("root", "/"), ("self", "/proc/self"), ("loop", "loop")):
        if not (target.folder / name).is_symlink():
            os.symlink(to, target.folder / name)
    for name in ("/etc/passwd", "../../etc/passwd", "link", "up/data", "root/etc/passwd", "self/mem", "self/fd/0", "loop",
                 "/proc/self/environ", "..", ".", "", "//etc/passwd", "a\0b", "x" * 5000, "a/" * 3000):  # fmt: skip
        _load(target, name)


@attack(local=True)
def file_that_is_no_file(target):
    """A folder, a pipe that nobody writes, and a socket are no files, and nobody waits for them."""
    (target.folder / "folder").mkdir(exist_ok=True)
    if not (target.folder / "pipe").exists():
        os.mkfifo(target.folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(target.folder / "socket"))
        for name in ("folder", "pipe", "socket"):
            _load(target, name)
    (target.folder / "socket").unlink()


@attack(local=True)
def file_that_claims_a_terabyte(target):
    """A hole of a terabyte is no reason to take one: the device's memory is asked first."""
    header = json.dumps({"x": {"dtype": "U8", "shape": [1 << 40], "data_offsets": [0, 1 << 40]}}).encode()
    with open(target.folder / "hole", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + (1 << 40))
    try:
        refused(target.call("BufferService.Load", file="hole"), "OUT_OF_MEMORY")
    finally:
        (target.folder / "hole").unlink()


def _safetensors(header, data=b"\0" * 16):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def _npy(header, data=b"\0" * 16):
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + data


def _gguf(tensors=1, pairs=1, rest=b"", version=3):
    """The head of a GGUF file: how many tensors and pairs of metadata there are, which come behind it."""
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs) + rest


def _text(text, length=None):
    return struct.pack("<Q", len(text) if length is None else length) + text


def _tensor(name=b"x", shape=(4,), kind=0, offset=0, dimensions=None):
    """One of its tensors: name, shape, type, and where it begins."""
    count = len(shape) if dimensions is None else dimensions
    return _text(name) + struct.pack("<I", count) + b"".join(struct.pack("<Q", size) for size in shape) + struct.pack("<IQ", kind, offset)


def _file(name, data, promise):
    def run(target):
        _load(target, "lies", data)

    run.__doc__ = promise
    attack(run, name="file_" + name, local=True)


ROW = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
for _name, _data, _promise in (
    ("of_nothing", b"", "An empty file has no tensors."),
    ("of_noise", bytes(range(256)) * 20, "Noise has none."),
    ("with_a_header_without_end", struct.pack("<Q", (1 << 64) - 1) + b"{}", "A header ends inside its file."),
    ("with_json_that_nests", _safetensors(b"[" * 100_000), "JSON that nests is no recursion."),
    ("with_objects_that_nest", _safetensors(b'{"a":' * 100_000), "Nor are objects."),
    ("with_a_name_twice", _safetensors(b'{"x":%s,"x":{}}' % json.dumps(ROW).encode()), "Of a name that comes twice, no half is believed."),
    ("with_a_shape_that_overflows", _safetensors({"x": dict(ROW, shape=[1 << 62, 4])}), "Sizes do not go round."),
    ("with_a_negative_shape", _safetensors({"x": dict(ROW, shape=[-4])}), "A size is not negative."),
    ("with_offsets_in_reverse", _safetensors({"x": dict(ROW, data_offsets=[16, 0])}), "Offsets rise."),
    ("with_offsets_outside", _safetensors({"x": dict(ROW, data_offsets=[8, 24])}), "Data lie inside the file."),
    ("with_offsets_that_go_round", _safetensors({"x": dict(ROW, data_offsets=[(1 << 64) - 8, 8])}), "An offset does not go round."),
    ("with_a_dtype_of_its_own", _safetensors({"x": dict(ROW, dtype="F33")}), "A dtype is one of the list."),
    ("with_python_for_a_header", _npy("__import__('os').abort()\n"), "The header of an npy file is read, not run."),
    ("with_objects_of_python", _npy("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }\n"), "Pickled objects are refused."),
    ("with_an_npy_shape_too_large", _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }\n"), "Sizes of npy files do not go round."),
    ("with_an_npy_header_cut_off", b"\x93NUMPY\2\0\xff\xff\xff\xffx", "A header of npy ends inside its file."),
    # A format whose header is numbers alone: whether the server knows it or not, a lie in it is no tensor.
    ("of_gguf_cut_off", b"GGUF\3\0\0\0", "A head of GGUF ends inside its file."),
    ("of_gguf_with_tensors_without_end", _gguf((1 << 64) - 1, 0), "A count of tensors is not believed."),
    ("of_gguf_with_pairs_without_end", _gguf(0, (1 << 64) - 1), "Nor is one of pairs."),
    ("of_gguf_with_a_name_without_end", _gguf(1, 0, _text(b"x", (1 << 64) - 1)), "Nor the length of a name."),
    ("of_gguf_with_a_key_without_end", _gguf(0, 1, _text(b"x", 1 << 62)), "Nor that of a key."),
    ("of_gguf_with_an_array_without_end", _gguf(0, 1, _text(b"x") + struct.pack("<IIQ", 9, 8, (1 << 64) - 1)), "Nor an array's."),
    ("of_gguf_with_arrays_that_nest", _gguf(0, 1, _text(b"x") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 100_000), "Arrays that nest are no recursion."),
    ("of_gguf_with_a_type_that_is_none", _gguf(0, 1, _text(b"x") + struct.pack("<I", 0xFFFFFFFF)), "A type of metadata is one of the list."),
    ("of_gguf_with_a_tensor_of_no_type", _gguf(1, 0, _tensor(kind=0xFFFFFFFF) + b"\0" * 64), "So is a tensor's."),
    ("of_gguf_with_dimensions_without_end", _gguf(1, 0, _tensor(dimensions=0xFFFFFFFF) + b"\0" * 64), "Dimensions are few."),
    ("of_gguf_with_a_shape_that_overflows", _gguf(1, 0, _tensor(shape=(1 << 62, 4)) + b"\0" * 64), "Sizes of GGUF do not go round."),
    ("of_gguf_with_an_offset_outside", _gguf(1, 0, _tensor(offset=(1 << 64) - 8) + b"\0" * 64), "Data lie inside the file, here too."),
    ("of_gguf_of_another_version", _gguf(1, 0, _tensor() + b"\0" * 64, version=0xFFFFFFFF), "A version is one that there is."),
):  # fmt: skip
    _file(_name, _data, _promise)


# -- Shared memory


def _map(target, nbytes):
    return target.call("BufferService.MapSharedMemory", bytes=nbytes)


def _memfd(nbytes, seals=F_SEAL_SHRINK):
    memfd = os.memfd_create("hostile", os.MFD_ALLOW_SEALING)
    os.ftruncate(memfd, nbytes)
    if seals:
        fcntl.fcntl(memfd, F_ADD_SEALS, seals)
    return memfd


def _bring(path, data, *descriptors):
    """What the server says to such a hand-over: its first byte, or None if it hung up. Closes the descriptors."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(10)
        connection.connect(path)
        try:
            socket.send_fds(connection, [data], list(descriptors))
            answer = connection.recv(1 << 16)
            return answer[0] if answer else None
        except (BrokenPipeError, ConnectionResetError):
            return None
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


@attack(local=True)
def shared_memory_that_might_fault(target):
    """Memory that may shrink, or that the server may not write, or that is no memory, is not mapped."""
    pipe, other = os.pipe()
    os.close(other)
    for descriptor in (_memfd(MIB, 0), _memfd(MIB - 4096), _memfd(0), _memfd(MIB, F_SEAL_SHRINK | F_SEAL_WRITE),
                       os.open("/dev/zero", os.O_RDWR), os.open("/dev/null", os.O_RDWR), os.open("/etc/passwd", os.O_RDONLY),
                       os.open("/", os.O_RDONLY), pipe):  # fmt: skip
        made = _map(target, MIB)
        assert made, made.error
        assert _bring(made.answer.socket, made.answer.handle.to_bytes(8, "little"), descriptor) in (1, None)


@attack(local=True)
def shared_memory_of_odd_messages(target):
    """A hand-over is eight bytes and one descriptor; whatever else comes is closed, descriptors and all."""
    made = _map(target, MIB)
    assert made, made.error
    handle = made.answer.handle.to_bytes(8, "little")
    for data, count in ((b"x", 1), (handle[:7], 1), (handle + b"x", 1), (b"x" * 60_000, 1), (handle, 0), (handle, 2), (handle, 250)):
        assert _bring(made.answer.socket, data, *[_memfd(MIB) for _ in range(count)]) in (1, None), (len(data), count)


@attack(local=True)
def shared_memory_that_was_never_offered(target):
    """A guessed handle brings no memory, and one that was brought is brought once."""
    made = _map(target, MIB)
    for handle in (0, 1, made.answer.handle ^ 1, (1 << 64) - 1):
        assert _bring(made.answer.socket, handle.to_bytes(8, "little"), _memfd(MIB)) in (1, None)
    assert _bring(made.answer.socket, made.answer.handle.to_bytes(8, "little"), _memfd(MIB)) == 0
    assert _bring(made.answer.socket, made.answer.handle.to_bytes(8, "little"), _memfd(MIB)) in (1, None)


@attack(local=True)
def shared_memory_without_end(target):
    """Shared memory has a bound, and no size."""
    for nbytes in (0, 65 * MIB, 1 << 40, 1 << 63, (1 << 64) - 1):
        refused(_map(target, nbytes), "OUT_OF_MEMORY" if nbytes else "BAD_ARGUMENT")


@attack(local=True)
def shared_memory_outside(target):
    """A copy stays inside the region, and a region that nobody brought has no bytes."""
    made, buffer = _map(target, MIB), target.allocate(4096)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(made.answer.socket)
        memfd = _memfd(MIB)
        socket.send_fds(connection, [made.answer.handle.to_bytes(8, "little")], [memfd])
        os.close(memfd)
        assert connection.recv(1 << 16)[0] == 0
        for handle, offset, nbytes in ((made.answer.handle, MIB, 1), (made.answer.handle, MIB - 1, 2),
                                       (made.answer.handle, 1 << 63, 8), (made.answer.handle, (1 << 64) - 1, 2),
                                       (made.answer.handle, (1 << 64) - 4096, 4096), (made.answer.handle ^ 1, 0, 8)):  # fmt: skip
            code = "OUT_OF_BOUNDS" if handle == made.answer.handle else "UNKNOWN_HANDLE"
            for outcome in _copies(target, buffer, {"handle": handle, "offset": offset}, nbytes):
                refused(outcome, code)
        for outcome in _copies(target, buffer, {"handle": made.answer.handle, "offset": MIB - 8}, 8):
            assert outcome, outcome.error
    target.free(buffer)


def _copies(target, buffer, shared, nbytes):
    ref = tensor_pb2.BufferRef(handle=buffer)
    return (target.call("BufferService.Copy", from_shared=shared, to=ref, bytes=nbytes),
            target.call("BufferService.Copy", **{"from": ref}, to_shared=shared, bytes=nbytes))  # fmt: skip
