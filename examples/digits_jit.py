"""Handwritten digits: a small network learns 1,437 of them on the server, and reads 360 that it has not seen.

    ./dev run & python examples/digits_jit.py       # KILN_ADDR: another server than localhost:7437

A step, from the batch to the new weights, is one program there: kiln.jit makes it of numpy's words, with its gradient.
"""
import pathlib

import kiln
import numpy as np

DATA = pathlib.Path(__file__).resolve().parent.parent / "client" / "demo" / "data"
TRAINED, BATCH, HIDDEN, EPOCHS, RATE = 1437, 64, 64, 15, 0.5


def logits(net, x):
    hidden = kiln.relu(x @ net["w1"] + net["b1"])
    return hidden @ net["w2"] + net["b2"]


def loss(net, x, digits):
    """`digits` has ten numbers for each picture: 1 for its digit, else 0."""
    return -(kiln.log_softmax(logits(net, x)) * digits).sum() / len(x)


@kiln.jit(donate_argnums=0)  # the new weights take the place of the old ones
def step(net, x, digits):
    value, slopes = kiln.value_and_grad(loss)(net, x, digits)
    return {name: weight - RATE * slopes[name] for name, weight in net.items()}, value


def main():
    random = np.random.default_rng(0)
    pictures, names = np.load(DATA / "digits_images.npy"), np.load(DATA / "digits_labels.npy")
    order = random.permutation(len(names))
    pictures, names = pictures[order].reshape(-1, 64).astype(np.float32) / 16, names[order]
    first = lambda rows, columns: kiln.array(random.normal(0, (2 / rows) ** 0.5, (rows, columns)).astype(np.float32))
    with kiln.connect():
        net = {"w1": first(64, HIDDEN), "b1": kiln.zeros(HIDDEN, "float32"),
               "w2": first(HIDDEN, 10), "b2": kiln.zeros(10, "float32")}  # fmt: skip
        digits = np.eye(10, dtype=np.float32)[names]
        for epoch in range(EPOCHS):
            losses = []
            for at in range(0, TRAINED - BATCH + 1, BATCH):
                net, value = step(net, pictures[at : at + BATCH], digits[at : at + BATCH])
                losses.append(value)
            print("epoch %2d   loss %.4f" % (epoch + 1, np.mean([float(value) for value in losses])))
        read = kiln.jit(lambda net, x: kiln.argmax(logits(net, x), axis=1))(net, pictures[TRAINED:]).numpy()
    right = int((read == names[TRAINED:]).sum())
    print("read %d of %d: %.4f" % (right, len(read), right / len(read)))


if __name__ == "__main__":
    main()
