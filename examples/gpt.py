"""A small GPT that generates for several clients at once: their caches stay on the device, and their steps run together.

    bazel build --config=opt //server:kilnd && python examples/gpt.py [CLIENTS]     # KILN_KILND: another binary

The weights are random (of a seed), so the text is, too; greedy tokens are those of numpy, which keeps no cache.
"""
import os, pathlib, queue, re, subprocess, sys, tempfile, threading, time

import numpy as np
import onnx
import tritonclient.grpc as triton
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
KILND = os.environ.get("KILN_KILND", str(ROOT / "bazel-bin" / "server" / "kilnd"))
LAYERS, HEADS, DIM, CAPACITY, VOCABULARY = 2, 4, 16, 64, 96
WIDTH = HEADS * DIM

def weights(seed=7):
    draw = np.random.default_rng(seed)
    shapes = {"tokens": (VOCABULARY, WIDTH), "places": (CAPACITY, WIDTH)}
    for n in range(LAYERS):
        shapes |= {"qkv%d" % n: (WIDTH, 3 * WIDTH), "out%d" % n: (WIDTH, WIDTH), "up%d" % n: (WIDTH, 4 * WIDTH),
                   "down%d" % n: (4 * WIDTH, WIDTH)}
    return {name: (draw.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32) for name, shape in shapes.items()}

def norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

def greedy(w, prompt, count):
    """By numpy: the whole text again for each token."""
    text = list(prompt)
    while len(text) < len(prompt) + count:
        x = w["tokens"][text] + w["places"][: len(text)]
        for layer in range(LAYERS):
            q, k, v = (norm(x) @ w["qkv%d" % layer]).reshape(-1, 3, HEADS, DIM).transpose(1, 2, 0, 3)
            scores = q @ k.transpose(0, 2, 1) / DIM**0.5 + np.triu(np.full([len(text)] * 2, -1e9, np.float32), 1)
            share = np.exp(scores - scores.max(-1, keepdims=True))
            mixed = (share / share.sum(-1, keepdims=True)) @ v
            x = x + mixed.transpose(1, 0, 2).reshape(-1, WIDTH) @ w["out%d" % layer]
            x = x + np.maximum(norm(x) @ w["up%d" % layer], 0) @ w["down%d" % layer]
        text.append(int((norm(x[-1]) @ w["tokens"].T).argmax()))
    return text[len(prompt):]

