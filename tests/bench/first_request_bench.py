"""How long the first request takes after a start: real models, whose programs an earlier server has left on the disk.

    ./dev bench first_request [--models silero_vad,magika,rapidocr,minilm] [--starts 5]

A server is started once, so that the folder of programs has them, and then again and again over the same folder. Of
each start the first answer of each model is timed, once the server has said that it is ready, by Triton's client on a
connection that is there; and so are ten more, whose least is what a request costs anyhow.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "python"), str(TESTS / "e2e" / "serving")]

import numpy as np
import real_models
import support
import tritonclient.grpc as triton
from tritonclient.utils import np_to_triton_dtype

AIM = 0.1  # seconds
LATER = 10


def given(name, array):
    made = triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    made.set_data_from_numpy(array)
    return made


def timed(client, name, inputs):
    begin = time.perf_counter()
    answer = client.infer(name, inputs)
    return time.perf_counter() - begin, [answer.as_numpy(row.name) for row in answer.get_response().outputs]


class Start:
    """Of one server: seconds until it was ready, and by model those of the first answer and of the fastest after it."""

    def __init__(self, folder, cache, names):
        begin = time.perf_counter()
        with support.running("--models=%s" % folder, "--model_sizes=" + real_models.SIZES,
                             "--program_cache_dir=%s" % cache) as server:  # fmt: skip
            with triton.InferenceServerClient(server.address) as client:
                if not support.eventually(client.is_server_ready):
                    raise SystemExit("it is not ready:\n" + "".join(server.log[-20:]))
                self.ready = time.perf_counter() - begin
                missing = [name for name in names if not client.is_model_ready(name)]
                if missing:
                    raise SystemExit("not served: %s\n%s" % (missing, "".join(server.log[-20:])))
                self.first, self.later = {}, {}
                for name in names:
                    inputs = [given(*row) for row in real_models.request(name).items()]
                    self.first[name], wanted = timed(client, name, inputs)
                    again = [timed(client, name, inputs) for _ in range(LATER)]
                    self.later[name] = min(seconds for seconds, _ in again)
                    for _, found in again:
                        for one, other in zip(found, wanted):
                            np.testing.assert_array_equal(one, other)
        self.compiled = sum("event=compiled" in line for line in server.log)


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(real_models.SAVED), help="of: %(default)s")
    parser.add_argument("--starts", type=int, default=5, help="after the one that compiles")
    options = parser.parse_args(words)
    names = options.models.split(",")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        real_models.fill(folder, names)
        cold = Start(folder, cache, names)
        starts = [Start(folder, cache, names) for _ in range(options.starts)]
    again = sum(start.compiled for start in starts)
    print("ready after %.2f s the first time, which compiled %d programs, then after %.2f s (median), which compiled %d"
          % (cold.ready, cold.compiled, statistics.median(start.ready for start in starts), again))  # fmt: skip
    print("%-12s %14s %14s %14s   ms; the aim is %d" % ("first answer", "median", "worst", "least later", 1e3 * AIM))
    for name in names:
        first = [start.first[name] for start in starts]
        later = min(start.later[name] for start in starts)
        print("%-12s %14.1f %14.1f %14.1f" % (name, 1e3 * statistics.median(first), 1e3 * max(first), 1e3 * later))
    return 1 if again else 0


if __name__ == "__main__":
    sys.exit(main())
