"""Requests for models as a stream, by Triton's own client."""

import pathlib
import queue
import sys
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "python"), str(HERE)]

import numpy as np
import serving_models as models
import support
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc as pb_grpc

WAIT = 60  # seconds; far more than it takes


def given(array):
    made = triton.InferInput("x", list(array.shape), "FP32")
    made.set_data_from_numpy(array)
    return made


def doubled(values):
    return pb.ModelInferRequest(
        model_name="scale", id=str(values[0]), raw_input_contents=[np.float32(values).tobytes()],
        inputs=[pb.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[len(values)])])  # fmt: skip


class Stream(unittest.TestCase):
    def setUp(self):
        self.folder = models.Folder(self)
        self.folder.put("scale", models.scale(2))
        self.server = support.Server("--models=%s" % self.folder.path, "--model_sizes=*=1:100000")
        self.addCleanup(self.server.stop)
        self.client = triton.InferenceServerClient(self.server.address)
        self.addCleanup(self.client.close)
        self.assertTrue(support.eventually(self.client.is_server_ready))

    def raw(self, requests):
        channel = triton._client.grpc.insecure_channel(self.server.address)
        self.addCleanup(channel.close)
        return pb_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(requests)

    def test_answers_come_in_the_order_of_requests(self):
        answers = queue.Queue()
        self.client.start_stream(callback=lambda result, error: answers.put((result, error)))
        for i in range(30):
            size = 100000 if i % 7 == 3 else 1 + i  # a large one is read by another thread
            self.client.async_stream_infer("scale", [given(np.full(size, i, np.float32))], request_id=str(i))
        for i in range(30):
            result, error = answers.get(timeout=WAIT)
            self.assertIsNone(error)
            self.assertEqual(result.get_response().id, str(i))
            np.testing.assert_array_equal(result.as_numpy("y"), np.full(100000 if i % 7 == 3 else 1 + i, 2 * i))
        self.client.stop_stream()

    def test_a_request_that_fails_is_told_so_and_the_rest_goes_on(self):
        bad = doubled([3, 4])
        bad.inputs[0].datatype = "INT32"
        unknown = doubled([7])
        unknown.model_name = "nobody"
        answers = list(self.raw(iter([doubled([1, 2]), bad, unknown, doubled([5])])))
        self.assertEqual([answer.infer_response.id for answer in answers], ["1", "3", "7", "5"])
        self.assertEqual([answer.error_message == "" for answer in answers], [True, False, False, True])
        self.assertIn("INT32", answers[1].error_message)
        self.assertIn("nobody", answers[2].error_message)
        self.assertEqual(np.frombuffer(answers[3].infer_response.raw_output_contents[0], np.float32).tolist(), [10])

    def test_a_server_that_stops_ends_streams(self):
        done = threading.Event()
        self.addCleanup(done.set)

        def requests():
            yield doubled([1])
            done.wait(WAIT)

        stream = self.raw(requests())
        self.assertEqual(next(stream).error_message, "")
        self.server.stop()
        with self.assertRaises(triton._client.grpc.RpcError) as caught:
            next(stream)
        self.assertEqual(caught.exception.code().name, "UNAVAILABLE")

    def test_a_client_that_goes_leaves_nothing(self):
        for _ in range(20):
            stream = self.raw(iter(doubled([i]) for i in range(1000)))
            next(stream)
            stream.cancel()
        self.assertEqual(self.client.infer("scale", [given(np.float32([4]))]).as_numpy("y").tolist(), [8])


if __name__ == "__main__":
    unittest.main()
