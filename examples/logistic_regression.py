"""Logistic regression as a numpy user writes it, and its twin on a server: 10,000 rows of 64, 100 steps.

    ./dev run & python examples/logistic_regression.py      # KILN_ADDR: another server than localhost:7437

What differs: kiln for np, kiln.jit over what is called often, and data that is sent once.
"""
import kiln
import numpy as np
from numpy.typing import NDArray
import twins


Rows = NDArray[np.float32]


def with_numpy(x: Rows, y: Rows) -> Rows:
    w = np.zeros(x.shape[1], np.float32)
    for _ in range(100):
        p = 1 / (1 + np.exp(-(x @ w)))
        w = w - np.float32(0.5) * (x.T @ (p - y)) / np.float32(len(y))
    return w


def with_kiln(rows: Rows, goals: Rows) -> kiln.Array:
    def loss(w: kiln.Array, x: kiln.Array, y: kiln.Array) -> kiln.Array:
        z = x @ w
        return (kiln.log(1 + kiln.exp(z)) - y * z).mean()

    @kiln.jit(donate_argnums=0)
    def step(w: kiln.Array, x: kiln.Array, y: kiln.Array) -> kiln.Array:
        slope: kiln.Array = kiln.grad(loss)(w, x, y)
        return w - 0.5 * slope

    x, y, w = kiln.array(rows), kiln.array(goals), kiln.zeros(rows.shape[1], "float32")
    for _ in range(100):
        w = step(w, x, y)
    return w


def main(rows: int = 10_000, rounds: int = 3) -> twins.Figures:
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, 64)).astype(np.float32)
    y = (x @ random.standard_normal(64) > 0).astype(np.float32)
    return twins.beside("logistic regression", with_numpy, with_kiln, (x, y), rounds)


if __name__ == "__main__":
    main()
