"""Shared memory that clients name, for tensors of served models: others' memory, memory that changes, names and sizes
that lie. The server is asked by a Unix socket, and so knows whose memory a caller may name; two tenants are one user."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import pathlib
import signal
import socket
import sys
import threading
from typing import Any, Iterator

from attack import TENANTS, TIMEOUT, answered, attack, refused, support, within

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e" / "serving"))

import serving_models  # noqa: E402
from tritonclient.grpc import service_pb2 as pb  # noqa: E402
from tritonclient.grpc import service_pb2_grpc as pb_grpc  # noqa: E402

MIB = 1 << 20
MOST = 16 * MIB  # of regions, and of copies at a time
FLOATS = 4 << 20  # of the model's input, at most
FOLDER = "/dev/shm/"
NUMBERS = itertools.count()
A, B = TENANTS


def flags(folder: pathlib.Path) -> Any:
    """Of a server with the model "scale"."""
    version = folder / "scale" / "1"
    version.mkdir(parents=True)
    (version / "model.onnx").write_bytes(serving_models.scale(2))
    return ("--models=%s" % folder, "--model_sizes=*=1:%d" % FLOATS, "--shared_memory_named_max_bytes=%d" % MOST)


@contextlib.contextmanager
def _memory(nbytes: int) -> Iterator[str]:
    """A key of so many bytes, for a while."""
    key = "kiln_hostile_%d_%d" % (os.getpid(), next(NUMBERS))
    with open(FOLDER + key, "xb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.truncate(nbytes)
    try:
        yield key
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(FOLDER + key)


def _call(target, rpc, request, tenant=""):
    stub = getattr(pb_grpc.GRPCInferenceServiceStub(target.channel), rpc)
    metadata = (("authorization", "Bearer " + (tenant or target.token)),)
    return target.outcome(lambda: stub(request, timeout=TIMEOUT, metadata=metadata))


def wait_until_ready(target):
    ready = lambda: _call(target, "ServerReady", pb.ServerReadyRequest()).answer.ready  # noqa: E731
    assert support.eventually(ready), "its model is not loaded:\n" + "".join(target.server.log[-20:])


def _register(target, name, key, nbytes, offset=0, tenant=""):
    request = pb.SystemSharedMemoryRegisterRequest(name=name, key=key, offset=offset, byte_size=nbytes)
    return _call(target, "SystemSharedMemoryRegister", request, tenant)


def _names(target, tenant=""):
    told = _call(target, "SystemSharedMemoryStatus", pb.SystemSharedMemoryStatusRequest(), tenant)
    assert told, told.error
    return sorted(told.answer.regions)


def _forget(target, tenant="", name=""):
    forgotten = _call(target, "SystemSharedMemoryUnregister", pb.SystemSharedMemoryUnregisterRequest(name=name), tenant)
    assert forgotten, forgotten.error


def _set(parameter, value):
    kind = "string_param" if isinstance(value, str) else "int64_param" if value < 1 << 63 else "uint64_param"
    setattr(parameter, kind, value)


def _infer(target, count, source=None, to=None, tenant=""):
    """y = 2 x of `count` floats; `source` and `to` are (region, bytes, offset), or dicts of parameters."""
    request = pb.ModelInferRequest(model_name="scale")
    x = request.inputs.add(name="x", datatype="FP32", shape=[count])
    y = request.outputs.add(name="y")
    for tensor, place in ((x, source), (y, to)):
        if isinstance(place, tuple):
            place = dict(zip(("region", "byte_size", "offset"), place))
        for name, value in (place or {}).items():
            _set(tensor.parameters["shared_memory_" + name], value)
    if source is None:
        request.raw_input_contents.append(b"\0" * 4 * count)
    return _call(target, "ModelInfer", request, tenant)


@attack(regions=True)
def region_of_another_tenant(target):
    """Another tenant's region is not there: not to be told, read, written, or forgotten; its name is free."""
    with _memory(4096) as key:
        assert _register(target, "mine", key, 4096, tenant=A)
        try:
            assert _names(target, B) == []
            of_mine = pb.SystemSharedMemoryStatusRequest(name="mine")
            refused(_call(target, "SystemSharedMemoryStatus", of_mine, B), "UNKNOWN_HANDLE")
            refused(_infer(target, 4, ("mine", 16), tenant=B), "UNKNOWN_HANDLE")
            refused(_infer(target, 4, None, ("mine", 16), tenant=B), "UNKNOWN_HANDLE")
            _forget(target, B, "mine")
            _forget(target, B)
            assert _names(target, A) == ["mine"]
            assert _register(target, "mine", key, 4096, tenant=B)
            assert _infer(target, 4, ("mine", 16), ("mine", 16, 64), tenant=A)
        finally:
            _forget(target, A)
            _forget(target, B)


