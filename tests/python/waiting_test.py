"""Steps that are written once run in both clients, with the same values, failures and ends."""

import asyncio
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support  # noqa: F401: finds the package

from kiln.waiting import awaited, blocking


class Calls:
    """call(x) is x + 1, or raises x; `log` has what was called."""

    def __init__(self):
        self.log = []

    def call(self, given):
        self.log.append(given)
        if isinstance(given, BaseException):
            raise given
        return given + 1


class AwaitedCalls(Calls):
    async def call(self, given):
        await asyncio.sleep(0)  # another task's turn
        return super().call(given)


def steps(client, *given):
    """The results of `given`; a LookupError counts as 100. The end is a call of 1000."""
    results = []
    try:
        for one in given:
            try:
                results.append((yield client.call(one)))
            except LookupError:
                results.append((yield client.call(99)))
        return results
    finally:
        yield client.call(1000)


def nested(client):
    first = yield from steps(client, 1)
    return first + (yield from steps(client, 2))


class Waiting(unittest.TestCase):
    def both(self, make):
        """(what both ways of running make(client) give or raise, what they called)."""
        outcomes = []
        for client, run in ((Calls(), blocking), (AwaitedCalls(), lambda steps: asyncio.run(awaited(steps)))):
            try:
                outcome = run(make(client))
            except Exception as failure:
                outcome = failure
            outcomes.append((outcome, client.log))
        self.assertEqual(*outcomes)
        return outcomes[0]

    def test_values_come_back_to_where_they_were_waited_for(self):
        self.assertEqual(self.both(lambda client: steps(client, 1, 5)), ([2, 6], [1, 5, 1000]))
        self.assertEqual(self.both(nested), ([2, 3], [1, 1000, 2, 1000]))

    def test_a_failure_is_raised_where_it_was_waited_for(self):
        missing, wrong = LookupError("missing"), ValueError("wrong")
        self.assertEqual(self.both(lambda client: steps(client, missing, 5)), ([100, 6], [missing, 99, 5, 1000]))
        self.assertEqual(self.both(lambda client: steps(client, 1, wrong, 5)), (wrong, [1, wrong, 1000]))

    def test_a_cancelled_task_takes_its_last_steps(self):
        client = AwaitedCalls()

        async def main():
            task = asyncio.ensure_future(awaited(steps(client, 1, 2, 3)))
            while not client.log:
                await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        self.assertEqual((client.log[0], client.log[-1]), (1, 1000))
        self.assertNotIn(3, client.log)


if __name__ == "__main__":
    unittest.main()
