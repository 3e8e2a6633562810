"""A library that runs a model in a process of its own, for tests/bench/models_bench.py; and the kilnd that is Kiln's.

    python model_party.py LIBRARY MODEL PRECISION FOLDER [--small]

says its first result, and then, for each line with a count, how long so many steps took. Before
that, with "prepare" as the library, the folder gets what all of them read (model_onnx.prepare).
"""

import compileall
import importlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
CLIENT = ROOT / "client" / "python"
sys.path[:0] = [str(CLIENT), str(HERE)]


class Library(NamedTuple):
    needs: str  # a module
    step: str  # where models.Started is made: module:function
    precisions: tuple  # that it is measured in
    patient: bool = True  # takes all turns; else three, as a step takes seconds


LIBRARIES = {
    "Kiln": Library("grpc", "model_kiln:kiln_step", ("float32", "bfloat16", "int8")),
    "onnxruntime": Library("onnxruntime", "model_onnx:onnx_step", ("float32", "int8")),
    "OpenVINO": Library("openvino", "model_onnx:openvino_step", ("float32", "bfloat16", "int8")),
    "XLA": Library("jax", "model_backends:jax_step", ("float32", "bfloat16")),
    "tinygrad": Library("tinygrad", "model_backends:tinygrad_step", ("float32",), patient=False),
}

SHARED_MEMORY = 256 << 20  # bytes that the server lets clients share: far more than the pieces of an upload


def there(library):
    return importlib.util.find_spec(LIBRARIES[library].needs) is not None


def command(*words, small):
    return [sys.executable, __file__, *words] + ["--small"] * small


def prepare(name, precision, small, folder):
    """RuntimeError if it goes wrong; without onnxruntime the folder stays empty."""
    compileall.compile_dir(str(CLIENT / "kiln"), quiet=2)  # installed packages are compiled, such as all the others
    if there("onnxruntime"):
        done = subprocess.run(command("prepare", name, precision, folder, small=small), capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError("%s in %s could not be written: %s" % (name, precision, done.stderr))


def serve(library, name, precision, folder, small):
    import models
    import numpy as np

    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed is no answer
    sizes = models.Sizes(name, small)
    x = models.argument(name, sizes)
    module, function = LIBRARIES[library].step.split(":")
    make = getattr(importlib.import_module(module), function)
    begin = time.perf_counter()
    started = make(name, sizes, precision, folder)
    result = np.ravel(started.step(x)).astype(np.float32)
    first = time.perf_counter() - begin - started.weights_s
    json.dump({"first": first, "parts": started.parts(), "result": result.tolist()}, out)
    out.write("\n")
    for _ in range(2):  # tinygrad captures at the second call
        started.step(x)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            started.step(x)
            times.append(time.perf_counter() - begin)
        json.dump(times, out)
        out.write("\n")


class Party:
    """RuntimeError from whatever asks a process that has ended."""

    def __init__(self, library, name, precision, threads, small, folder, address):
        cores = sorted(os.sched_getaffinity(0))[:threads]
        environment = dict(os.environ, KILN_ADDR=address, DEV="CPU", JAX_PLATFORMS="cpu", OMP_NUM_THREADS=str(threads))
        environment.setdefault("CC", "clang-22")
        self.library, self.times = library, []
        self._said = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            command(library, name, precision, folder, small=small), env=environment, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._said, preexec_fn=lambda: os.sched_setaffinity(0, cores))  # fmt: skip
        try:
            self.start = self._answer()
        except BaseException:
            self.stop()
            raise

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            self._said.seek(0)
            last = self._said.read().decode(errors="replace").strip().splitlines()[-1:]
            raise RuntimeError("%s ended before it answered: %s" % (self.library, "".join(last)))
        return json.loads(line)

    def _steps(self, count):
        self._process.stdin.write("%d\n" % count)
        self._process.stdin.flush()
        return self._answer()

    def take_turn(self):
        if LIBRARIES[self.library].patient or len(self.times) < 3:
            once = self._steps(1)[0]
            self.times += self._steps(max(1, min(10, int(0.3 / once))))

    def best(self):
        return sorted(self.times)[int(0.05 * (len(self.times) - 1))]

    def stop(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._said.close()


class Server:
    """A kilnd on so many cores, at a Unix socket."""

    def __init__(self, threads):
        self._folder = tempfile.TemporaryDirectory()
        cores = sorted(os.sched_getaffinity(0))[:threads]
        self.address = "unix:%s/kiln" % self._folder.name
        self._process = subprocess.Popen(
            [os.environ.get("KILN_KILND", str(ROOT / "bazel-bin/server/kilnd")),
             "--listen=" + self.address, "--shared_memory_max_bytes=%d" % SHARED_MEMORY],
            stderr=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))  # fmt: skip
        for line in self._process.stderr:
            if "event=serving" in line:
                break
        else:
            raise RuntimeError("kilnd did not serve")

    def stop(self):
        self._process.terminate()
        self._process.communicate()
        self._folder.cleanup()


def main(library, name, precision, folder, *small):
    if library == "prepare":
        import model_onnx
        import models

        model_onnx.prepare(name, models.Sizes(name, bool(small)), precision, folder)
    else:
        serve(library, name, precision, folder, bool(small))


if __name__ == "__main__":
    main(*sys.argv[1:])