@attack(regions=True)
def region_of_another_user(target):
    """A file that another user owns is as if there were none, whatever its mode lets the server do."""
    if os.getuid() != 0:
        return  # who else could give one away
    with _memory(4096) as key, _memory(16) as other:
        os.unlink(FOLDER + other)
        nothing = refused(_register(target, "r", other, 4), "UNKNOWN_HANDLE")
        for mode in (0o600, 0o666):
            os.chmod(FOLDER + key, mode)
            os.chown(FOLDER + key, 1, -1)
            error = refused(_register(target, "r", key, 4), "UNKNOWN_HANDLE")
            assert error.message.replace(key, other) == nothing.message, error.message


@attack(regions=True)
def region_that_is_no_file(target):
    """A link, a pipe that nobody writes, a folder, a socket and a device are no memory, and nobody waits for them."""
    with _memory(4096) as key:
        path = FOLDER + key
        for name, make in (("link", lambda name: os.symlink(path, name)), ("out", lambda name: os.symlink("/etc/passwd", name)),
                           ("loop", lambda name: os.symlink(name, name)), ("pipe", os.mkfifo), ("folder", os.mkdir)):  # fmt: skip
            made = path + "_" + name
            make(made)
            try:
                refused(within(10, lambda: _register(target, "r", key + "_" + name, 4)), "UNKNOWN_HANDLE")
            finally:
                (os.rmdir if name == "folder" else os.unlink)(made)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path + "_socket")
            refused(within(10, lambda: _register(target, "r", key + "_socket", 4)), "UNKNOWN_HANDLE")
            os.unlink(path + "_socket")


@attack(regions=True)
def region_with_a_lease(target):
    """Who has a lease on a file holds up nobody who opens it."""
    with _memory(4096) as key, open(FOLDER + key, "r+b") as file:
        before = signal.signal(signal.SIGIO, signal.SIG_IGN)
        try:
            try:
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            except OSError:
                return  # not with this kernel
            answered(within(10, lambda: _register(target, "r", key, 4096)))
        finally:
            with contextlib.suppress(OSError):
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            signal.signal(signal.SIGIO, before)
            _forget(target)


@attack(regions=True)
def region_with_odd_names(target):
    """A key is one name in one folder, a region's name is printable; whatever else comes is refused."""
    with _memory(4096) as key:
        for odd in ("", "/", ".", "..", "/..", "../shm/" + key, "/dev/shm/" + key, "./" + key, "//" + key, key + "/", key + "/..",
                    "a/b", key + "\0", "\0", key + "\n", "\x7f", "é", "x" * 256, "/" * 5000, "/proc/self/mem"):  # fmt: skip
            refused(_register(target, "r", odd, 4), "BAD_ARGUMENT")
        for odd in ("", " ", "a b", "r\0", "r\n", "\x7f", "é", "r" * 256, "r" * 100_000):
            refused(_register(target, odd, key, 4), "BAD_ARGUMENT")
            if odd:
                refused(_infer(target, 4, (odd, 16)), "UNKNOWN_HANDLE")
        assert _names(target) == []


@attack(regions=True)
def region_with_sizes_that_go_round(target):
    """Offset and size stay inside the file, and do not go round; nor do those of a tensor in its region."""
    most = (1 << 64) - 1
    with _memory(4096) as key:
        for offset, nbytes in ((0, 0), (0, 4097), (4096, 1), (4095, 2), (1, 4096), (most, 1), (1, most), (most, most), (1 << 63, 1),
                               (1, 1 << 63), (1 << 63, 1 << 63), (most - 4095, 4096)):  # fmt: skip
            refused(_register(target, "r", key, nbytes, offset), "BAD_ARGUMENT")
        assert _register(target, "r", key, 2048, 2048)
        try:
            for offset in (2033, 2048, 1 << 31, (1 << 63) - 1, 1 << 63, most, most - 15, most - 2048):
                refused(_infer(target, 4, ("r", 16, offset)), "BAD_ARGUMENT")
                refused(_infer(target, 4, None, ("r", 16, offset)), "BAD_ARGUMENT")
            for nbytes in (0, 15, 17, 2049, 1 << 40, most):
                refused(_infer(target, 4, ("r", nbytes)), "BAD_ARGUMENT")
            for nbytes in (0, 15, 2049, most):
                refused(_infer(target, 4, None, ("r", nbytes)), "BAD_ARGUMENT")
            for place in ({"region": "r"}, {"byte_size": 16}, {"offset": 0}, {"region": 3, "byte_size": 16},
                          {"region": "r", "byte_size": "16"}, {"region": "r", "byte_size": -16},
                          {"region": "r", "byte_size": 16, "offset": -1}, {"region": "", "byte_size": 16}):  # fmt: skip
                refused(_infer(target, 4, place), "BAD_ARGUMENT")
                refused(_infer(target, 4, None, place), "BAD_ARGUMENT")
            assert _infer(target, 4, ("r", 16, 2032), ("r", 16, 2032))
        finally:
            _forget(target)


