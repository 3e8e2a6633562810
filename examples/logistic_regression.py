"""Logistic regression as a numpy user writes it, and its twin on a server: 10,000 rows of 64, 100 steps.

    ./dev run & python examples/logistic_regression.py      # KILN_ADDR: another server than localhost:7437

What differs: kiln for np, kiln.jit over what is called often, and data that is sent once.
"""
import kiln
import numpy as np
import twins


def with_numpy(x, y):
    w = np.zeros(x.shape[1], np.float32)
    for _ in range(100):
        p = 1 / (1 + np.exp(-(x @ w)))
        w = w - np.float32(0.5) * (x.T @ (p - y)) / np.float32(len(y))
    return w


def with_kiln(x, y):
    def loss(w, x, y):
        z = x @ w
        return (kiln.log(1 + kiln.exp(z)) - y * z).mean()

    step = kiln.jit(lambda w, x, y: w - 0.5 * kiln.grad(loss)(w, x, y), donate_argnums=0)
    x, y, w = kiln.array(x), kiln.array(y), kiln.zeros(x.shape[1], "float32")
    for _ in range(100):
        w = step(w, x, y)
    return w


def main(rows=10_000, rounds=3):
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, 64)).astype(np.float32)
    y = (x @ random.standard_normal(64) > 0).astype(np.float32)
    return twins.beside("logistic regression", with_numpy, with_kiln, (x, y), rounds)


if __name__ == "__main__":
    main()
