"""A served model under 1 to 64 callers at a time, by NVIDIA's perf_analyzer: Kiln with batches, without, and
onnxruntime behind a plain gRPC server, in turns.

    ./dev bench serving [--models mlp,resnet50] [--callers 1,4,16,64] [--seconds 2] [--turns 2]

perf_analyzer comes with tritonclient; `./dev bench --setup` installs the libraries that it wants.
"""

import argparse
import contextlib
import csv
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import numpy as np
import onnx
import support
from onnx import TensorProto, helper, numpy_helper

ANALYZER = pathlib.Path(sys.executable).with_name("perf_analyzer")


def mlp(sizes):
    draw = np.random.default_rng(1)
    nodes, constants, last = [], [], "x"
    for i, (width, height) in enumerate(zip(sizes, sizes[1:])):
        end = i == len(sizes) - 2
        constants.append(numpy_helper.from_array(draw.standard_normal((width, height), np.float32) / width**0.5, "w%d" % i))
        nodes.append(helper.make_node("MatMul", [last, "w%d" % i], ["y" if end else "h%d" % i]))
        if not end:
            nodes.append(helper.make_node("Relu", ["h%d" % i], ["r%d" % i]))
        last = "r%d" % i
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "mlp", [tensor("x", TensorProto.FLOAT, ["batch", sizes[0]])],
                              [tensor("y", TensorProto.FLOAT, ["batch", sizes[-1]])], constants)  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    return made


MODELS = {
    "tiny": (lambda: mlp([16, 32, 4]), 16),
    "mlp": (lambda: mlp([784, 1024, 1024, 10]), 784),
    "large": (lambda: mlp([1024, 4096, 4096, 1024]), 1024),
}


def analyze(address, name, width, callers, seconds):
    """(inferences a second, p50 and p99 in ms)"""
    with tempfile.NamedTemporaryFile(suffix=".csv") as table:
        environment = dict(os.environ, LD_LIBRARY_PATH=os.environ.get("KILN_PEERS", ""))
        run = subprocess.run(
            [str(ANALYZER), "-m", name, "-u", address, "-i", "grpc", "--shape", "x:1,%d" % width, "-f", table.name,
             "--concurrency-range", str(callers), "-p", str(seconds * 1000), "-s", "999", "-r", "4"],
            env=environment, capture_output=True, text=True)  # fmt: skip
        rows = list(csv.DictReader(open(table.name)))
    if not rows:
        raise SystemExit("perf_analyzer measured nothing:\n%s%s" % (run.stdout[-2000:], run.stderr[-2000:]))
    row = rows[0]
    return (float(row["Inferences/Second"]), float(row["p50 latency"]) / 1000, float(row["p99 latency"]) / 1000)


@contextlib.contextmanager
def peer(path):
    run = subprocess.Popen([sys.executable, str(HERE / "load" / "serving_peer.py"), path], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        yield "127.0.0.1:%d" % int(run.stdout.readline())
    finally:
        run.stdin.close()
        run.wait()


def per_run(address, name):
    import tritonclient.grpc as triton

    with triton.InferenceServerClient(address) as client:
        stats = client.get_inference_statistics(name).model_stats[0]
    return stats.inference_count, stats.execution_count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="mlp", help="of: %s" % ", ".join(MODELS))
    parser.add_argument("--callers", default="1,2,4,8,16,32,64", help="how many at a time, one after the other")
    parser.add_argument("--seconds", type=int, default=2, help="of each measurement")
    parser.add_argument("--turns", type=int, default=2, help="of each row; the best is shown")
    options = parser.parse_args()
    if not ANALYZER.exists():
        raise SystemExit("%s is not there: ./dev bench --setup" % ANALYZER)

    for name in options.models.split(","):
        make, width = MODELS[name]
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            path = pathlib.Path(folder, name, "1", "model.onnx")
            path.parent.mkdir(parents=True)
            path.write_bytes(make().SerializeToString())
            servers = {}
            for title, flags in (("batches", ()), ("alone", ("--batching=false",))):
                server = support.Server("--models=%s" % folder, "--model_sizes=*=1:64", *flags)
                stack.callback(server.stop)
                servers[title] = server.address
            servers["onnxruntime"] = stack.enter_context(peer(str(path)))
            print("%s: inferences a second and p50 / p99 in ms" % name)
            print("%8s  %-28s %-28s %-28s %s" % ("callers", *servers, "batches/alone, /onnxruntime; requests a run"))
            for callers in map(int, options.callers.split(",")):
                best, before = {}, per_run(servers["batches"], name)
                for _ in range(options.turns):
                    for title, address in servers.items():
                        row = analyze(address, name, width, callers, options.seconds)
                        best[title] = max(best.get(title, row), row)
                after = per_run(servers["batches"], name)
                texts = ["%8.0f %8.2f /%8.2f" % best[title] for title in servers]
                rates = [best["batches"][0] / best[title][0] for title in ("alone", "onnxruntime")]
                joined = (after[0] - before[0]) / max(1, after[1] - before[1])
                print("%8d  %-28s %-28s %-28s %.2f, %.2f; %.1f" % (callers, *texts, *rates, joined), flush=True)


if __name__ == "__main__":
    main()
