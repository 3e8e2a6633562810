"""Which failed calls a client makes again: by the server's word, within a budget, and nothing that may have begun."""

import asyncio
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import grpc

import support  # finds the package
import fake_server
import kiln
import kiln.aio
from kiln import retries
from kiln.errors import ConnectionLost, KilnError, NoServer, ResourceExhausted, Unavailable
from kiln.v1 import error_pb2

EXECUTE, COMPILE = "KernelService.Execute", "KernelService.Compile"


def refusal(milliseconds, code=error_pb2.QUOTA_EXCEEDED, kind=ResourceExhausted):
    return kind("no", detail=error_pb2.ErrorDetail(code=code, retry_after_ms=milliseconds))


class RetriesTest(unittest.TestCase):
    def setUp(self):
        self.retries = retries.Retries(seed=1)

    def test_a_refusal_with_a_time_is_waited_for_a_little_longer(self):
        self.retries._budget = 1000
        waits = [self.retries.wait(EXECUTE, refusal(100), 1) for _ in range(100)]
        self.assertGreaterEqual(min(waits), 0.1)
        self.assertLessEqual(max(waits), 0.15)
        self.assertGreater(len(set(waits)), 90)

    def test_what_waiting_does_not_help_is_told_at_once(self):
        for error in (refusal(0), refusal(60_000), refusal(100, error_pb2.COMPILER_FAULT, KilnError),
                      kiln.DeadlineExceeded("late"), ConnectionLost("gone")):  # fmt: skip
            with self.subTest(error):
                self.assertIsNone(self.retries.wait(EXECUTE, error, 1))

    def test_what_may_have_had_an_effect_is_not_done_again(self):
        lost = ConnectionLost("gone")
        for name in (EXECUTE, "BufferService.Allocate", "BufferService.Free", "KernelService.ReplaySequence"):
            self.assertIsNone(self.retries.wait(name, lost, 1))
        self.assertIsNone(self.retries.wait(EXECUTE, refusal(0, error_pb2.PARTICIPANT_MISSING, Unavailable), 1))
        for name, error in ((COMPILE, lost), (EXECUTE, NoServer("nobody")),
                            (EXECUTE, refusal(0, error_pb2.SHUTTING_DOWN, Unavailable))):  # fmt: skip
            self.assertIsNotNone(self.retries.wait(name, error, 1))

    def test_without_a_time_the_wait_doubles_and_is_anything_below(self):
        for attempt, most in ((1, 0.05), (2, 0.1)):
            self.retries._budget = 1000
            waits = [self.retries.wait(COMPILE, ConnectionLost("gone"), attempt) for _ in range(500)]
            self.assertLessEqual(max(waits), most)
            self.assertGreater(max(waits), 0.9 * most)
            self.assertLess(min(waits), 0.1 * most)

    def test_attempts_and_deadlines_end(self):
        self.assertIsNone(self.retries.wait(EXECUTE, refusal(10), retries.ATTEMPTS))
        self.assertIsNone(self.retries.wait(EXECUTE, refusal(100), 1, left=0.09))
        self.assertIsNotNone(self.retries.wait(EXECUTE, refusal(100), 1, left=0.2))

    def test_of_many_calls_that_fail_a_tenth_is_made_again(self):
        again = 0
        for _ in range(10_000):
            self.retries.earn()
            again += self.retries.wait(EXECUTE, refusal(10), 1) is not None
        self.assertAlmostEqual(again, 1010, delta=2)

    def test_every_idempotent_call_exists(self):
        from kiln.transport import wire

        self.assertLessEqual(retries.IDEMPOTENT, set(wire.METHODS))

    def test_both_clients_come_again_and_give_up(self):
        """The first two calls are refused; with more refusals, the third failure is raised."""
        counts = {"devices": 0, "refusals": 0}

        def answer(request, context):
            counts["devices"] += 1
            if counts["refusals"] > 0:
                counts["refusals"] -= 1
                fake_server.abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "later",
                                  code=error_pb2.QUOTA_EXCEEDED, retry_after_ms=1)  # fmt: skip
            return fake_server.listing()

        server = fake_server.FakeServer({"DeviceService.List": answer})
        self.addCleanup(server.server.stop, None)

        def devices(refusals, call):
            counts["devices"], counts["refusals"] = 0, refusals
            return [row.name for row in call()]

        with kiln.connect(server.address) as client:
            self.assertEqual(devices(2, client.devices), ["CPU:0"])
            self.assertEqual(counts["devices"], 3)
            with self.assertRaises(ResourceExhausted) as caught:
                devices(5, client.devices)
            self.assertEqual((counts["devices"], caught.exception.retry_after), (3, 0.001))

        async def the_same():
            async with await kiln.aio.connect(server.address) as client:
                for refusals, calls in ((2, 3), (5, 3)):
                    counts["devices"], counts["refusals"] = 0, refusals
                    try:
                        self.assertEqual([row.name for row in await client.devices()], ["CPU:0"])
                        self.assertEqual(refusals, 2)
                    except ResourceExhausted:
                        self.assertEqual(refusals, 5)
                    self.assertEqual(counts["devices"], calls)

        counts["refusals"] = 0
        asyncio.run(the_same())


if __name__ == "__main__":
    unittest.main()
