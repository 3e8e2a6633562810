"""What a call of the Python client costs, waited for and as a command of its stream, in one run.

    ./dev bench calls [--rounds=2000]

Microseconds a call, the median of rounds; a chain is timed as a whole, its read at the end
included. The program adds two arrays of four elements.
"""

import argparse
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python")]

import support  # noqa: E402
import graphs  # noqa: E402
import numpy as np  # noqa: E402

import kiln  # noqa: E402

X = np.arange(4, dtype=np.float32)
ROW = "%-44s %10s %10s %8s"


def alone(rounds, work):
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return 1e6 * statistics.median(seconds)


def in_a_row(rounds, step, end):
    begin = time.perf_counter()
    for _ in range(rounds):
        step()
    end()
    return 1e6 * (time.perf_counter() - begin) / rounds


def measure(client, rounds):
    """Name by name, microseconds."""
    add, update = client.compile(graphs.elementwise("ADD")), client.compile(graphs.update())
    x, y = client.buffer(X), client.buffer(X)
    found = {}
    found["an array back"] = alone(rounds, lambda: add(X, X))
    found["a fill, and an array back"] = alone(rounds, lambda: (x.fill(1.0), add(x, X)))
    found["made, run on and read back"] = alone(rounds, lambda: add(client.buffer(X), y, out="buffers").numpy())
    found["one of a chain, into new buffers"] = in_a_row(rounds, lambda: add(x, y, out="buffers"), x.numpy)
    found["one of a chain, in place"] = in_a_row(rounds, lambda: update(x, y), x.numpy)
    return found


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2000)
    options = parser.parse_args(arguments)
    server = support.Server()
    try:
        found = []
        for stream in (False, True):
            with kiln.connect(server.address, stream=stream) as client:
                measure(client, max(options.rounds // 10, 1))  # warm
                found.append(measure(client, options.rounds))
    finally:
        server.stop()
    print(ROW % ("", "calls", "stream", "ratio"))
    for name, waited in found[0].items():
        print(ROW % (name, "%.0f" % waited, "%.0f" % found[1][name], "%.2f" % (found[1][name] / waited)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
