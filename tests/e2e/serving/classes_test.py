"""The classification extension: the greatest elements of an output, by Triton's own client."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "python"), str(HERE)]

import numpy as np
import serving_models as models
import support
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc as pb_grpc
from tritonclient.utils import InferenceServerException


def given(name, array):
    made = triton.InferInput(name, list(array.shape), triton.np_to_triton_dtype(array.dtype))
    made.set_data_from_numpy(array)
    return made


class Classes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = models.Folder(cls)
        cls.folder.put("mlp", models.Mlp().file())
        cls.folder.put("integers", models.integers())
        cls.server = support.Server("--models=%s" % cls.folder.path)
        cls.addClassCleanup(cls.server.stop)
        cls.client = triton.InferenceServerClient(cls.server.address)
        cls.addClassCleanup(cls.client.close)
        if not support.eventually(cls.client.is_server_ready):
            raise AssertionError("it is not ready:\n" + "".join(cls.server.log[-20:]))

    def test_those_of_each_row(self):
        x = np.random.default_rng(3).standard_normal((5, 16)).astype(np.float32)
        y = self.client.infer("mlp", [given("x", x)]).as_numpy("y")
        for count in (1, 3, 4, 100):
            wanted = triton.InferRequestedOutput("y", class_count=count)
            answer = self.client.infer("mlp", [given("x", x)], outputs=[wanted])
            self.assertEqual(answer.get_response().outputs[0].datatype, "BYTES")
            expected = [[b"%f:%d" % (row[i], i) for i in np.argsort(-row, kind="stable")[:count]] for row in y]
            self.assertEqual(answer.as_numpy("y").tolist(), expected)

    def test_those_of_an_output_without_rows(self):
        request = pb.ModelInferRequest(model_name="integers")
        for name, values, datatype in (("a", [1, -2, 100], "INT8"), ("b", [5, 6, 7], "INT8"), ("c", [1, 2], "INT32")):
            request.inputs.add(name=name, datatype=datatype, shape=[len(values)]).contents.int_contents.extend(values)
        request.outputs.add(name="sum").parameters["classification"].int64_param = 9
        channel = triton._client.grpc.insecure_channel(self.server.address)
        self.addCleanup(channel.close)
        found = pb_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)
        self.assertEqual(list(found.outputs[0].shape), [3])  # more than there are, are all
        self.assertEqual(found.raw_output_contents[0], b"".join(len(text).to_bytes(4, "little") + text
                                                                for text in (b"107:2", b"6:0", b"4:1")))  # fmt: skip

    def test_counts_that_are_none(self):
        x = given("x", np.zeros((1, 16), np.float32))
        for wrong in (-1, 1025):
            wanted = triton.InferRequestedOutput("y", class_count=wrong)
            with self.assertRaises(InferenceServerException) as caught:
                self.client.infer("mlp", [x], outputs=[wanted])
            self.assertEqual(caught.exception.status(), "StatusCode.INVALID_ARGUMENT")
            self.assertIn("1 to 1024", caught.exception.message())


if __name__ == "__main__":
    unittest.main()
