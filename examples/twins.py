"""Runs a function beside its numpy twin, and prints how long each takes and how far they are apart.

    ./dev run & python examples/twins.py      # all four examples that have a twin

`./dev bench twins` does it on a server of its own, and fails where one is slower than numpy.
"""
import time
from typing import Any, Callable, List, NamedTuple, Sequence, Tuple

import kiln
import numpy as np

Function = Callable[..., Any]


class Figures(NamedTuple):
    """Seconds with numpy and with Kiln, how far the results are apart, and the bytes of the greatest argument."""

    numpy: float
    kiln: float
    apart: float
    nbytes: int


def timed(function: Function, args: Sequence[Any]) -> Tuple[Any, float]:
    """Its result, and the seconds of the call."""
    begin = time.perf_counter()
    result = np.asarray(function(*args))
    return result, time.perf_counter() - begin


def beside(name: str, theirs: Function, ours: Function, args: Sequence[Any], rounds: int = 3) -> Figures:
    """The best of some rounds of each, in turns, on the server at KILN_ADDR or localhost:7437."""
    with kiln.connect():
        wanted, before = timed(theirs, args)
        found, after = timed(ours, args)
        for _ in range(rounds - 1):
            before = min(before, timed(theirs, args)[1])
            after = min(after, timed(ours, args)[1])
    apart = float(np.abs(found - wanted).max())
    print("%s: numpy %.1f ms, kiln %.1f ms, apart by %.1e" % (name, 1e3 * before, 1e3 * after, apart))
    return Figures(before, after, apart, max(np.asarray(one).nbytes for one in args))


def main(rounds: int = 3) -> List[Figures]:
    import edges
    import heat
    import k_means
    import logistic_regression

    return [example.main(rounds=rounds) for example in (logistic_regression, k_means, heat, edges)]


if __name__ == "__main__":
    main()
