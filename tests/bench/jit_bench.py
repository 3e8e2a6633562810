"""What a call of a jitted function of four numbers costs beside a bare call of gRPC, in one run and in turns.

    ./dev bench jit [--rounds=500] [--turns=7]

The bare call asks the same server whether it is alive, by grpcio alone: bytes to it, an answer back. The others
compute and give an array back. Microseconds a call: the median of a turn's rounds, and of the turns' medians; the
ratio is the median of the turns' ratios, so that what else the machine does meets both sides. CPU is the client's
own, all threads.
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
import grpc  # noqa: E402
import numpy as np  # noqa: E402

import kiln  # noqa: E402

X = np.arange(4, dtype=np.float32)
ALIVE = "/inference.GRPCInferenceService/ServerLive"
ROW = "%-44s %10s %10s %10s"


def timed(rounds, work):
    """(the median of its times, CPU of each) in microseconds."""
    seconds, cpu = [], time.process_time()
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return 1e6 * statistics.median(seconds), 1e6 * (time.process_time() - cpu) / rounds


def works(client, channel):
    """Name by name, what is timed; the bare call first."""
    alive = channel.unary_unary(ALIVE)
    program = client.compile(graphs.elementwise("ADD"))
    function = kiln.jit(lambda x: x + 1.0, client=client)
    x = kiln.array(X, client=client)
    return {
        "a bare call of gRPC": lambda: alive(b""),
        "jit of an array on the device, read": lambda: np.asarray(function(x)),
        "jit of a numpy array, read": lambda: np.asarray(function(X)),
        "jit, not read": lambda: function(x),
        "an operator on an array, read": lambda: np.asarray(x + 1.0),
        "a program by hand, of numpy arrays": lambda: program(X, X),
    }


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args(arguments)
    server = support.Server()
    try:
        with kiln.connect(server.address) as client, grpc.insecure_channel(server.address) as channel:
            todo = works(client, channel)
            for work in todo.values():
                timed(max(options.rounds // 10, 1), work)  # warm
            found = [{name: timed(options.rounds, work) for name, work in todo.items()} for _ in range(options.turns)]
    finally:
        server.stop()
    bare = next(iter(todo))
    print(ROW % ("", "us", "CPU us", "ratio"))
    for name in todo:
        times, cpu = zip(*(turn[name] for turn in found))
        ratio = statistics.median(turn[name][0] / turn[bare][0] for turn in found)
        print(ROW % (name, "%.0f" % statistics.median(times), "%.0f" % statistics.median(cpu), "%.2f" % ratio))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
