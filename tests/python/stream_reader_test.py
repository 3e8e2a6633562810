"""What the thread that reads a stream does with what comes, and that it never leaves anyone waiting."""

import asyncio
import pathlib
import queue
import sys
import threading
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import grpc

import kiln
from kiln import commands, errors, session, stream as streams
from kiln.transport import aio_connection, connection
from kiln.pipeline import Pipeline, Pipelined
from kiln.v1 import error_pb2, kernel_service_pb2
from kiln.waiting import blocking


class Call:
    """Gives the answers that a test puts into it; ends at None, or raises."""

    def __init__(self):
        self.answers = queue.SimpleQueue()

    def __iter__(self):
        return self

    def __next__(self):
        answer = self.answers.get()
        if answer is None:
            raise StopIteration
        if isinstance(answer, Exception):
            raise answer
        return answer

    def cancel(self):
        self.answers.put(None)


def done(command):
    return kernel_service_pb2.SubmitResponse(command_id=command, done=kernel_service_pb2.CommandDone())


def failed(command, code=error_pb2.BAD_ARGUMENT, cause=0):
    status = errors._Status(code=3, message="no")
    status.details.add(type_url="type.googleapis.com/kiln.v1.ErrorDetail",
                       value=error_pb2.ErrorDetail(code=code).SerializeToString())  # fmt: skip
    answer = kernel_service_pb2.SubmitResponse(command_id=command)
    answer.failed.status, answer.failed.cause_command_id = status.SerializeToString(), cause
    return answer


