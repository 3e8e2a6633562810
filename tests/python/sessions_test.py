"""A client's session: what it owns ends with it, and nothing else does."""

import asyncio
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import graphs
import grpc
import numpy as np
from fake_server import FakeServer, listing

import kiln
import kiln.aio
from kiln import session
from kiln.v1 import session_service_pb2

X = np.arange(4.0)


class Sessions(support.ServerTest):
    def close_behind(self, client):
        """As if the server had heard nothing of `client` for long."""
        token = client._connection.session.token
        self.client._connection.call("SessionService.Close", session_service_pb2.CloseSessionRequest(token=token))

    def session_of(self, client):
        return client._connection.session

    def test_every_client_has_one(self):
        with kiln.connect(self.server.address) as other:
            tokens = [self.session_of(client).token for client in (self.client, other)]
            self.assertNotEqual(*tokens)
            self.assertTrue(all(len(token) == 16 for token in tokens))
            self.assertIn(session.FEATURE, other.features)

    def test_its_end_takes_what_the_client_made(self):
        before = self.in_use()
        kept = self.client.buffer(np.arange(4.0))
        other = kiln.connect(self.server.address, lease=3600)
        program = other.compile(graphs.elementwise("ADD"))
        x = other.buffer(np.ones(4, np.float32))
        made = [x, x[1:], x.copy(), program(x, x, out="buffers")]
        other.fence()
        with_kept = self.in_use()
        self.assertEqual(with_kept[1], before[1] + 4)  # a view has no memory of its own
        self.close_behind(other)
        for buffer in made:
            with self.assertRaises(kiln.NotFound):
                buffer.numpy()
        self.assertEqual(kept.numpy().tolist(), [0, 1, 2, 3])
        kept.free()
        self.settle(before)
        other.close()

    def test_a_lease_is_renewed_for_as_long_as_the_client_lives(self):
        with kiln.connect(self.server.address, lease=2) as client:
            buffer = client.buffer(np.arange(4.0))
            token = self.session_of(client).token
            renewed = []
            call = self.session_of(client)._call
            self.session_of(client)._call = lambda name, *rest: (call(name, *rest), renewed.append(name))[0]
            # More than one lease lasts.
            self.assertTrue(support.eventually(lambda: len(renewed) >= 4))
            self.assertEqual(set(renewed), {"SessionService.Renew"})
            self.assertEqual(self.session_of(client).token, token)
            self.assertEqual(buffer.numpy().tolist(), [0, 1, 2, 3])

    def test_a_client_whose_session_was_lost_gets_a_new_one(self):
        before = self.in_use()
        with kiln.connect(self.server.address, lease=1) as client:
            buffer = client.buffer(np.arange(4.0))
            client.fence()
            token = self.session_of(client).token
            self.close_behind(client)
            self.assertTrue(support.eventually(lambda: self.session_of(client).token != token))
            with self.assertRaises(kiln.NotFound) as caught:
                buffer.numpy()
            self.assertEqual(caught.exception.code, "UNKNOWN_HANDLE")
            # Its handle is not given back with the others: of a Free with an unknown one nothing is freed.
            other = client.buffer(np.ones(2))
            self.assertEqual(other.numpy().tolist(), [1, 1])
            del other, buffer
            client.flush_frees()
            self.settle(before)
        self.settle(before)

    def test_a_call_that_finds_its_session_gone_hastens_the_next(self):
        """Long before the lease of an hour is to be renewed."""
        for find_out in (lambda buffer: buffer.numpy(), lambda buffer: buffer.fill(1), lambda buffer: buffer.write(X),
                         lambda buffer: buffer.free()):  # fmt: skip
            with kiln.connect(self.server.address, lease=3600, stream=False) as client:
                buffer, token = client.buffer(X), self.session_of(client).token
                self.close_behind(client)
                with self.assertRaises(kiln.NotFound) as caught:
                    find_out(buffer)
                self.assertEqual(caught.exception.field, session.HEADER)
                self.assertTrue(support.eventually(lambda: self.session_of(client).token != token))
                self.assertEqual(client.buffer(X).numpy().tolist(), X.tolist())

    def test_without_a_session(self):
        before = self.in_use()
        with kiln.connect(self.server.address, lease=0) as client:
            self.assertIsNone(self.session_of(client).token)
            buffer = client.buffer(np.ones(2))
            self.assertEqual(buffer.numpy().tolist(), [1, 1])
        self.settle(before)

    def test_a_server_that_has_none(self):
        def features(*names):
            answer = listing()
            answer.features.extend(names)
            return lambda request, context: answer

        def refuse(request, context):
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "later")

        for answers in ({"DeviceService.List": features()},
                        {"DeviceService.List": features(session.FEATURE), "SessionService.Open": refuse}):  # fmt: skip
            server = FakeServer(answers)
            self.addCleanup(server.server.stop, None)
            with kiln.connect(server.address) as client:
                self.assertIsNone(self.session_of(client).token)

    def test_awaited(self):
        async def main():
            async with await kiln.aio.connect(self.server.address, lease=1) as client:
                token = self.session_of(client).token
                self.assertEqual(len(token), 16)
                buffer = await client.buffer(np.arange(4.0))
                self.close_behind(client)
                with self.assertRaises(kiln.NotFound):
                    await buffer.numpy()
                # The thread that renews the lease does not need the loop.
                self.assertTrue(support.eventually(lambda: self.session_of(client).token != token))
                return (await client.buffer(np.ones(2))).handle

        before = self.in_use()
        asyncio.run(main())
        self.settle(before)

    def test_awaited_calls_hasten_it_too(self):
        async def main():
            for find_out in (lambda buffer: buffer.numpy(), lambda buffer: buffer.fill(1),
                             lambda buffer: buffer.write(X)):  # fmt: skip
                async with await kiln.aio.connect(self.server.address, lease=3600, stream=False) as client:
                    buffer, token = await client.buffer(X), self.session_of(client).token
                    self.close_behind(client)
                    with self.assertRaises(kiln.NotFound):
                        await find_out(buffer)
                    self.assertTrue(support.eventually(lambda: self.session_of(client).token != token))
                    self.assertEqual((await (await client.buffer(X)).numpy()).tolist(), X.tolist())

        asyncio.run(main())


