"""A blur, the edges, and the strongest of each 4 x 4 in a picture of 1,024 x 1,024: with numpy, and on a server.

    ./dev run & python examples/edges.py      # KILN_ADDR: another server than localhost:7437

`convolve` is the same function for both.
"""
from typing import Any, TypeVar

import kiln
import numpy as np
from numpy.typing import NDArray
import twins

Picture = NDArray[np.floating[Any]]
X = TypeVar("X", Picture, kiln.Array)
BLUR = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]) / 256
EDGE = np.array([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]])


def convolve(x: X, kernel: Picture) -> X:
    rows, columns = x.shape[0] - len(kernel) + 1, x.shape[1] - len(kernel) + 1
    terms = [float(factor) * x[i : i + rows, j : j + columns] for (i, j), factor in np.ndenumerate(kernel)]
    return sum(terms[1:], terms[0])


def with_numpy(x: Picture) -> Picture:
    x = convolve(x, BLUR)
    strength = np.sqrt(convolve(x, EDGE) ** 2 + convolve(x, EDGE.T) ** 2)
    n = len(strength) // 4
    strongest: Picture = strength[: 4 * n, : 4 * n].reshape(n, 4, n, 4).max(axis=(1, 3))
    return strongest


@kiln.jit
def with_kiln(x: kiln.Array) -> kiln.Array:
    x = convolve(x, BLUR)
    strength = kiln.sqrt(convolve(x, EDGE) ** 2 + convolve(x, EDGE.T) ** 2)
    n = len(strength) // 4
    return strength[: 4 * n, : 4 * n].reshape(n, 4, n, 4).max(axis=(1, 3))


def main(side: int = 1024, rounds: int = 3) -> twins.Figures:
    picture = np.random.default_rng(0).random((side, side), np.float32)
    return twins.beside("edges", with_numpy, with_kiln, (picture,), rounds)


if __name__ == "__main__":
    main()
