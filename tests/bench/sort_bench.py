"""sort, argsort, topk, hash and eight stencils: on Kiln at each level, and on tinygrad's own CPU device, in one run.

    ./dev bench sort [--sizes=100000,1000000] [--runs=T,K,L,CPU] [--hash=T] [--rounds=5] [--small]

Each row is a process of its own, on a server with 256 MiB for tensors, as much as n log n
of the largest needs: a buffer of n × n does not fit. `cold` is a process's first time, with
all that is written and compiled for it; `warm` the median of the next ones. Results are
read, and compared with numpy's and hashlib's.

tinygrad's CPU compares all with all, so it is left out above 1e5 elements, where it takes
minutes a sort, and of hash, whose compiling takes minutes. Kiln's levels K and L compile
each step of the networks; --hash says at which levels to hash 1 MiB. A stencil's eight
steps of five neighbours, on a square of as many elements, are cut into a few kernels; --stencil
says where to run them: on tinygrad's own device they are one kernel of 5^8 terms.
"""

import argparse
import hashlib
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python")]

MEMORY = 256 << 20
MOST_ON_CPU = 100_000
TOP = 10
ROW = "%-8s %9s %-4s %8s %9s"


def hashed(data):
    """Tensor.hash() of at most 1 MiB, by hashlib: a digest of the digests of each 4096 bytes."""
    data = data.tobytes().ljust(1 << 20, b"\0")
    parts = [hashlib.shake_128(data[at : at + 4096]).digest(16) for at in range(0, 1 << 20, 4096)]
    return hashlib.shake_128(b"".join(parts)).digest(16)


def stenciled(pad, x, side):
    """Eight steps: each element is a fifth of the sum of itself and its four neighbours, beyond the edge 0."""
    for _ in range(8):
        wide = pad(x)
        x = sum(wide[i : i + side, j : j + side] for i, j in ((0, 1), (2, 1), (1, 0), (1, 2), (1, 1))) * 0.2
    return x


def measure(operation, size, rounds):
    """One row, in this process: seconds of the first time, and of each later one."""
    import numpy as np
    from tinygrad import Tensor

    rng = np.random.default_rng(5)
    equal = np.array_equal
    if operation == "stencil":
        side = math.isqrt(size)
        array = rng.random((side, side)).astype(np.float32)
        wanted = (stenciled(lambda x: np.pad(x, 1), array.astype(np.float64), side),)
        run = lambda x: (stenciled(lambda x: x.pad(((1, 1), (1, 1))), x, side).numpy(),)  # noqa: E731
        equal = lambda a, b: np.allclose(a, b, rtol=1e-5)  # noqa: E731
    elif operation in ("hash", "keccak"):
        array = rng.integers(0, 256, size, dtype=np.uint8)
        wanted = hashed(array) if operation == "hash" else hashlib.sha3_256(array.tobytes()).digest()
        run = {"hash": lambda x: bytes(x.hash().numpy()), "keccak": lambda x: bytes(x.keccak().numpy())}[operation]
    else:
        array = rng.standard_normal(size).astype(np.float32)
        order = np.argsort(array, kind="stable")
        values = array[order]
        most = (values[::-1][:TOP], order[::-1][:TOP])
        wanted = {"sort": (values, order), "argsort": (order,), "topk": most}[operation]
        run = {
            "sort": lambda x: tuple(part.numpy() for part in x.sort()),
            "argsort": lambda x: (x.argsort().numpy(),),
            "topk": lambda x: tuple(part.numpy() for part in x.topk(TOP)),
        }[operation]
    x = Tensor(array).realize()
    times = []
    for _ in range(1 + rounds):
        begin = time.perf_counter()
        found = run(x)
        times.append(time.perf_counter() - begin)
        same = found == wanted if isinstance(wanted, bytes) else all(map(equal, found, wanted))
        if not same:
            raise AssertionError("%s of %d is wrong" % (operation, size))
    return {"cold": times[0], "warm": statistics.median(times[1:])}


def in_a_process(operation, size, run, rounds, address):
    """The row that a process of its own measures; None, and its last words on stderr, if it fails."""
    import support

    environment = dict(os.environ, DEV="CPU" if run == "CPU" else "KILN", KILN_LEVEL="T" if run == "CPU" else run,
                       KILN_ADDR=address, PARALLEL="0", PYTHONPATH=str(support.PACKAGE))  # fmt: skip
    environment.setdefault("CC", "clang-22")
    command = [sys.executable, __file__, "--measure", operation, str(size), run, "--rounds=%d" % rounds]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        print("%s %d %s: %s" % (operation, size, run, "".join(done.stderr.strip().splitlines()[-1:])), file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def rows_of(arguments):
    """(operation, size, run) of each row."""
    for size in map(int, arguments.sizes.split(",")):
        for operation in ("sort", "argsort", "topk"):
            for run in arguments.runs.split(","):
                yield operation, size, run
        for run in filter(None, arguments.stencil.split(",")):
            yield "stencil", size, run
    for run in filter(None, arguments.hash.split(",")):
        yield ("keccak", 300, run) if arguments.small else ("hash", 1 << 20, run)


def table(arguments):
    """Rows by (operation, size, run), printed as they come; those left out are said, and are not among them."""
    import support

    server = support.Server("--cpu_memory_bytes=%d" % MEMORY)
    rows = {}
    print(ROW % ("", "elements", "run", "cold s", "warm ms"))
    try:
        for operation, size, run in rows_of(arguments):
            if run == "CPU" and (size > MOST_ON_CPU or operation in ("hash", "stencil")):
                print(ROW % (operation, size, run, "left out", "(minutes)"), flush=True)
                continue
            row = rows[operation, size, run] = in_a_process(operation, size, run, arguments.rounds, server.address)
            if row is not None:
                print(ROW % (operation, size, run, "%.2f" % row["cold"], "%.1f" % (row["warm"] * 1e3)), flush=True)
    finally:
        server.stop()
    return rows


def main(words=None):
    parser = argparse.ArgumentParser(prog="./dev bench sort", description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="100000,1000000")
    parser.add_argument("--runs", default="T,K,L,CPU", help="T, K, L: Kiln at that level; CPU: tinygrad's own device")
    parser.add_argument("--hash", default="T", help="at which of these to hash 1 MiB")
    parser.add_argument("--stencil", default="T,K,L", help="at which of these to run eight stencils")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="a hash of 300 bytes: a smoke, with --sizes")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.measure:
        operation, size, run = arguments.measure
        if run != "CPU":
            import kiln.tinygrad  # noqa: F401: for its devices
        print(json.dumps(measure(operation, int(size), arguments.rounds)))
        return 0
    return 1 if None in table(arguments).values() else 0


if __name__ == "__main__":
    sys.exit(main())