def model(w):
    """One step as ONNX: token -> next. Beside it each key and value cache, and how far the text has come, go around."""
    nodes, constants = [], dict(w, gain=np.ones(WIDTH, np.float32))
    def named(value):
        constants["c%d" % len(constants)] = np.asarray(value)
        return list(constants)[-1]
    def op(kind, *sources, to=None, **attributes):
        names = [source if isinstance(source, str) else named(source) for source in sources]
        nodes.append(helper.make_node(kind, names, [to or "v%d" % len(nodes)], **attributes))
        return nodes[-1].output[0]
    def layer_norm(x): return op("LayerNormalization", x, "gain")
    places = np.arange(CAPACITY).reshape(1, 1, -1, 1)
    at = op("Reshape", "position", [-1, 1, 1, 1])
    here = op("Equal", places, at)
    later = op("Transpose", op("Greater", places, at), perm=[0, 1, 3, 2])
    x = op("Add", op("Gather", "tokens", "token"), op("Gather", "places", "position"))
    for layer in range(LAYERS):
        qkv = op("Reshape", op("MatMul", layer_norm(x), "qkv%d" % layer), [-1, 3, HEADS, 1, DIM])
        q, k, v = (op("Gather", qkv, n, axis=1) for n in range(3))
        k = op("Where", here, k, "k%d" % layer, to="next_k%d" % layer)
        v = op("Where", here, v, "v_%d" % layer, to="next_v_%d" % layer)
        scores = op("Mul", op("MatMul", q, op("Transpose", k, perm=[0, 1, 3, 2])), np.float32(DIM**-0.5))
        share = op("Softmax", op("Where", later, np.float32(-1e9), scores), axis=-1)
        mixed = op("Reshape", op("MatMul", share, v), [-1, WIDTH])
        x = op("Add", x, op("MatMul", mixed, "out%d" % layer))
        x = op("Add", x, op("MatMul", op("Relu", op("MatMul", layer_norm(x), "up%d" % layer)), "down%d" % layer))
    op("ArgMax", op("MatMul", layer_norm(x), op("Transpose", "tokens")), axis=-1, keepdims=0, to="next")
    op("Add", "position", np.int64(1), to="next_position")
    caches = [name % layer for layer in range(LAYERS) for name in ("k%d", "v_%d")]
    def tensor(name, kind, *shape): return helper.make_tensor_value_info(name, kind, ["batch", *shape])
    def state(before): return [tensor(before + "position", TensorProto.INT64)] + [
        tensor(before + name, TensorProto.FLOAT, HEADS, CAPACITY, DIM) for name in caches]
    graph = helper.make_graph(nodes, "gpt", [tensor("token", TensorProto.INT64), *state("")],
                              [tensor("next", TensorProto.INT64), *state("next_")],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    states = "".join(' state { input_name: "%s" output_name: "next_%s" }\n' % (name, name)
                     for name in ["position"] + caches)
    return {"1/model.onnx": made.SerializeToString(), "config.pbtxt": b"sequence_batching {\n%s}\n" % states.encode()}

def generate(address, number, prompt, count):
    """One client: a stream, a sequence; each answer's token is the next request's."""
    answers, client, text, last = queue.Queue(), triton.InferenceServerClient(address), list(prompt), len(prompt) + count - 2
    client.start_stream(lambda result, error: answers.put((result, error)))
    for step in range(last + 1):
        token = triton.InferInput("token", [1], "INT64")
        token.set_data_from_numpy(np.array([text[step]]))
        client.async_stream_infer("gpt", [token], sequence_id=number, sequence_start=step == 0, sequence_end=step == last)
        result, error = answers.get(timeout=60)
        if error is not None: raise error
        if step >= len(prompt) - 1: text.append(int(result.as_numpy("next")[0]))
    client.close()
    return text[len(prompt):]

def main(clients=4, count=40):
    w, log, texts = weights(), [], [None] * clients
    prompts = [np.random.default_rng(n).integers(0, VOCABULARY, 3 + n % 5).tolist() for n in range(clients)]
    def one(n): texts[n] = generate(address, n + 1, prompts[n], count)
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "gpt" / "1").mkdir(parents=True)
        for name, content in model(w).items(): (pathlib.Path(folder) / "gpt" / name).write_bytes(content)
        server = subprocess.Popen([KILND, "--listen=127.0.0.1:0", "--models=" + folder, "--model_sizes=batch=1:16"],
                                  stderr=subprocess.PIPE, text=True)
        try:
            while "event=model_" not in "".join(log[-1:]): log.append(server.stderr.readline())
            address = "127.0.0.1:" + re.search(r"event=serving .*port=(\d+)", "".join(log)).group(1)
            threads = [threading.Thread(target=one, args=(n,)) for n in range(clients)]
            begin = time.perf_counter()
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            seconds = time.perf_counter() - begin
            counts = triton.InferenceServerClient(address).get_inference_statistics("gpt").model_stats[0]
        finally:
            server.terminate()
            log += server.stderr.readlines()
    for prompt, text in zip(prompts, texts): assert text == greedy(w, prompt, count), (prompt, text)
    compiled = sum("event=compiled" in line for line in log)
    print("%d clients: %d tokens, all as numpy's; %.0f tokens/s; %d steps in %d runs; %d programs compiled"
          % (clients, clients * count, clients * count / seconds, counts.inference_count, counts.execution_count, compiled))
    return texts, counts, compiled

if __name__ == "__main__": main(*map(int, sys.argv[1:]))
