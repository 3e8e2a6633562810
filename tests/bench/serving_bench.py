"""A served model under 1 to 64 callers at a time, by NVIDIA's perf_analyzer: Kiln with batches, without, and
onnxruntime behind a plain gRPC server, in turns.

    ./dev bench serving [--models mlp,minilm,resnet50] [--callers 1,4,16,64] [--seconds 2] [--turns 2]

A request is of one row: a text of 32 tokens, a picture of 224 by 224. perf_analyzer comes with tritonclient;
`./dev bench --setup` installs the libraries that it wants.
"""

import argparse
import contextlib
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any, Callable, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent
sys.path[:0] = [str(HERE), str(HERE / "whole_models"), str(TESTS / "python"), str(TESTS.parent / "examples")]

import numpy as np
import onnx
import support
import tritonclient.grpc as triton
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


def save_mlp(*sizes):
    return lambda path: onnx.save(mlp(sizes), path)


def save_minilm(path):
    import minilm_model

    minilm_model.write(path)


def save_resnet50(path):
    import model_onnx
    import models

    model_onnx.written(model_onnx.Onnx(), "resnet50", models.Sizes("resnet50", small=False), path, rows="batch")


class Model(NamedTuple):
    save: Callable[[str], Any]  # as a file
    inputs: "dict[str, np.ndarray]"  # of a request
    sizes: str = "*=1:64"  # --model_sizes


def numbers(*shape):
    return {"x": np.zeros(shape, np.float32)}  # perf_analyzer draws its own


def text(tokens=32, vocabulary=30522):
    ids = np.random.default_rng(2).integers(1000, vocabulary, (1, tokens))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


MODELS = {
    "tiny": Model(save_mlp(16, 32, 4), numbers(1, 16)),
    "mlp": Model(save_mlp(784, 1024, 1024, 10), numbers(1, 784)),
    "large": Model(save_mlp(1024, 4096, 4096, 1024), numbers(1, 1024)),
    "minilm": Model(save_minilm, text(), "*=1:64,tokens=32"),
    "minilm_any": Model(save_minilm, text(), "*=1:64,tokens=1:128"),  # one program for texts of all lengths
    "resnet50": Model(save_resnet50, numbers(1, 3, 224, 224)),
}


def words_of(inputs, folder):
    """What tells perf_analyzer of a request. Floats it draws itself; not so integers, which say where in a table."""
    words = []
    for name, array in inputs.items():
        words += ["--shape", "%s:%s" % (name, ",".join(map(str, array.shape)))]
    if any(array.dtype.kind == "i" for array in inputs.values()):
        row = {name: {"content": array.ravel().tolist(), "shape": list(array.shape)} for name, array in inputs.items()}
        path = pathlib.Path(folder, "inputs.json")
        path.write_text(json.dumps({"data": [row]}))
        words += ["--input-data", str(path)]
    return words


def analyze(address, name, callers, seconds):
    """(inferences a second, p50 and p99 in ms)"""
    with tempfile.TemporaryDirectory() as folder:
        table = pathlib.Path(folder, "table.csv")
        environment = dict(os.environ, LD_LIBRARY_PATH=os.environ.get("KILN_PEERS", ""))
        run = subprocess.run(
            [str(ANALYZER), "-m", name, "-u", address, "-i", "grpc", *words_of(MODELS[name].inputs, folder),
             "-f", str(table), "--concurrency-range", str(callers), "-p", str(seconds * 1000), "-s", "999", "-r", "4"],
            env=environment, capture_output=True, text=True)  # fmt: skip
        rows = list(csv.DictReader(table.read_text().splitlines())) if table.exists() else []
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


def wait(server, name):
    """Until it is loaded, or is not going to be."""
    with triton.InferenceServerClient(server.address) as client:
        if not support.eventually(client.is_server_ready) or not client.is_model_ready(name):
            raise SystemExit("%s is not served:\n%s" % (name, "".join(server.log[-5:])))


def per_run(address, name):
    with triton.InferenceServerClient(address) as client:
        stats = client.get_inference_statistics(name).model_stats[0]
    return stats.inference_count, stats.execution_count


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="mlp", help="of: %s" % ", ".join(MODELS))
    parser.add_argument("--callers", default="1,2,4,8,16,32,64", help="how many at a time, one after the other")
    parser.add_argument("--seconds", type=int, default=2, help="of each measurement")
    parser.add_argument("--turns", type=int, default=2, help="of each row; the best is shown")
    options = parser.parse_args(words)
    unknown = [name for name in options.models.split(",") if name not in MODELS]
    if unknown:
        parser.error("%s: there are %s" % (", ".join(unknown), ", ".join(MODELS)))
    if not ANALYZER.exists():
        raise SystemExit("%s is not there: ./dev bench --setup" % ANALYZER)

    for name in options.models.split(","):
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            path = pathlib.Path(folder, name, "1", "model.onnx")
            path.parent.mkdir(parents=True)
            MODELS[name].save(str(path))
            servers = {}
            for title, flags in (("batches", ()), ("alone", ("--batching=false",))):
                server = support.Server("--models=%s" % folder, "--model_sizes=" + MODELS[name].sizes, *flags)
                stack.callback(server.stop)
                wait(server, name)
                servers[title] = server.address
            servers["onnxruntime"] = stack.enter_context(peer(str(path)))
            print("%s: inferences a second and p50 / p99 in ms" % name)
            print("%8s  %-28s %-28s %-28s %s" % ("callers", *servers, "batches/alone, /onnxruntime; requests a run"))
            for callers in map(int, options.callers.split(",")):
                best, before = {}, per_run(servers["batches"], name)
                for _ in range(options.turns):
                    for title, address in servers.items():
                        row = analyze(address, name, callers, options.seconds)
                        best[title] = max(best.get(title, row), row)
                after = per_run(servers["batches"], name)
                texts = ["%8.0f %8.2f /%8.2f" % best[title] for title in servers]
                rates = [best["batches"][0] / best[title][0] for title in ("alone", "onnxruntime")]
                joined = (after[0] - before[0]) / max(1, after[1] - before[1])
                print("%8d  %-28s %-28s %-28s %.2f, %.2f; %.1f" % (callers, *texts, *rates, joined), flush=True)


if __name__ == "__main__":
    main()