@attack(regions=True)
def region_that_shrinks_and_grows(target):
    """A file that is made shorter while its bytes are copied is an error of its request, and ends nobody."""
    count = MIB
    with _memory(4 * count) as key:
        assert _register(target, "r", key, 4 * count)
        ended = threading.Event()

        def shake():
            for size in itertools.cycle((0, 4 * count, 4096, 4 * count)):
                if ended.is_set():
                    return
                os.truncate(FOLDER + key, size)

        shaker = threading.Thread(target=shake)
        shaker.start()
        try:
            for _ in range(40):
                outcome = _infer(target, count, ("r", 4 * count), ("r", 4 * count))
                assert outcome.code in ("OK", "BAD_SHARED_MEMORY"), outcome.error
        finally:
            ended.set()
            shaker.join()
            _forget(target)


@attack(regions=True)
def regions_without_end(target):
    """Regions are so many, and so many bytes together; what is forgotten is given back, and another tenant has its own."""
    with _memory(MOST) as key:
        try:
            made = 0
            while made < 5000 and _register(target, "r%d" % made, key, 1):
                made += 1
            refused(_register(target, "more", key, 1), "OUT_OF_MEMORY", "QUOTA_EXCEEDED")
            assert 16 <= made <= 1024, made
            assert _register(target, "r0", key, 1, tenant=B)
            _forget(target, B)
            _forget(target)
            assert _register(target, "all", key, MOST)
            refused(_register(target, "more", key, 1), "OUT_OF_MEMORY")
            refused(_register(target, "more", key, 1, tenant=B), "OUT_OF_MEMORY")
        finally:
            _forget(target, B)
            _forget(target)


@attack(regions=True)
def region_of_holes_read_by_many(target):
    """Copies of what others never wrote are bounded together: a hole of megabytes is named for nothing."""
    count = 2 << 20
    with _memory(4 * count) as key:
        assert _register(target, "r", key, 4 * count)
        codes = []

        def ask():
            for _ in range(4):
                codes.append(_infer(target, count, ("r", 4 * count), ("r", 4 * count)).code)

        threads = [threading.Thread(target=ask) for _ in range(12)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert set(codes) <= {"OK", "OUT_OF_MEMORY"} and "OK" in codes, set(codes)
            assert _infer(target, count, ("r", 4 * count), ("r", 4 * count))
        finally:
            _forget(target)


@attack(regions=True)
def region_that_is_forgotten_while_it_is_used(target):
    """A region that goes while it is copied is copied to its end, or was not there."""
    with _memory(4 * MIB) as key:
        ended = threading.Event()

        def come_and_go():
            while not ended.is_set():
                _register(target, "r", key, 4 * MIB)
                _forget(target)

        other = threading.Thread(target=come_and_go)
        other.start()
        try:
            for _ in range(60):
                outcome = _infer(target, MIB, ("r", 4 * MIB), ("r", 4 * MIB))
                assert outcome.code in ("OK", "UNKNOWN_HANDLE"), outcome.error
        finally:
            ended.set()
            other.join()
            _forget(target)


@attack(regions=True)
def region_of_cuda(target):
    """No handle of a card's memory is opened, whatever it is."""
    for handle in (b"", b"\0" * 64, bytes(range(64)), b"x" * 100_000):
        request = pb.CudaSharedMemoryRegisterRequest(name="r", raw_handle=handle, device_id=0, byte_size=1 << 40)
        refused(_call(target, "CudaSharedMemoryRegister", request), "NOT_IMPLEMENTED")


@attack(regions=True)
def settings_of_the_server(target):
    """Who has not the right to administer reads what is logged and traced, and sets nothing."""
    before = _call(target, "LogSettings", pb.LogSettingsRequest())
    assert before, before.error
    request = pb.LogSettingsRequest()
    request.settings["log_file"].string_param = "/etc/passwd"
    refused(_call(target, "LogSettings", request), "NOT_ALLOWED")
    request = pb.LogSettingsRequest()
    request.settings["log_verbose_level"].uint32_param = 9
    refused(_call(target, "LogSettings", request), "NOT_ALLOWED")
    request = pb.TraceSettingRequest()
    request.settings["trace_rate"].value.append("1")
    refused(_call(target, "TraceSetting", request), "NOT_ALLOWED")
    assert _call(target, "LogSettings", pb.LogSettingsRequest()).answer == before.answer
