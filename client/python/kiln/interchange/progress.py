"""Who watches a transfer: progress(bytes done, bytes in all), or update(bytes more).

    with tqdm.tqdm(total=x.nbytes, unit="B", unit_scale=True) as bar:
        x.numpy(progress=bar.update)

A callback that cannot be called with two arguments is told how much has been added since the last time, which is what
tqdm's `update` takes.
"""

from __future__ import annotations

import inspect
from typing import Callable, Optional, Union

# Called as progress(bytes done, bytes in all), first with 0 done.
Done = Callable[[int, int], None]
# Or called with the bytes added since the last call, as tqdm's update is; its result is ignored.
Progress = Union[Done, Callable[[int], object]]


def told(progress: Optional[Progress]) -> Optional[Done]:
    """A callback of either kind as one of two arguments."""
    if progress is None or _takes_two(progress):
        return progress  # type: ignore[return-value]
    before = 0

    def added(done: int, total: int) -> None:
        nonlocal before
        more, before = done - before, done
        if more:
            progress(more)  # type: ignore[call-arg, misc]

    return added


def _takes_two(progress: Progress) -> bool:
    try:
        inspect.signature(progress).bind(0, 0)
    except TypeError:
        return False
    except ValueError:  # a function that Python does not know
        pass
    return True


class Several:
    """One callback for transfers in a row: `each` is a callback for the next one."""

    def __init__(self, progress: Optional[Progress], total: int):
        self._progress, self._total, self._before, self._now = told(progress), total, 0, 0
        if self._progress:
            self._progress(0, total)

    def each(self) -> Optional[Done]:
        if self._progress is None:
            return None
        self._before += self._now
        self._now = 0
        return self._told

    def _told(self, done: int, total: int) -> None:
        if done > self._now:
            self._now = done
            self._progress(self._before + done, self._total)  # type: ignore[misc]
