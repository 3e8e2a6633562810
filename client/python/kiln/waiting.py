"""What both clients do, written once.

    def _copy(self) -> Waits[BufferLike]:
        result = yield self.empty(self.shape)
        yield result.write(data)
        return result

A generator yields where it has to wait. In the blocking client a call has waited when it
returns, and blocking() hands its value straight back; in kiln.aio's it gives an awaitable,
which awaited() awaits. What fails is raised at the yield, so `try` and `finally` stand
round it as they would round an `await`.
"""

from __future__ import annotations

from typing import Any, Generator, TypeVar

T = TypeVar("T")
Waits = Generator[Any, Any, T]


def blocking(steps: Waits[T]) -> T:
    value = None
    try:
        while True:
            value = steps.send(value)
    except StopIteration as end:
        return end.value


async def awaited(steps: Waits[T]) -> T:
    go_on, value = steps.send, None
    try:
        while True:
            awaitable = go_on(value)
            try:
                go_on, value = steps.send, await awaitable
            except BaseException as failure:  # a cancelled task's among them
                go_on, value = steps.throw, failure
    except StopIteration as end:
        return end.value