class Failed(grpc.RpcError):
    def __init__(self, status):
        self.code = lambda: status


LOST = Failed(grpc.StatusCode.UNAVAILABLE)
FORGOTTEN = Failed(grpc.StatusCode.NOT_FOUND)


class Renewal(unittest.TestCase):
    """What the thread that renews does, call by call: `answers` are given or raised, one after the other."""

    def keep(self, *answers):
        """The calls it makes until the channel is closed, as (name, timeout)."""
        calls, left = [], iter(answers)

        def call(name, request, timeout):
            calls.append((name.split(".")[1], timeout))
            answer = next(left, ValueError("the channel is closed"))
            if isinstance(answer, Exception):
                raise answer
            return answer

        mine = session.Session(None, tuple, lost=lambda: calls.append("lost"))
        mine.token = b"first"
        mine._call = call
        mine._keep(lease=9, granted=0.03)
        return calls

    def test_a_call_that_is_lost_leaves_time_for_another(self):
        self.assertEqual(self.keep(LOST, session_service_pb2.RenewSessionResponse()),
                         [("Renew", 0.01)] * 3)  # fmt: skip

    def test_the_channel_is_closed_while_a_new_session_is_opened(self):
        self.assertEqual(self.keep(FORGOTTEN), [("Renew", 0.01), ("Open", 0.01)])

    def test_a_new_session_has_its_own_lease(self):
        opened = session_service_pb2.OpenSessionResponse(token=b"second", lease_seconds=1)
        self.assertEqual(self.keep(FORGOTTEN, opened), [("Renew", 0.01), ("Open", 0.01), "lost", ("Renew", 1 / 3)])


if __name__ == "__main__":
    unittest.main()
