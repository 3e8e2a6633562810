"""Streams of requests for a model at servers that are silent, late or wrong, which no kilnd is, and what they leave."""

import asyncio
import pathlib
import sys
import threading
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import support  # noqa: F401: finds the package
import fake_server
import numpy as np

import kiln
import kiln.aio
from kiln.inference import grpc_service_pb2 as pb
from kiln.served import line, streams

WAIT = 60  # seconds; far more than it takes
X = {"x": np.float32([1, 2])}


def answer(id, value=0):
    output = pb.ModelInferResponse.InferOutputTensor(name="y", datatype="INT32", shape=[])
    inner = pb.ModelInferResponse(id=id, outputs=[output], raw_output_contents=[np.int32(value).tobytes()])
    return pb.ModelStreamInferResponse(infer_response=inner)


def failure(text, id=""):
    return pb.ModelStreamInferResponse(error_message=text, infer_response=pb.ModelInferResponse(id=id))


class FakeModels(fake_server.FakeServer):
    """Answers a stream with what `says`, a function, gives of the iterator of its requests; `silent` never ends."""

    def __init__(self, says):
        self.ended = threading.Event()  # the client has ended a stream
        super().__init__({"DeviceService.List": lambda request, context: fake_server.listing(),
                          "GRPCInferenceService.ModelMetadata": self._metadata,
                          "GRPCInferenceService.ModelStreamInfer": self._stream})  # fmt: skip
        self._says = says

    def _metadata(self, request, context):
        row = pb.ModelMetadataResponse.TensorMetadata(name="x", datatype="FP32", shape=[-1])
        return pb.ModelMetadataResponse(name=request.name, versions=["1"], inputs=[row])

    def _stream(self, requests, context):
        context.add_callback(self.ended.set)
        yield from self._says(requests)
        if self._says is silent:
            self.ended.wait(WAIT)


def silent(requests):
    for _ in requests:
        pass
    yield from ()


def in_turn(requests):
    for count, request in enumerate(requests):
        yield answer(request.id, count)


class Blocking(unittest.TestCase):
    def stream(self, says, **how):
        server = FakeModels(says)
        self.addCleanup(lambda: server.server.stop(None).wait())
        client = kiln.connect(server.address, **how)
        self.addCleanup(client.close)
        stream = client.model("m").stream()
        self.addCleanup(stream.cancel)
        return stream

    def values(self, answers):
        return [each.result(WAIT)["y"].item() for each in answers]

    def test_a_silent_server_is_waited_for_no_longer_than_each_request_says(self):
        stream = self.stream(silent)
        one, two = stream.infer(X, timeout=0.05), stream.infer(X, timeout=0.05)
        for each in (one, two):
            self.assertIsInstance(each.exception(WAIT), kiln.DeadlineExceeded)
        stream.close()  # nothing is left that anybody waits for
        with self.assertRaisesRegex(kiln.FailedPrecondition, "closed"):
            stream.infer(X)

    def test_the_clients_timeout_is_each_requests(self):
        stream = self.stream(silent, timeout=0.05)
        self.assertIsInstance(stream.infer(X).exception(WAIT), kiln.DeadlineExceeded)

    def test_a_request_waits_for_those_before_it_without_a_deadline_of_its_own(self):
        go_on = threading.Event()

        def first_is_late(requests):
            first, second = next(requests), next(requests)
            go_on.wait(WAIT)
            yield answer(first.id, 1)
            yield answer(second.id, 2)
            yield from in_turn(requests)

        stream = self.stream(first_is_late)
        late, other = stream.infer(X, timeout=0.05), stream.infer(X)
        self.assertIsInstance(late.exception(WAIT), kiln.DeadlineExceeded)
        self.assertFalse(other.done())
        go_on.set()
        self.assertEqual(self.values([other, stream.infer(X)]), [2, 0])  # the late answer is nobody's

    def test_room_is_waited_for_no_longer_than_the_timeout(self):
        stream = self.stream(silent)
        for _ in range(streams.MOST):
            stream.infer(X)
        with self.assertRaisesRegex(kiln.DeadlineExceeded, "64 requests"):
            stream.infer(X, timeout=0.05)

    def test_what_an_answers_callback_sends_waits_for_no_room(self):
        go_on = threading.Event()

        def gated(requests):
            go_on.wait(WAIT)
            yield from in_turn(requests)

        stream, more, sent = self.stream(gated), [], threading.Event()

        def send(_):
            more.extend(stream.infer(X) for _ in range(3))
            sent.set()

        answers = [stream.infer(X) for _ in range(streams.MOST)]
        answers[0].add_done_callback(send)
        go_on.set()
        self.assertTrue(sent.wait(WAIT))
        self.assertEqual(self.values(answers + more), list(range(streams.MOST + 3)))

    def test_what_fails_in_a_request_that_is_no_error_of_kilns_is_its_own(self):
        with mock.patch.object(line, "streamed", side_effect=[MemoryError, {"y": np.int32(5)}]):
            stream = self.stream(in_turn)
            one, two = stream.infer(X), stream.infer(X)
            self.assertIsInstance(one.exception(WAIT), MemoryError)
            self.assertEqual(self.values([two]), [5])

    def test_a_reader_that_ends_leaves_nobody_waiting(self):
        go_on = threading.Event()

        def gated(requests):
            go_on.wait(WAIT)
            yield from in_turn(requests)

        def leave(_):
            raise SystemExit

        stream = self.stream(gated)
        answers = [stream.infer(X) for _ in range(3)]
        answers[0].add_done_callback(leave)
        answers[1].add_done_callback(leave)
        go_on.set()
        self.assertEqual(answers[0].result(WAIT)["y"].item(), 0)
        for each in answers[1:]:
            self.assertRegex(str(each.exception(WAIT)), "SystemExit")
            self.assertIsInstance(each.exception(), kiln.Internal)
        with self.assertRaises(kiln.Internal):
            stream.infer(X)

    def test_an_answer_that_nobody_asked_for_is_internal(self):
        for wrong in (answer("nobody's"), failure("wrong", "nobody's")):
            go_on = threading.Event()

            def says(requests, wrong=wrong, go_on=go_on):
                yield answer(next(requests).id)
                go_on.wait(WAIT)
                yield wrong
                yield from silent(requests)

            stream = self.stream(says)
            self.assertEqual(self.values([stream.infer(X)]), [0])
            go_on.set()
            stream._reader.join(WAIT)
            with self.assertRaisesRegex(kiln.Internal, "nobody's"):
                stream.infer(X)

    def test_an_answer_that_comes_twice_is_nobody_elses(self):
        def says(requests):
            for count, request in enumerate(requests):
                for _ in range(2):
                    yield failure("the first", request.id) if count == 0 else answer(request.id, count)

        stream = self.stream(says)
        answers = [stream.infer(X) for _ in range(3)]
        self.assertRegex(str(answers[0].exception(WAIT)), "the first")
        self.assertEqual(self.values(answers[1:]), [1, 2])
        stream.close()

    def test_a_failure_without_an_id_is_of_the_first_that_waits(self):
        def says(requests):
            next(requests)
            yield failure("the first")
            yield from in_turn(requests)

        stream = self.stream(says)
        answers = [stream.infer(X) for _ in range(2)]
        self.assertRegex(str(answers[0].exception(WAIT)), "the first")
        self.assertEqual(self.values(answers[1:]), [0])


