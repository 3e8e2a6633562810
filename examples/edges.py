"""A blur, the edges, and the strongest of each 4 x 4 in a picture of 1,024 x 1,024: with numpy, and on a server.

    ./dev run & python examples/edges.py      # KILN_ADDR: another server than localhost:7437

`convolve` is the same function for both.
"""
import kiln
import numpy as np
import twins

BLUR = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]) / 256
EDGE = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]])


def convolve(x, kernel):
    rows, columns = x.shape[0] - len(kernel) + 1, x.shape[1] - len(kernel) + 1
    return sum(float(factor) * x[i : i + rows, j : j + columns] for (i, j), factor in np.ndenumerate(kernel))


def with_numpy(x):
    x = convolve(x, BLUR)
    strength = np.sqrt(convolve(x, EDGE) ** 2 + convolve(x, EDGE.T) ** 2)
    n = len(strength) // 4
    return strength[: 4 * n, : 4 * n].reshape(n, 4, n, 4).max(axis=(1, 3))


@kiln.jit
def with_kiln(x):
    x = convolve(x, BLUR)
    strength = kiln.sqrt(convolve(x, EDGE) ** 2 + convolve(x, EDGE.T) ** 2)
    n = len(strength) // 4
    return strength[: 4 * n, : 4 * n].reshape(n, 4, n, 4).max(axis=(1, 3))


def main(side=1024, rounds=3):
    picture = np.random.default_rng(0).random((side, side), np.float32)
    return twins.beside("edges", with_numpy, with_kiln, (picture,), rounds)


if __name__ == "__main__":
    main()
