"""Handwritten digits: a convolutional net learns 1,437 of them on the server, and reads 360 it has not seen.

    ./dev run & python examples/digits.py       # KILN_ADDR: another server than localhost:7437

A step, from the batch's numbers to Adam's updates, is one program there: one round trip.
"""
import os

os.environ.setdefault("DEV", "KILN")
import kiln.tinygrad
import numpy as np
from sklearn.datasets import load_digits
from tinygrad import Tensor, TinyJit, nn
from tinygrad.helpers import Context

TRAINED, BATCH, EPOCHS = 1437, 128, 12

class Net:
    def __init__(self):
        self.layers = [nn.Conv2d(1, 16, 3, padding=1), Tensor.relu, nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm(32),
                       Tensor.relu, Tensor.max_pool2d, lambda x: x.flatten(1), nn.Linear(32 * 4 * 4, 10)]

    def __call__(self, x):
        return x.sequential(self.layers)

def show(picture, seen, right):
    print("\n".join("".join(" .:*#"[int(v * 4.99)] * 2 for v in row) for row in picture[0]))
    print("read as %d, is %d\n" % (seen, right))

def main():
    Tensor.manual_seed(1)
    pictures, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(digits))
    pictures, digits = (pictures[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8), digits[order].astype(np.int32)
    x, y = Tensor(pictures[:TRAINED]).realize(), Tensor(digits[:TRAINED]).realize()
    net = Net()
    optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=0.005)

    @TinyJit
    def step(chosen):
        optimizer.zero_grad()
        loss = net(x[chosen]).sparse_categorical_crossentropy(y[chosen]).backward()
        return loss.realize(*optimizer.schedule_step())

    for epoch in range(EPOCHS):
        with Context(TRAINING=1):
            shuffled = np.random.default_rng(epoch).permutation(TRAINED).astype(np.int32)
            batches = [shuffled[n:n + BATCH] for n in range(0, TRAINED - BATCH + 1, BATCH)]
            losses = [step(Tensor(batch).realize()).item() for batch in batches]
        print("epoch %2d   loss %6.4f" % (epoch + 1, np.mean(losses)))
    seen = net(Tensor(pictures[TRAINED:])).argmax(1).numpy()
    right = digits[TRAINED:]
    for n in np.flatnonzero(seen != right)[:3]: show(pictures[TRAINED + n], seen[n], right[n])
    print("read %d of %d: %.4f" % ((seen == right).sum(), len(right), (seen == right).mean()))
    return (seen == right).mean()

if __name__ == "__main__": main()