class Reader(unittest.TestCase):
    def setUp(self):
        self.calls, self.replaced, self.down = [], [], None
        self.session = types.SimpleNamespace(metadata=((session.HEADER, b"t"),), granted=60, heed=lambda error: error,
                                             replace=self.replace, under=lambda token: ((session.HEADER, token),))  # fmt: skip
        for patch in (mock.patch.object(streams.wire, "stub", lambda *args, **raw: self.begin),
                      mock.patch.object(streams, "from_rpc", lambda error, target: error.error),
                      mock.patch.object(streams.Stream, "_wait_for_server",
                                        lambda stream, _: "" if stream._closing.is_set() else None),
                      mock.patch.object(threading, "excepthook", lambda args: None)):  # fmt: skip
            patch.start()
            self.addCleanup(patch.stop)
        self.pipeline = Pipeline(None, self.session, "there")
        self.addCleanup(self.pipeline.close, 0)

    def begin(self, requests, metadata):
        if self.down:
            raise self.down
        self.calls.append(Call())
        return self.calls[-1]

    def replace(self, token):
        self.replaced.append((token, threading.current_thread().name))
        raise grpc.RpcError("not now")

    def ask(self):
        return self.pipeline.ask(commands.FENCE)

    def answer(self, *answers):
        for answer in answers:
            self.calls[-1].answers.put(answer)

    def expire(self):
        failure = grpc.RpcError()
        failure.error = kiln.NotFound("gone", code="SESSION_EXPIRED", detail=error_pb2.ErrorDetail(field=session.HEADER))
        self.answer(failure)

    def test_a_fault_of_the_reader_ends_the_stream(self):
        waiting = self.ask()
        self.answer(RuntimeError("gRPC is broken"))
        with self.assertRaises(kiln.errors.Internal):
            waiting.result(60)

    def test_answers_that_cannot_be_end_the_stream(self):
        for lies, text in (([done(99)], "the last is 2"), ([failed(99)], "the last is 2"), ([done(2)], "has not answered 1")):
            with self.subTest(text):
                self.pipeline = Pipeline(None, self.session, "there")
                self.addCleanup(self.pipeline.close, 0)
                waiting = [self.ask(), self.ask()]
                self.answer(*lies)
                for answer in waiting:
                    self.assertIsInstance(answer.exception(60), kiln.errors.Internal)
                    self.assertIn(text, str(answer.exception()))

    def test_a_channel_that_closes_ends_the_stream(self):
        waiting = self.ask()
        self.down = ValueError("Cannot invoke RPC on closed channel!")
        self.answer(None)
        with self.assertRaises(kiln.errors.ConnectionLost):
            waiting.result(60)

    def test_answers_that_are_lost(self):
        first, second = self.ask(), self.ask()
        stream = self.pipeline._stream

        class Guarded(dict):
            def __iter__(self):
                assert stream._lock.locked()
                return super().__iter__()

        stream._asked = Guarded(stream._asked)
        lost = kernel_service_pb2.SubmitResponse(welcome=kernel_service_pb2.SubmitWelcome(answers_lost=1))
        self.answer(lost, done(2))
        with self.assertRaises(kiln.errors.ConnectionLost):
            first.result(60)
        self.assertEqual(second.result(60).command_id, 2)

    def test_it_is_not_idle_before_a_failure_is_known(self):
        self.pipeline.send(commands.FENCE)
        stream, found = self.pipeline._stream, queue.SimpleQueue()
        confirm = stream._confirm
        stream._confirm = lambda command: found.put((stream.idle, len(stream._failures), confirm(command), stream.idle))
        self.answer(failed(1, error_pb2.NEED_GRAPH))
        self.assertEqual(found.get(timeout=60), (False, 1, None, False))

    def test_a_failure_is_told_once(self):
        self.pipeline.send(commands.FENCE)
        self.pipeline.send(commands.FENCE)
        self.pipeline.send(commands.FENCE)
        waiting = self.ask()
        self.answer(failed(1), failed(2, cause=1), failed(3), failed(4, cause=1))
        self.assertEqual(waiting.exception(60).command, 1)
        self.assertFalse(waiting.exception().own)
        self.assertEqual(self.pipeline.take_failure().command, 3)
        self.assertIsNone(self.pipeline.take_failure())

    def test_an_expired_session_is_replaced_by_the_reader(self):
        waiting = self.ask()
        self.expire()
        self.assertEqual(waiting.exception(60).code, "SESSION_EXPIRED")
        self.assertEqual(self.replaced, [(b"t", "kiln-stream")])

    def test_numbers_go_on_under_the_same_session(self):
        waiting = self.ask()
        self.expire()
        waiting.exception(60)
        again = self.ask()
        self.answer(done(2))
        self.assertEqual(again.result(60).command_id, 2)
        self.session.metadata = ((session.HEADER, b"u"),)
        self.expire()
        self.assertTrue(support.eventually(lambda: self.pipeline._stream.ended))
        fresh = self.ask()
        self.answer(done(1))
        self.assertEqual(fresh.result(60).command_id, 1)

    def test_what_was_under_way_with_a_session_is_told_once_but_for_frees(self):
        free = commands.same("BufferService.Free", kernel_service_pb2.FreeCommand(handle=[1]))
        for sent, told in ((commands.FENCE, True), (free, False)):
            self.pipeline.send(sent)
            self.expire()
            self.assertTrue(support.eventually(lambda: self.pipeline._stream.ended))
            if told:
                with self.assertRaises(kiln.NotFound):
                    self.pipeline.send(commands.FENCE)
            waiting = self.ask()
            self.answer(done(self.pipeline._stream.last))
            waiting.result(60)

    def waiter(self, timeout):
        return types.SimpleNamespace(timeout=timeout, _place=lambda error: error)

    def test_a_deadline_that_an_answer_tells_of_is_the_servers(self):
        async def awaited(timeout, answer):
            return await aio_connection.Connection.answered(self.waiter(timeout), answer)

        def waited(timeout, answer):
            return connection.Connection.answered(self.waiter(timeout), answer)

        for wait in (waited, lambda *arguments: asyncio.run(awaited(*arguments))):
            for timeout in (None, 60):
                answer, error = streams.Answer(), kiln.DeadlineExceeded("in the middle", code="DEADLINE_PASSED")
                answer.set_exception(error)
                with self.assertRaises(kiln.DeadlineExceeded) as caught:
                    wait(timeout, answer)
                self.assertIs(caught.exception, error)
            with self.assertRaises(kiln.DeadlineExceeded) as caught:
                wait(0.001, streams.Answer())
            self.assertEqual(caught.exception.code, None)

    def test_a_read_of_another_length(self):
        class Short(Pipelined):
            def _asked(self, name, command):
                yield
                return None, [b"ab", b"c"]

        with self.assertRaises(kiln.errors.Internal):
            blocking(Short()._read_small(1, 0, memoryview(bytearray(4))))


if __name__ == "__main__":
    unittest.main()
