"""What a call of the Python client costs, waited for and as a command of its stream, in one run.

    ./dev bench calls [--rounds=2000] [--isolation]

With --isolation, calls that are waited for, of a tenant whose programs run in the server and of
one whose run in a process of its own. Microseconds a call, the median of rounds; a chain is timed
as a whole, its read at the end included. The program adds two arrays of four elements.
"""

import argparse
import hashlib
import pathlib
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python")]

import support  # noqa: E402
import graphs  # noqa: E402
import numpy as np  # noqa: E402

import kiln  # noqa: E402

X = np.arange(4, dtype=np.float32)
ISOLATIONS = ("SHARED", "PROCESS")
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


def tenants(folder):
    """A file of one for each isolation, which is its token."""
    row = 'tenant { name: "%s" token { sha256: "%s" } isolation: %s }\n'
    path = pathlib.Path(folder) / "tenants.txtpb"
    path.write_text("".join(row % (how, hashlib.sha256(how.encode()).hexdigest(), how) for how in ISOLATIONS))
    return path


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--isolation", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        flags, columns = (), {"calls": {"stream": False}, "stream": {"stream": True}}
        if options.isolation:
            flags = ("--tenants=%s" % tenants(folder),)
            columns = {how: {"stream": False, "token": how} for how in ISOLATIONS}
        server = support.Server(*flags)
        try:
            found = []
            for how in columns.values():
                with kiln.connect(server.address, **how) as client:
                    measure(client, max(options.rounds // 10, 1))  # warm
                    found.append(measure(client, options.rounds))
        finally:
            server.stop()
    print(ROW % ("", *columns, "ratio"))
    for name, waited in found[0].items():
        print(ROW % (name, "%.0f" % waited, "%.0f" % found[1][name], "%.2f" % (found[1][name] / waited)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
