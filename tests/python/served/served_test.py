"""Models that a server serves, by kiln.served: what the cases of tests/clients do not ask, and kiln.aio's side."""

import asyncio
import pathlib
import pickle
import sys
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import support_served
import numpy as np

import kiln
import kiln.aio
from kiln.served import streams

WAIT = 60  # seconds; far more than it takes
SLOW = {name: np.zeros([4096 if at == axis else 1 for at in range(3)], np.float32) for axis, name in enumerate("abc")}


def row(*values):
    return {"x": np.float32([values])}


class Served(support_served.ServerTest):
    def test_what_a_model_says_of_itself(self):
        model = self.client.model("two")
        self.assertEqual([(t.name, t.dtype, t.shape) for t in model.inputs], [("x", "float32", (-1, 3)), ("by", "float32", ())])
        self.assertEqual(repr(model), "<Model two: (x float32[-1, 3], by float32[]) -> (scaled float32[-1, 3], total float32[])>")
        self.assertIn("plus:1:", repr(self.client.model("plus", "1")))
        with self.assertRaisesRegex(TypeError, "connect there"):
            pickle.dumps(model)

    def test_arrays_on_a_device_and_lists_go_in(self):
        model = self.client.model("affine")
        for x in ([[1, 2, 3, 4]], self.client.buffer(np.float32([[1, 2, 3, 4]])).numpy(), kiln.array(np.float32([[1, 2, 3, 4]]))):
            self.assertEqual(model.infer({"x": x})["y"].tolist(), [[3, 5, 7, 9]])

    def test_traffic_counts_models(self):
        with kiln.connect(self.server.address) as client:
            model = client.model("affine")
            model.infer(row(1, 2, 3, 4))
            with model.stream() as stream:
                stream.infer(row(1, 2, 3, 4))
            for name in ("ModelInfer", "ModelStreamInfer"):
                seen = client.traffic["GRPCInferenceService." + name]
                self.assertEqual(seen.calls, 1)
                self.assertGreater(seen.sent_bytes, 16)
                self.assertGreater(seen.received_bytes, 16)

    def test_a_message_that_is_too_large_is_refused_and_the_client_goes_on(self):
        server = support_served.serve("--graph_limits_max_bytes=1048576")  # messages of 66 MiB
        self.addCleanup(server.stop)
        with kiln.connect(server.address) as client:
            model = client.model("affine")
            with self.assertRaises(kiln.ResourceExhausted) as caught:
                model.infer({"x": np.zeros((4_500_000, 4), np.float32)})
            self.assertIn("larger than max", caught.exception.message)
            self.assertEqual(model.infer(row(1, 2, 3, 4))["y"].tolist(), [[3, 5, 7, 9]])

    def test_more_is_on_its_way_than_may_be_without_an_answer(self):
        with self.client.model("plus").stream() as stream:
            answers = [stream.infer({"x": np.int32([n])}) for n in range(5 * streams.MOST)]
            self.assertEqual([answer.result(WAIT)["y"].item() for answer in answers], [n + 7 for n in range(5 * streams.MOST)])

    def test_a_stream_is_of_many_threads(self):
        found = {}

        def ask(stream, n):
            found[n] = stream.infer({"x": np.int32([n])}).result(WAIT)["y"].item()

        with self.client.model("plus").stream() as stream:
            threads = [threading.Thread(target=ask, args=(stream, n)) for n in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(found, {n: n + 7 for n in range(20)})

    def test_a_stream_that_is_closed_or_cancelled_says_so(self):
        model = self.client.model("slow")
        stream = model.stream()
        answer = stream.infer(SLOW)
        stream.cancel()
        with self.assertRaises(kiln.Cancelled):
            answer.result(WAIT)
        stream.close()
        with self.assertRaisesRegex(kiln.FailedPrecondition, "closed"):
            stream.infer(SLOW)
        with self.assertRaises(ZeroDivisionError), model.stream() as stream:
            answer = stream.infer(SLOW)
            raise ZeroDivisionError
        self.assertIsInstance(answer.exception(WAIT), kiln.Cancelled)

    def test_a_streams_request_has_a_deadline_of_its_own(self):
        with self.client.model("slow").stream() as stream:
            late, other = stream.infer(SLOW, timeout=0.05), stream.infer({"a": [1]})
            self.assertRegex(str(late.exception(WAIT)), "deadline")
            self.assertRegex(str(other.exception(WAIT)), '"a"')
        with self.client.model("slow").stream(timeout=0.2) as stream:
            self.assertIsInstance(stream.infer(SLOW).exception(WAIT), kiln.DeadlineExceeded)

    def test_a_server_that_ends_fails_what_is_on_its_way(self):
        server = support_served.serve()
        self.addCleanup(server.stop)
        with kiln.connect(server.address) as client:
            stream = client.model("slow").stream()
            answer = stream.infer(SLOW)
            server.kill()
            self.assertIsInstance(answer.exception(WAIT), kiln.Unavailable)
            with self.assertRaises(kiln.Unavailable):
                stream.infer(SLOW)
            stream.close()

    def test_a_client_that_is_closed(self):
        client = kiln.connect(self.server.address)
        model = client.model("affine")
        client.close()
        for call in (model.ready, model.stream, lambda: model.infer(row(1, 2, 3, 4))):
            with self.assertRaisesRegex(kiln.FailedPrecondition, "closed"):
                call()


class Awaited(support_served.ServerTest):
    def run_with(self, main):
        async def whole():
            async with await kiln.aio.connect(self.server.address) as client:
                return await main(client)

        return asyncio.run(whole())

    def test_it_is_the_same_awaited(self):
        async def main(client):
            self.assertIn(("plus", "7"), [(row.name, row.version) for row in await client.models()])
            model = await client.model("affine")
            self.assertTrue(await model.ready())
            self.assertEqual((await model.infer(row(1, 2, 3, 4), ["y"]))["y"].tolist(), [[3, 5, 7, 9]])
            with self.assertRaises(kiln.InvalidArgument) as caught:
                await model.infer({"z": [1]})
            self.assertEqual(caught.exception.field, "z")
            with self.assertRaises(kiln.NotFound):
                await client.model("nobody")
            running, sums = await client.model("running"), []
            for step in range(3):
                outputs = await running.infer(row(1, step), sequence="a", start=step == 0, end=step == 2)
                sums.append(outputs["y"][0].tolist())
            self.assertEqual(sums, [[1, 0], [2, 1], [3, 3]])

        self.run_with(main)

    def test_a_stream(self):
        async def main(client):
            model = await client.model("plus")
            async with model.stream() as stream:
                asked = [stream.infer({"x": np.int32([n])} if n != 3 else {"nobody": [1]}) for n in range(100)]
                answers = await asyncio.gather(*asked, return_exceptions=True)
            self.assertIsInstance(answers.pop(3), kiln.KilnError)
            self.assertEqual([answer["y"].item() for answer in answers], [n + 7 for n in range(100) if n != 3])
            with self.assertRaisesRegex(kiln.FailedPrecondition, "closed"):
                await stream.infer({"x": np.int32([1])})

        self.run_with(main)

    def test_who_gives_an_answer_up_leaves_the_stream_to_others(self):
        async def main(client):
            async with (await client.model("slow")).stream() as stream:
                one = asyncio.ensure_future(stream.infer(SLOW, timeout=1))
                other = asyncio.ensure_future(stream.infer({"a": [1]}))
                await asyncio.sleep(0)
                one.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await one
                with self.assertRaisesRegex(kiln.KilnError, '"a"'):
                    await other
            stream = (await client.model("slow")).stream()
            one = asyncio.ensure_future(stream.infer(SLOW))
            await asyncio.sleep(0)
            await stream.cancel()
            with self.assertRaises(kiln.Cancelled):
                await one

        self.run_with(main)

    def test_a_task_that_is_cancelled_ends_its_call(self):
        async def main(client):
            model = await client.model("slow")
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(model.infer(SLOW), 0.1)
            with self.assertRaises(kiln.DeadlineExceeded):
                await model.infer(SLOW, timeout=0.1)
            self.assertEqual((await (await client.model("affine")).infer(row(1, 2, 3, 4)))["y"].tolist(), [[3, 5, 7, 9]])

        self.run_with(main)


if __name__ == "__main__":
    unittest.main()
