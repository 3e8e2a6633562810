"""Runs a function beside its numpy twin, and prints how long each takes and how far they are apart.

    ./dev run & python examples/twins.py      # all four examples that have a twin
"""
import time
from typing import Any, Callable, List, Sequence, Tuple

import kiln
import numpy as np

Function = Callable[..., Any]
Figures = Tuple[float, float, float]  # seconds with numpy, with Kiln, how far they are apart


def best(function: Function, args: Sequence[Any], rounds: int) -> Tuple[Any, float]:
    """Its result, and the least seconds of a call."""
    times, result = [], None
    for _ in range(rounds):
        begin = time.perf_counter()
        result = np.asarray(function(*args))
        times.append(time.perf_counter() - begin)
    return result, min(times)


def beside(name: str, theirs: Function, ours: Function, args: Sequence[Any], rounds: int = 3) -> Figures:
    """How long each takes, and how far they are apart, on the server at KILN_ADDR or localhost:7437."""
    with kiln.connect():
        wanted, before = best(theirs, args, rounds)
        found, after = best(ours, args, rounds)
    apart = float(np.abs(found - wanted).max())
    print("%s: numpy %.1f ms, kiln %.1f ms, apart by %.1e" % (name, 1e3 * before, 1e3 * after, apart))
    return before, after, apart


def main(rounds: int = 3) -> List[Figures]:
    import edges
    import heat
    import k_means
    import logistic_regression

    return [example.main(rounds=rounds) for example in (logistic_regression, k_means, heat, edges)]


if __name__ == "__main__":
    main()
