"""The four programs of examples/ that have a numpy twin, beside it, on a server of their own.

    ./dev bench twins [--rounds=7] [--smoke]

Both take turns, and the best round of each counts. The ratio is Kiln's time to numpy's; the status is 1 if it is above
1.1 where an argument has more than 64 KiB. --smoke runs each once, on arrays smaller than that. The heat equation does
twenty steps a call: one is little work beside a call.
"""

import argparse
import contextlib
import io
import os
import pathlib
import sys
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE.parent.parent / "examples")]

import support  # noqa: E402
import edges  # noqa: E402
import heat  # noqa: E402
import k_means  # noqa: E402
import logistic_regression  # noqa: E402

# Each with a size at which no argument has more than LARGE bytes.
TWINS = {logistic_regression: 250, k_means: 2000, heat: 64, edges: 64}
LARGE, MOST = 64 << 10, 1.1
ROW = "%-20s %10s %10s %10s %8s %10s"


def figures(options):
    """By name, what each example says of itself."""
    server = support.Server()
    try:
        with mock.patch.dict(os.environ, {"KILN_ADDR": server.address}), contextlib.redirect_stdout(io.StringIO()):
            for example, small in TWINS.items():
                size = (small,) if options.smoke else ()
                yield example.__name__, example.main(*size, rounds=1 if options.smoke else options.rounds)
    finally:
        server.stop()


def too_slow(found):
    return found.nbytes > LARGE and found.kiln > MOST * found.numpy


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args(arguments)
    rows = dict(figures(options))
    print(ROW % ("", "numpy ms", "kiln ms", "KiB", "ratio", "apart"))
    for name, found in rows.items():
        print(ROW % (name, "%.1f" % (1e3 * found.numpy), "%.1f" % (1e3 * found.kiln), "%.0f" % (found.nbytes / 1024),
                     "%.2f" % (found.kiln / found.numpy), "%.1e" % found.apart))  # fmt: skip
    slow = [name for name, found in rows.items() if too_slow(found)]
    if slow:
        print("above %.1f of numpy's time: %s" % (MOST, ", ".join(slow)))
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
