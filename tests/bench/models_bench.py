"""ResNet-50, GPT-2 small and MiniLM, one forward pass, on Kiln beside other libraries in one run.

    ./dev bench models [--models=resnet50,gpt2,minilm] [--precision=float32,bfloat16,int8] [--threads=1,2]
                       [--on=Kiln,onnxruntime,OpenVINO,XLA,tinygrad] [--turns=9]

Random weights that stay where they are used, batch 1, 64 tokens (MiniLM: 128); a step takes
an array and gives one. Each library is a process of its own, and they take turns: a step that
does not count, then a few that do. Kiln's is the Python client of a kilnd on a Unix socket. One
thread is one core of the machine, for the server too. What is not installed (./dev bench
--setup) is left out; and in bfloat16 onnxruntime, which has no such kernels for CPUs, in int8
XLA, for which no tool makes such a model, and in both tinygrad, which is far behind in float32.
All results are compared with onnxruntime's of the float32 model. What a precision means stands
in whole_models/models.py and whole_models/model_kiln.py. The second table says what Kiln's first
call consists of.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "whole_models"))

import models
from model_party import LIBRARIES, Party, Server, prepare, there

# Of the largest magnitude. float32: fifty layers, each rounded in its own order. Else: what goes from
# layer to layer has 8 bits, of which libraries leave out some roundings, and scale differently.
TOLERANCE = {"float32": 1e-4, "bfloat16": 2e-2, "int8": 5e-2}

# Of Kiln's first call. In the server's: packing is of constants, before the first kernel of the first run.
PARTS = ("import", "connect", "graph", "compile", "upload", "packing", "run")


def distance(found, wanted):
    if len(found) != len(wanted):
        return math.inf
    return max(abs(a - b) for a, b in zip(found, wanted)) / max(map(abs, wanted))


def parties_of(name, precision, threads, arguments, folder, server, failed):
    for library in arguments.on:
        if precision not in LIBRARIES[library].precisions:
            continue
        if not there(library):
            print("%s: not installed: ./dev bench --setup" % library)
            continue
        try:
            yield Party(library, name, precision, threads, arguments.small, folder, server.address)
        except RuntimeError as error:
            print(error)
            failed.append(library)


def measure(name, precision, threads, arguments, folder, failed):
    """Rows of one model on so many threads; prints them. Libraries that end too soon are `failed`."""
    server, parties = Server(threads), []
    try:
        parties += parties_of(name, precision, threads, arguments, folder, server, failed)
        for _ in range(arguments.turns):
            for party in parties:
                party.take_turn()
    finally:
        for party in parties:
            party.stop()
        server.stop()
    if not parties:
        return []
    expected = pathlib.Path(folder, "expected.json")
    wanted = json.loads(expected.read_text()) if expected.exists() else parties[0].start["result"]
    ours = next((p for p in parties if p.library == "Kiln"), None)
    rows = []
    for party in parties:
        row = {"model": name, "precision": precision, "threads": threads, "on": party.library,
               "first_s": party.start["first"], "parts": party.start["parts"], "best_s": party.best(),
               "median_s": statistics.median(party.times),
               "difference": distance(party.start["result"], wanted)}  # fmt: skip
        row["ratio"] = row["best_s"] / ours.best() if ours else math.nan
        print("| %s | %s | %d | %s | %.2f | %.1f | %.1f | %.2f | %.0e |"
              % (name, precision, threads, party.library, row["first_s"], row["best_s"] * 1e3, row["median_s"] * 1e3,
                 row["ratio"], row["difference"]), flush=True)  # fmt: skip
        rows.append(row)
    return rows


def print_parts(rows):
    """Of Kiln's first calls, in seconds."""
    rows = [row for row in rows if row["parts"]]
    if not rows:
        return
    print("\n| Kiln's first call | precision | threads | %s | rest | in all, s | compile in the server | MB |"
          % " | ".join(PARTS))  # fmt: skip
    print("|%s" % ("---|" * (len(PARTS) + 7)))
    for row in rows:
        parts = row["parts"]
        rest = row["first_s"] - sum(parts[part] for part in PARTS)
        print("| %s | %s | %d | %s | %.2f | %.2f | %.2f | %.0f |"
              % (row["model"], row["precision"], row["threads"], " | ".join("%.2f" % parts[part] for part in PARTS),
                 rest, row["first_s"], parts["server's compile"], parts["megabytes"]))  # fmt: skip


def some_of(known):
    """Names with commas between, as an argument."""

    def read(text):
        names = text.split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError("%s: there are %s" % (", ".join(unknown), ", ".join(known)))
        return names

    return {"type": read, "help": "of " + ",".join(known)}


def main(words=None):
    parser = argparse.ArgumentParser(prog="./dev bench models", description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(models.MODELS), **some_of(models.MODELS))
    parser.add_argument("--precision", default="float32", **some_of(models.PRECISIONS))
    parser.add_argument("--on", default=",".join(LIBRARIES), **some_of(LIBRARIES))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--json", help="also write the figures here")
    parser.add_argument("--small", action="store_true", help="small pictures, two layers: a smoke")
    arguments = parser.parse_args(words)
    print("| model | precision | threads | on | first, s | best, ms | median, ms | to Kiln | from float32 |")
    print("|---|---|---|---|---|---|---|---|---|")
    rows, failed = [], []
    for name in arguments.models:
        for precision in arguments.precision:
            with tempfile.TemporaryDirectory() as folder:
                prepare(name, precision, arguments.small, folder)
                for threads in map(int, arguments.threads.split(",")):
                    if threads <= len(os.sched_getaffinity(0)):
                        rows += measure(name, precision, threads, arguments, folder, failed)
    print_parts(rows)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"suite": "models", "rows": rows}, indent=1))
    wrong = [row for row in rows if not row["difference"] <= TOLERANCE[row["precision"]]]
    for row in wrong:
        print("%s of %s in %s: values are wrong" % (row["on"], row["model"], row["precision"]))
    return 1 if wrong or failed else 0


if __name__ == "__main__":
    sys.exit(main())
