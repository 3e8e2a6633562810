"""k-means as a numpy user writes it, and its twin on a server: 100,000 points, 16 centres, 20 rounds.

    ./dev run & python examples/k_means.py      # KILN_ADDR: another server than localhost:7437
"""
import kiln
import numpy as np
import twins


def with_numpy(points, centres):
    for _ in range(20):
        distance = (centres**2).sum(1) - 2 * points @ centres.T
        nearest = np.eye(len(centres), dtype=np.float32)[distance.argmin(1)]
        centres = (nearest.T @ points) / np.maximum(nearest.sum(0), 1)[:, None]
    return centres


def with_kiln(points, centres):
    @kiln.jit
    def move(centres, points):
        distance = (centres**2).sum(1) - 2 * points @ centres.T
        nearest = (distance.argmin(1)[:, None] == kiln.arange(len(centres))).astype("float32")
        return (nearest.T @ points) / kiln.maximum(nearest.sum(0), 1)[:, None]

    points = kiln.array(points)
    for _ in range(20):
        centres = move(centres, points)
    return centres


def main(points=100_000, rounds=3):
    random = np.random.default_rng(0)
    middles = 8 * random.standard_normal((16, 8))
    cloud = (middles[random.integers(0, 16, points)] + random.standard_normal((points, 8))).astype(np.float32)
    return twins.beside("k-means", with_numpy, with_kiln, (cloud, middles.astype(np.float32)), rounds)


if __name__ == "__main__":
    main()
