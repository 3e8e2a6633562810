"""A small GPT generates for several clients at once: their caches stay on the device, and their steps run together.

    bazel build --config=opt //server:kilnd && python examples/gpt.py [CLIENTS]     # KILN_KILND: another binary

The weights are random (of a seed), so the text is, too; greedy tokens are those of numpy, which keeps no cache.
"""
import contextlib, os, pathlib, queue, re, subprocess, sys, tempfile, threading, time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tritonclient.grpc as triton
from onnx import TensorProto, helper, numpy_helper

KILND = os.environ.get("KILN_KILND") or str(pathlib.Path(__file__).resolve().parent.parent / "bazel-bin/server/kilnd")
LAYERS, HEADS, DIM, CAPACITY, VOCABULARY = 2, 4, 16, 64, 96
WIDTH = HEADS * DIM

def weights(seed=7):
    draw = np.random.default_rng(seed)
    shapes = {"tokens": (VOCABULARY, WIDTH), "places": (CAPACITY, WIDTH)}
    for n in range(LAYERS):
        shapes |= {"qkv%d" % n: (WIDTH, 3 * WIDTH), "out%d" % n: (WIDTH, WIDTH)}
        shapes |= {"up%d" % n: (WIDTH, 4 * WIDTH), "down%d" % n: (4 * WIDTH, WIDTH)}
    return {name: (draw.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32) for name, shape in shapes.items()}

def norm(x): return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

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
    def op(kind, *sources, to="", **attributes):
        given = {x if isinstance(x, str) else "c%d.%d" % (len(nodes), n): x for n, x in enumerate(sources)}
        constants.update({name: np.asarray(source) for name, source in given.items() if not isinstance(source, str)})
        nodes.append(helper.make_node(kind, list(given), [to or "v%d" % len(nodes)], **attributes))
        return nodes[-1].output[0]
    def layer_norm(x): return op("LayerNormalization", x, "gain")
    places = np.arange(CAPACITY).reshape(1, 1, -1, 1)
    here = op("Equal", places, op("Reshape", "position", [-1, 1, 1, 1]))
    later = op("Greater", places.reshape(1, 1, 1, -1), op("Reshape", "position", [-1, 1, 1, 1]))
    x = op("Add", op("Gather", "tokens", "token"), op("Gather", "places", "position"))
    for layer in range(LAYERS):
        qkv = op("MatMul", layer_norm(x), "qkv%d" % layer)
        q, k, v = (op("Reshape", op("Slice", qkv, [n * WIDTH], [n * WIDTH + WIDTH], [1]), [-1, HEADS, 1, DIM])
                   for n in range(3))
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
    def ids(name): return helper.make_tensor_value_info(name, TensorProto.INT64, ["batch"])
    def cache(name): return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", HEADS, CAPACITY, DIM])
    def state(before): return [ids(before + "position")] + [cache(before + name) for name in caches]
    graph = helper.make_graph(nodes, "gpt", [ids("token"), *state("")], [ids("next"), *state("next_")],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    states = "".join('state { input_name: "%s" output_name: "next_%s" }\n' % (n, n) for n in ["position"] + caches)
    return {"1/model.onnx": made.SerializeToString(), "config.pbtxt": b"sequence_batching {\n%s}\n" % states.encode()}

def generate(address, n, prompt, count):
    """One client: a stream, a sequence; each answer's token is the next request's."""
    answers, text, last = queue.Queue(), list(prompt), len(prompt) + count - 2
    client = triton.InferenceServerClient(address)
    client.start_stream(lambda result, error: answers.put((result, error)))
    for step in range(last + 1):
        token = triton.InferInput("token", [1], "INT64")
        token.set_data_from_numpy(np.array([text[step]]))
        client.async_stream_infer("gpt", [token], sequence_id=n, sequence_start=step == 0, sequence_end=step == last)
        result, error = answers.get(timeout=60)
        if error is not None: raise error
        if step >= len(prompt) - 1: text.append(int(result.as_numpy("next")[0]))
    client.close()
    return text[len(prompt):]

def main(clients=4, count=40):
    w, log = weights(), []
    prompts = [np.random.default_rng(n).integers(0, VOCABULARY, 3 + n % 5).tolist() for n in range(clients)]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "gpt" / "1").mkdir(parents=True)
        for name, content in model(w).items(): (pathlib.Path(folder) / "gpt" / name).write_bytes(content)
        command = [KILND, "--listen=127.0.0.1:0", "--models=" + folder]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server, contextlib.ExitStack() as stack:
            stack.callback(server.terminate)
            for line in server.stderr:
                log.append(line)
                if all(any(word in each for each in log) for word in ("event=model_", "event=serving")): break
            told = threading.Thread(target=lambda: log.extend(server.stderr))  # else the server would wait for us
            told.start()
            stack.callback(told.join)
            stack.callback(server.terminate)
            address = "127.0.0.1:" + re.search(r"event=serving .*port=(\d+)", "".join(log)).group(1)
            begin = time.perf_counter()
            with ThreadPoolExecutor(clients) as pool:
                texts = list(pool.map(lambda n: generate(address, n + 1, prompts[n], count), range(clients)))
            rate = clients * count / (time.perf_counter() - begin)
            counts = triton.InferenceServerClient(address).get_inference_statistics("gpt").model_stats[0]
            server.terminate()
            told.join()
    for prompt, text in zip(prompts, texts): assert text == greedy(w, prompt, count), (prompt, text)
    compiled = "".join(log).count("event=compiled")
    print("%d clients: %d tokens, all as numpy's; %.0f tokens/s; %d steps in %d runs; %d programs compiled"
          % (clients, clients * count, rate, counts.inference_count, counts.execution_count, compiled))
    return texts, counts, compiled

if __name__ == "__main__": main(*map(int, sys.argv[1:]))
