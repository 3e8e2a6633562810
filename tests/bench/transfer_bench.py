"""How fast the Python client moves data, through shared memory and through a socket, beside memcpy in one run.

    ./dev bench transfer [--mib=256] [--rounds=7]

GB/s, best and median; the ratio is of the bests, to memcpy's. A shared array
(Client.shared_empty) lies in memory that the server has mapped; any other array is
copied into such memory on its way. `wire` is the bytes of messages that one upload
and one download take.
"""

import argparse
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python")]

import support  # noqa: E402
import numpy as np  # noqa: E402

import kiln  # noqa: E402

ROW = "%-28s %8s %8s %8s %12s"


def measure(rounds, nbytes, work):
    """(best, median) GB/s of `work`, which moves `nbytes`."""
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return nbytes / min(seconds) / 1e9, nbytes / statistics.median(seconds) / 1e9


def wire(client):
    return sum(row.sent_bytes + row.received_bytes for row in client.traffic.values())


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    nbytes = options.mib << 20
    source = np.random.default_rng(0).integers(0, 256, nbytes, np.uint8)
    target = np.zeros_like(source)
    print(ROW % ("", "best", "median", "ratio", "wire"))
    memcpy = measure(options.rounds, nbytes, lambda: np.copyto(target, source))

    def show(name, figures, messages=""):
        print(ROW % (name, "%.2f" % figures[0], "%.2f" % figures[1], "%.2f" % (figures[0] / memcpy[0]), messages))

    show("memcpy", memcpy)
    server = support.Server("--shared_memory_max_bytes=%d" % (2 * nbytes + (64 << 20)))
    try:
        for shared in (True, False):
            with kiln.connect(server.address, shared_memory=shared) as client, client.buffer(source) as buffer:
                arrays = [("", source, target)]
                if shared:
                    mine = client.shared_empty(source.shape, source.dtype)
                    mine[:] = source
                    arrays.append((", shared array", mine, mine))
                for kind, out, back in arrays:
                    before = wire(client)
                    buffer.write(out)
                    buffer.read_into(back)
                    messages = wire(client) - before
                    name = client.transport + kind
                    show(name + ", up", measure(options.rounds, nbytes, lambda: buffer.write(out)), messages)
                    show(name + ", down", measure(options.rounds, nbytes, lambda: buffer.read_into(back)), messages)
                    if not np.array_equal(back, source):
                        print("what came back is not what was sent")
                        return 1
    finally:
        server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
