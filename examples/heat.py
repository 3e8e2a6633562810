"""The heat equation as a numpy user writes it, and its twin on a server: a plate of 256 x 256, 1,000 steps.

    ./dev run & python examples/heat.py      # KILN_ADDR: another server than localhost:7437

A call does twenty steps: one is little work beside the call.
"""
import kiln
import numpy as np
from numpy.typing import NDArray
import twins


Plate = NDArray[np.float32]


def with_numpy(u: Plate) -> Plate:
    u = u.copy()
    for _ in range(1000):
        beside = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        u[1:-1, 1:-1] += np.float32(0.2) * (beside - 4 * u[1:-1, 1:-1])
    return u


def with_kiln(plate: Plate) -> kiln.Array:
    rate = np.pad(np.full((len(plate) - 2, len(plate) - 2), 0.2, np.float32), 1)  # the border stays as it is

    @kiln.jit
    def twenty_steps(u: kiln.Array) -> kiln.Array:
        for _ in range(20):
            v = kiln.pad(u, 1)
            beside = v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2]
            u = u + rate * (beside - 4 * u)
        return u

    u = kiln.array(plate)
    for _ in range(50):
        u = twenty_steps(u)
    return u


def main(side: int = 256, rounds: int = 3) -> twins.Figures:
    plate = np.zeros((side, side), np.float32)
    plate[side // 3 : 2 * side // 3, side // 3 : 2 * side // 3] = 1
    return twins.beside("heat equation", with_numpy, with_kiln, (plate,), rounds)


if __name__ == "__main__":
    main()
