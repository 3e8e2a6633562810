"""ResNet-50 and GPT-2 small, one forward pass, on Kiln beside onnxruntime, XLA and tinygrad in one run.

    ./dev bench models [--models=resnet50,gpt2] [--on=Kiln,onnxruntime,XLA,tinygrad] [--threads=1,2] [--turns=9]

Random weights that stay where they are used, batch 1, 64 tokens; a step takes an array
and gives one. Each is a process of its own, and they take turns: a step that does not
count, then a few that do. Kiln's is the Python client of a kilnd on a Unix socket. One
thread is one core of the machine, for the server too. What is not installed
(./dev bench --setup) is left out. All results are compared with onnxruntime's.
"""

import argparse
import importlib.util
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "client" / "python"), str(HERE)]

NEEDS = {"Kiln": "grpc", "onnxruntime": "onnxruntime", "XLA": "jax", "tinygrad": "tinygrad"}
TOLERANCE = 2e-3  # of the largest magnitude: fifty layers, each rounded in its own order
TIMEOUT = 900


def serve(backend, name, small):
    """What a party's process does: a line with its first result, then the times of each request's steps."""
    import model_backends
    import models
    import numpy as np

    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed is no answer
    sizes = models.Sizes(small)
    x = models.argument(name, sizes)
    begin = time.perf_counter()
    step = model_backends.BACKENDS[backend](name, sizes, x)
    result = np.ravel(step(x))
    json.dump({"first": time.perf_counter() - begin, "result": result.tolist()}, out)
    out.write("\n")
    for _ in range(2):  # tinygrad captures at the second call
        step(x)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            step(x)
            times.append(time.perf_counter() - begin)
        json.dump(times, out)
        out.write("\n")


class Party:
    def __init__(self, backend, name, threads, small, address):
        cores = sorted(os.sched_getaffinity(0))[:threads]
        environment = dict(os.environ, KILN_ADDR=address, DEV="CPU", JAX_PLATFORMS="cpu", OMP_NUM_THREADS=str(threads))
        environment.setdefault("CC", "clang-22")
        self.backend, self.times = backend, []
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", backend, name] + ["--small"] * small, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, cores))  # fmt: skip
        self.start = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("%s ended before it answered" % self.backend)
        return json.loads(line)

    def steps(self, count):
        self.process.stdin.write("%d\n" % count)
        self.process.stdin.flush()
        return self.answer()

    def take_turn(self):
        once = self.steps(1)[0]
        self.times += self.steps(max(1, min(10, int(0.3 / once))))

    def best(self):
        return sorted(self.times)[int(0.05 * (len(self.times) - 1))]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


class Server:
    """A kilnd on so many cores, at a Unix socket."""

    def __init__(self, threads):
        self.folder = tempfile.TemporaryDirectory()
        cores = sorted(os.sched_getaffinity(0))[:threads]
        self.address = "unix:%s/kiln" % self.folder.name
        self.process = subprocess.Popen(
            [os.environ.get("KILN_KILND", str(HERE.parent.parent / "bazel-bin/server/kilnd")),
             "--listen=" + self.address], stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores))  # fmt: skip
        for line in self.process.stderr:
            if "event=serving" in line:
                break
        else:
            raise RuntimeError("kilnd did not serve")

    def stop(self):
        self.process.terminate()
        self.process.communicate()
        self.folder.cleanup()


def distance(found, wanted):
    return max(abs(a - b) for a, b in zip(found, wanted)) / max(map(abs, wanted)) if len(found) == len(wanted) else math.inf


def measure(name, threads, arguments):
    """Rows of one model on so many threads; prints them."""
    server = Server(threads)
    parties = []
    try:
        for backend in arguments.on.split(","):
            if importlib.util.find_spec(NEEDS[backend]) is None:
                print("%s: not installed: ./dev bench --setup" % backend)
                continue
            try:
                parties.append(Party(backend, name, threads, arguments.small, server.address))
            except RuntimeError as error:
                print(error)
        for _ in range(arguments.turns):
            for party in parties:
                if party.backend != "tinygrad" or len(party.times) < 3:  # seconds a step
                    party.take_turn()
    finally:
        for party in parties:
            party.stop()
        server.stop()
    wanted = next((p for p in parties if p.backend == "onnxruntime"), parties[0]).start["result"]
    ours = next((p for p in parties if p.backend == "Kiln"), None)
    rows = []
    for party in parties:
        row = {"model": name, "threads": threads, "on": party.backend, "first_s": party.start["first"], "best_s": party.best(),
               "median_s": statistics.median(party.times), "difference": distance(party.start["result"], wanted)}  # fmt: skip
        row["ratio"] = row["best_s"] / ours.best() if ours else math.nan
        print("| %s | %d | %s | %.2f | %.1f | %.1f | %.2f | %.0e |"
              % (name, threads, party.backend, row["first_s"], row["best_s"] * 1e3, row["median_s"] * 1e3, row["ratio"],
                 row["difference"]), flush=True)  # fmt: skip
        rows.append(row)
    return rows


def main(words=None):
    parser = argparse.ArgumentParser(prog="./dev bench models", description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="resnet50,gpt2")
    parser.add_argument("--on", default=",".join(NEEDS))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--json", help="also write the figures here")
    parser.add_argument("--small", action="store_true", help="small pictures, two layers: a smoke")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.serve:
        serve(*arguments.serve, arguments.small)
        return 0
    print("| model | threads | on | first, s | best, ms | median, ms | to Kiln | from onnxruntime |")
    print("|---|---|---|---|---|---|---|---|")
    rows = [row for name in arguments.models.split(",") for threads in map(int, arguments.threads.split(","))
            if threads <= len(os.sched_getaffinity(0)) for row in measure(name, threads, arguments)]  # fmt: skip
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"suite": "models", "rows": rows}, indent=1))
    wrong = [row for row in rows if not row["difference"] <= TOLERANCE]
    for row in wrong:
        print("%s of %s: values are wrong" % (row["on"], row["model"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
