"""A warm TinyJit step of two models, on Kiln at each level and on tinygrad's own CPU device, in one run.

    ./dev bench tinygrad [--models=resnet18,gpt2] [--runs=T,K,L,CPU] [--steps=10] [--small]

Each row is a process of its own, since a process has one level. `first` is from the
model's first step to its third, compiles and all; `step` the median of the warm ones,
the result read; round trips and bytes are of a step without that read.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE / "whole_models")]

RUNS = ("T", "K", "L", "CPU")
ROW = "%-9s %-4s %9s %9s %7s %9s %9s %9s %10s"


def measure(name, run, small, steps):
    """One row, in this process."""
    if run != "CPU":
        import kiln.tinygrad
    from tinygrad import Tensor, TinyJit

    import tinygrad_models

    model, data = tinygrad_models.MODELS[name](small)
    x = Tensor(data).realize()
    step = TinyJit(lambda x: model(x).realize())
    begin = time.perf_counter()
    for _ in range(3):
        result = step(x).numpy()
    row = {"first": time.perf_counter() - begin, "result": result.ravel().tolist()[:1000]}
    times = []
    for _ in range(steps):
        if run != "CPU":
            kiln.tinygrad.reset_stats()
        begin = time.perf_counter()
        y = step(x)
        if run != "CPU":
            stats = kiln.tinygrad.stats()
            row.update(round_trips=stats.round_trips, sent=stats.bytes_sent, received=stats.bytes_received,
                       fallbacks=sum(stats.fallbacks.values()))  # fmt: skip
        y.numpy()
        times.append(time.perf_counter() - begin)
    row["step"] = statistics.median(times)
    return row


def in_a_process(name, run, small, steps, address):
    """The row that a process of its own measures; None, and its last words on stderr, if it fails."""
    import support

    environment = dict(os.environ, DEV="CPU" if run == "CPU" else "KILN", KILN_LEVEL="T" if run == "CPU" else run,
                       KILN_ADDR=address, PARALLEL="0", PYTHONPATH=str(support.PACKAGE))  # fmt: skip
    if run == "CPU":
        environment.setdefault("CC", "clang-22")
    command = [sys.executable, __file__, "--measure", name, run, "--steps=%d" % steps] + ["--small"] * small
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        print("%s %s: %s" % (name, run, "".join(done.stderr.strip().splitlines()[-1:])), file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def distance(row, wanted):
    """The largest difference, in the largest of the numbers wanted."""
    if row is None or wanted is None:
        return "-"
    scale = max(map(abs, wanted["result"]))
    return "%.0e" % (max(abs(a - b) for a, b in zip(row["result"], wanted["result"])) / scale)


def table(arguments):
    """Rows by (model, run); prints them as they come, tinygrad's own first."""
    import support

    server = support.Server()
    rows = {}
    print(ROW % ("model", "run", "first s", "step ms", "trips", "B out", "B in", "fallbacks", "from CPU"))
    try:
        for name in arguments.models.split(","):
            for run in sorted(arguments.runs.split(","), key=lambda run: run != "CPU"):
                row = rows[name, run] = in_a_process(name, run, arguments.small, arguments.steps, server.address)
                if row is not None:
                    numbers = [row.get(key, "-") for key in ("round_trips", "sent", "received", "fallbacks")]
                    print(ROW % (name, run, "%.1f" % row["first"], "%.1f" % (row["step"] * 1e3), *numbers,
                                 distance(row, rows.get((name, "CPU")))), flush=True)  # fmt: skip
    finally:
        server.stop()
    return rows


def main(words=None):
    parser = argparse.ArgumentParser(prog="./dev bench tinygrad", description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="resnet18,gpt2")
    parser.add_argument("--runs", default=",".join(RUNS), help="T, K, L: Kiln at that level; CPU: tinygrad's own device")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--small", action="store_true", help="small pictures, two layers: a smoke")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.measure:
        print(json.dumps(measure(*arguments.measure, arguments.small, arguments.steps)))
        return 0
    return 1 if None in table(arguments).values() else 0


if __name__ == "__main__":
    sys.exit(main())
