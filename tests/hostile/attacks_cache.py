"""Entries of the program cache's folder that somebody has changed."""

from __future__ import annotations

import os
import pathlib
import struct
import tempfile

from attack import DTYPES, Target, attack, doubled, support
from kiln.v1 import kernel_service_pb2, tensor_pb2

MAGIC = b"KILNPROG"
HEAD = 24  # of an entry: the magic, a version, and two lengths


def _flipped(data, at):
    changed = bytearray(data)
    changed[at] ^= 0x10
    return bytes(changed)


def _lengths(data, header=None, payload=None):
    old_header, old_payload = struct.unpack_from("<IQ", data, 12)
    return data[:12] + struct.pack("<IQ", old_header if header is None else header,
                                   old_payload if payload is None else payload) + data[HEAD:]  # fmt: skip


# Each makes other bytes of an entry's, or puts something else in its place.
TAMPERED = {
    "empty": lambda data: b"",
    "cut in its head": lambda data: data[:HEAD - 1],
    "cut in its header": lambda data: data[:HEAD + 5],
    "cut by one byte": lambda data: data[:-1],
    "longer by one": lambda data: data + b"\0",
    "of another magic": lambda data: _flipped(data, 0),
    "of another version": lambda data: _flipped(data, 8),
    "with a header without end": lambda data: _lengths(data, header=0xFFFFFFFF),
    "with a payload without end": lambda data: _lengths(data, payload=(1 << 64) - 1),
    "with lengths that go round": lambda data: _lengths(data, header=0xFFFFFFF0, payload=(1 << 64) - 0xFFFFFFF0),
    "with a header of nothing": lambda data: _lengths(data, header=0),
    "flipped in its header": lambda data: _flipped(data, HEAD + 3),
    "flipped in its code": lambda data: _flipped(data, len(data) // 2),
    "flipped in its checksum": lambda data: _flipped(data, len(data) - 1),
    "of noise": lambda data: os.urandom(len(data)),
    "of zeros behind the head": lambda data: data[:HEAD] + b"\0" * (len(data) - HEAD),
}


def _link(path):
    path.unlink()
    path.symlink_to("/etc/passwd")


def _pipe(path):
    path.unlink()
    os.mkfifo(path)


def _folder(path):
    path.unlink()
    path.mkdir()


IN_ITS_PLACE = {"a link": _link, "a pipe": _pipe, "a folder": _folder}


def _entries(folder):
    return {path for path in folder.rglob("*") if path.is_file() and path.read_bytes()[:8] == MAGIC}


def _doubles(target, size):
    request = kernel_service_pb2.ExecuteRequest(graph=doubled(size), result_mode=kernel_service_pb2.RESULT_INLINE)
    data = struct.pack("<%df" % size, *range(size))
    request.arguments.add(slot=0).tensor.MergeFrom(
        tensor_pb2.Tensor(dtype=DTYPES["float32"], shape=[size], data=data))
    ran = target.call("KernelService.Execute", request)
    assert ran, ran.error
    assert struct.unpack("<%df" % size, ran.answer.results[0].tensor.data) == tuple(2.0 * i for i in range(size))
    return ran.answer.from_cache


@attack
def cache_entries_that_were_changed(_):
    """What is not as it was written never runs, whatever has become of it: it is compiled anew, or a good one is found."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "cache"
        entries = {}
        with support.running("--program_cache_dir=%s" % folder) as server:
            target = Target(server)
            for size, how in enumerate((*TAMPERED, *IN_ITS_PLACE), start=2):
                before = _entries(folder) if folder.exists() else set()
                assert not _doubles(target, size)
                assert support.eventually(lambda before=before: len(_entries(folder)) > len(before))
                (entries[how],) = _entries(folder) - before
            target.close()
        data = {how: path.read_bytes() for how, path in entries.items()}
        for how, path in entries.items():
            if how in TAMPERED:
                path.write_bytes(TAMPERED[how](data[how]))
            else:
                IN_ITS_PLACE[how](path)
        with support.running("--program_cache_dir=%s" % folder) as server:
            target = Target(server)
            for size, how in enumerate(entries, start=2):
                assert not _doubles(target, size), "an entry that is %s was believed" % how
            # One in the place of another.
            other, another = list(entries)[:2]
            assert support.eventually(lambda: len(_entries(folder)) >= len(TAMPERED))
            entries[other].write_bytes(data[another])
            assert _doubles(target, 2), "what is in memory is asked first"
            assert target.healthy()
            target.close()
        with support.running("--program_cache_dir=%s" % folder) as server:
            target = Target(server)
            assert not _doubles(target, 2), "an entry under another's name was believed"
            assert _doubles(target, 4), "a good one was not"
            target.close()
