"""A small GPT generates for several clients at once: their caches stay on the device, and their steps run together.

    python examples/gpt_model.py models && ./dev run --models=$PWD/models &
    python examples/gpt.py [CLIENTS]            # KILN_ADDR: another server than localhost:7437

The weights are random (of a seed), so the text is, too; greedy tokens are those of numpy, which keeps no cache.
"""
import os, queue, sys, time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tritonclient.grpc as triton
from gpt_model import DIM, HEADS, LAYERS, VOCABULARY, WIDTH, weights

ADDRESS = os.environ.get("KILN_ADDR", "localhost:7437")
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

def generate(n, prompt, count):
    """One client: a stream, a sequence; each answer's token is the next request's."""
    answers, text, last = queue.Queue(), list(prompt), len(prompt) + count - 2
    client = triton.InferenceServerClient(ADDRESS)
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
    prompts = [np.random.default_rng(n).integers(0, VOCABULARY, 3 + n % 5).tolist() for n in range(clients)]
    begin = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        texts = list(pool.map(lambda n: generate(n + 1, prompts[n], count), range(clients)))
    seconds = time.perf_counter() - begin
    counts = triton.InferenceServerClient(ADDRESS).get_inference_statistics("gpt").model_stats[0]
    for prompt, text in zip(prompts, texts): assert text == greedy(weights(), prompt, count), (prompt, text)
    print("%d clients: %d tokens, all as numpy's; %.0f tokens/s; %d steps in %d runs"
          % (clients, clients * count, clients * count / seconds, counts.inference_count, counts.execution_count))
    return texts, counts

if __name__ == "__main__": main(*map(int, sys.argv[1:]))
