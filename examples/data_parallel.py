"""Handwritten digits, learnt on four devices at once: each has a quarter of every batch, and all have the weights.

    ./dev run --cpu_devices=4 & python examples/data_parallel.py      # KILN_ADDR: another server than localhost:7437

The step is written for one device. Spread over four, the sums over the batch become all-reduces.
"""
import os

import kiln
import numpy as np
from sklearn.datasets import load_digits

DEVICES = ["CPU:%d" % n for n in range(4)]
TRAINED, BATCH, EPOCHS, RATE = 1437, 128, 10, 0.5

def training_step(client):
    """The graph of a step on one device: x, y, and the weights, which it updates; the loss is its first result."""
    def start(graph):
        x, y = graph.param("x", (BATCH, 64)), graph.param("y", (BATCH, 10))
        weights = [graph.param(*row) for row in (("w1", (64, 48)), ("b1", (48,)), ("w2", (48, 10)), ("b2", (10,)))]
        return x, y, weights

    forward, step = kiln.Graph(), kiln.Graph()
    x, y, (w1, b1, w2, b2) = start(forward)
    scores = kiln.relu(x @ w1 + b1) @ w2 + b2
    forward.output(kiln.sum(kiln.log_softmax(scores) * y) * (-1.0 / BATCH))
    _, _, weights = start(step)
    gradient = client.gradient(forward, wrt=[w1, b1, w2, b2], include_results=True)
    loss, *slopes = step.append(gradient)
    step.output(loss)
    for weight, slope in zip(weights, slopes): step.update(weight, weight - RATE * slope)
    return step

def train(client, devices, deterministic=False, epochs=EPOCHS, say=lambda line: None):
    """The weights after training on these devices, one array of each for every device, and the last losses' mean."""
    pictures, digits = load_digits(return_X_y=True)
    pictures, labels = (pictures / 16).astype(np.float32), np.eye(10, dtype=np.float32)[digits]
    random = np.random.default_rng(1)
    begin = [random.normal(0, scale, shape).astype(np.float32)
             for shape, scale in (((64, 48), 0.2), ((48,), 0), ((48, 10), 0.2), ((10,), 0))]
    step = client.compile(kiln.spread(training_step(client), devices, split=["x", "y"]), deterministic=deterministic)
    several, loss = len(devices) > 1, np.inf
    weights = [client.shards(weight, devices, axis=None) if several else client.buffer(weight) for weight in begin]
    for epoch in range(epochs):
        order = random.permutation(TRAINED)
        batches = [order[n:n + BATCH] for n in range(0, TRAINED - BATCH + 1, BATCH)]
        loss = np.mean([step(pictures[rows], labels[rows], *weights) for rows in batches])
        say("epoch %2d   loss %6.4f" % (epoch + 1, loss))
    trained = [weight.numpy() for weight in weights]
    return trained if several else [weight[None] for weight in trained], loss

def main():
    with kiln.connect(os.environ.get("KILN_ADDR", "localhost:7437")) as client:
        four, loss = train(client, DEVICES, deterministic=True, say=print)
        one, _ = train(client, DEVICES[:1])
    apart = max(np.abs(a - b[:1]).max() for a, b in zip(four, one))
    print("one device and four differ by %.1e at most" % apart)
    return apart, loss

if __name__ == "__main__": main()
