"""k-means as a numpy user writes it, and its twin on a server: 100,000 points, 16 centres, 20 rounds.

    ./dev run & python examples/k_means.py      # KILN_ADDR: another server than localhost:7437
"""
import kiln
import numpy as np
from numpy.typing import NDArray
import twins


Points = NDArray[np.float32]


def with_numpy(points: Points, centres: Points) -> Points:
    for _ in range(20):
        distance = (centres**2).sum(1) - 2 * points @ centres.T
        nearest = np.eye(len(centres), dtype=np.float32)[distance.argmin(1)]
        centres = (nearest.T @ points) / np.maximum(nearest.sum(0), 1)[:, None]
    return centres


def with_kiln(points: Points, centres: Points) -> kiln.Array:
    @kiln.jit
    def move(centres: kiln.Array, points: kiln.Array) -> kiln.Array:
        distance = (centres**2).sum(1) - 2 * points @ centres.T
        nearest = (distance.argmin(1)[:, None] == kiln.arange(len(centres))).astype("float32")
        return (nearest.T @ points) / kiln.maximum(nearest.sum(0), 1)[:, None]

    cloud, middles = kiln.array(points), kiln.array(centres)
    for _ in range(20):
        middles = move(middles, cloud)
    return middles


def main(points: int = 100_000, rounds: int = 3) -> twins.Figures:
    random = np.random.default_rng(0)
    middles = 8 * random.standard_normal((16, 8))
    cloud = (middles[random.integers(0, 16, points)] + random.standard_normal((points, 8))).astype(np.float32)
    return twins.beside("k-means", with_numpy, with_kiln, (cloud, middles.astype(np.float32)), rounds)


if __name__ == "__main__":
    main()