class Awaited(unittest.TestCase):
    def run_with(self, says, main):
        server = FakeModels(says)
        self.addCleanup(lambda: server.server.stop(None).wait())

        async def whole():
            async with await kiln.aio.connect(server.address) as client:
                await main((await client.model("m")).stream())

        asyncio.run(asyncio.wait_for(whole(), WAIT))
        return server

    def test_who_gives_up_closing_leaves_the_stream_as_it_was(self):
        go_on = threading.Event()

        def gated(requests):
            go_on.wait(WAIT)
            yield from in_turn(requests)

        async def main(stream):
            asked = asyncio.ensure_future(stream.infer(X))
            await asyncio.sleep(0)
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(stream.close(), 0.05)
            self.assertFalse(asked.done())
            go_on.set()
            await stream.close()
            self.assertEqual((await asked)["y"].item(), 0)

        self.run_with(gated, main)

    def test_who_gives_up_leaving_the_stream_ends_it(self):
        async def main(stream):
            async def within():
                async with stream:
                    asked.append(asyncio.ensure_future(stream.infer(X)))
                    await asyncio.sleep(0)

            asked = []
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(within(), 0.05)
            with self.assertRaises(kiln.Cancelled):
                await asked[0]

        self.assertTrue(self.run_with(silent, main).ended.wait(WAIT))

    def test_a_silent_server_is_waited_for_no_longer_than_each_request_says(self):
        async def main(stream):
            asked = [stream.infer(X, timeout=0.05), stream.infer(X, timeout=0.05)]
            for found in await asyncio.gather(*asked, return_exceptions=True):
                self.assertIsInstance(found, kiln.DeadlineExceeded)
            await stream.close()

        self.run_with(silent, main)

    def test_a_stream_that_the_server_ends_leaves_no_task(self):
        async def main(stream):
            self.assertEqual((await stream.infer(X))["y"].item(), 0)
            before = asyncio.all_tasks()
            await asyncio.wait({stream._reader})
            with self.assertRaisesRegex(kiln.Internal, "ended the stream"):
                await stream.infer(X)
            writers = {task for task in before if "_consume_request_iterator" in repr(task)}
            if writers:  # by its name in grpc.aio; it ends
                await asyncio.wait(writers)

        self.run_with(lambda requests: (answer(next(requests).id) for _ in range(1)), main)

    def test_what_no_answer_should_raise_leaves_nobody_waiting(self):
        async def main(stream):
            with mock.patch.object(line, "streamed", side_effect=[MemoryError, {"y": np.int32(5)}]):
                one, two = await asyncio.gather(stream.infer(X), stream.infer(X), return_exceptions=True)
            self.assertIsInstance(one, MemoryError)
            self.assertEqual(two["y"].item(), 5)
            with mock.patch.object(stream._connection, "count", side_effect=ZeroDivisionError):
                one, two = await asyncio.gather(stream.infer(X), stream.infer(X), return_exceptions=True)
            self.assertEqual(one["y"].item(), 2)
            self.assertRegex(str(two), "ZeroDivisionError")

        self.run_with(in_turn, main)

    def test_an_answer_that_nobody_asked_for_is_internal_and_one_that_comes_twice_nobody_elses(self):
        def says(requests):
            first = next(requests)
            yield failure("the first", first.id)
            yield failure("the first", first.id)
            yield answer(next(requests).id, 7)
            next(requests)
            yield answer("nobody's")
            yield from silent(requests)

        async def main(stream):
            with self.assertRaisesRegex(kiln.KilnError, "the first"):
                await stream.infer(X)
            self.assertEqual((await stream.infer(X))["y"].item(), 7)
            with self.assertRaisesRegex(kiln.Internal, "nobody's"):
                await stream.infer(X)

        self.run_with(says, main)


if __name__ == "__main__":
    unittest.main()
