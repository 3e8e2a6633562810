"""Four programs as a numpy user writes them, and their twins on a server: the same numbers, and how long each takes.

    ./dev run & python examples/numpy_twins.py      # KILN_ADDR: another server than localhost:7437

What differs: kiln for np, kiln.jit over what is called often, and data that is sent once.
"""
import time

import kiln
import numpy as np

# -- logistic regression: 10,000 rows of 64, 100 steps

def logistic_numpy(x, y):
    w = np.zeros(x.shape[1], np.float32)
    for _ in range(100):
        p = 1 / (1 + np.exp(-(x @ w)))
        w = w - np.float32(0.5) * (x.T @ (p - y)) / np.float32(len(y))
    return w

def logistic(x, y):
    def loss(w, x, y):
        z = x @ w
        return (kiln.log(1 + kiln.exp(z)) - y * z).mean()

    step = kiln.jit(lambda w, x, y: w - 0.5 * kiln.grad(loss)(w, x, y), donate_argnums=0)
    x, y, w = kiln.array(x), kiln.array(y), kiln.zeros(x.shape[1], "float32")
    for _ in range(100):
        w = step(w, x, y)
    return w

# -- k-means: 100,000 points, 16 centres, 20 rounds

def k_means_numpy(points, centres):
    for _ in range(20):
        distance = (centres**2).sum(1) - 2 * points @ centres.T
        nearest = np.eye(len(centres), dtype=np.float32)[distance.argmin(1)]
        centres = (nearest.T @ points) / np.maximum(nearest.sum(0), 1)[:, None]
    return centres

def k_means(points, centres):
    @kiln.jit
    def move(centres, points):
        distance = (centres**2).sum(1) - 2 * points @ centres.T
        nearest = (distance.argmin(1)[:, None] == kiln.arange(len(centres))).astype("float32")
        return (nearest.T @ points) / kiln.maximum(nearest.sum(0), 1)[:, None]

    points = kiln.array(points)
    for _ in range(20):
        centres = move(centres, points)
    return centres

# -- the heat equation: a plate of 256 x 256, 1,000 steps

def heat_numpy(u):
    u = u.copy()
    for _ in range(1000):
        beside = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        u[1:-1, 1:-1] += np.float32(0.2) * (beside - 4 * u[1:-1, 1:-1])
    return u

def heat(u):
    rate = np.pad(np.full((len(u) - 2, len(u) - 2), 0.2, np.float32), 1)  # the border stays as it is

    @kiln.jit
    def twenty_steps(u):
        for _ in range(20):
            v = kiln.pad(u, 1)
            beside = v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2]
            u = u + rate * (beside - 4 * u)
        return u

    for _ in range(50):
        u = twenty_steps(u)
    return u

# -- convolutions: blur, edges, and the strongest of each 4 x 4, in a picture of 1,024 x 1,024

BLUR = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]) / 256
EDGE = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]])

def convolve(x, kernel):
    rows, columns = x.shape[0] - len(kernel) + 1, x.shape[1] - len(kernel) + 1
    return sum(float(factor) * x[i : i + rows, j : j + columns] for (i, j), factor in np.ndenumerate(kernel))

def edges_numpy(x):
    x = convolve(x, BLUR)
    strength = np.sqrt(convolve(x, EDGE) ** 2 + convolve(x, EDGE.T) ** 2)
    n = len(strength) // 4
    return strength[: 4 * n, : 4 * n].reshape(n, 4, n, 4).max(axis=(1, 3))

@kiln.jit
def edges(x):
    x = convolve(x, BLUR)
    strength = kiln.sqrt(convolve(x, EDGE) ** 2 + convolve(x, EDGE.T) ** 2)
    n = len(strength) // 4
    return strength[: 4 * n, : 4 * n].reshape(n, 4, n, 4).max(axis=(1, 3))

# -- beside each other

def data(scale=1.0):
    """(name, numpy's, Kiln's, arguments) of each; `scale` makes them smaller."""
    r = np.random.default_rng(0)
    rows, points, side = (int(n * scale) for n in (10_000, 100_000, 1024))
    x = r.standard_normal((rows, 64)).astype(np.float32)
    y = (x @ r.standard_normal(64) > 0).astype(np.float32)
    middles = 8 * r.standard_normal((16, 8))
    cloud = (middles[r.integers(0, 16, points)] + r.standard_normal((points, 8))).astype(np.float32)
    plate = np.zeros((side // 4, side // 4), np.float32)
    plate[side // 12 : side // 6, side // 12 : side // 6] = 1
    return [("logistic regression", logistic_numpy, logistic, (x, y)),
            ("k-means", k_means_numpy, k_means, (cloud, middles.astype(np.float32))),
            ("heat equation", heat_numpy, heat, (plate,)),
            ("convolutions", edges_numpy, edges, (r.random((side, side), np.float32),))]

def best(function, args, rounds):
    """Its result, and the least seconds of a call."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        result = np.asarray(function(*args))
        times.append(time.perf_counter() - begin)
    return result, min(times)

def main(scale=1.0, rounds=3):
    """Rows of (name, seconds with numpy, with Kiln, how far they are apart)."""
    rows = []
    with kiln.connect():
        for name, theirs, ours, args in data(scale):
            wanted, before = best(theirs, args, rounds)
            found, after = best(ours, args, rounds)
            rows.append((name, before, after, float(np.abs(found - wanted).max())))
            print("%-20s numpy %8.1f ms   kiln %8.1f ms   apart by %.1e" % (name, 1e3 * before, 1e3 * after, rows[-1][3]))
    return rows

if __name__ == "__main__": main()
