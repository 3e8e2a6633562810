"""KServe's own Python clients, unchanged, against served models; and Triton's newest, by the tests of its older one.

They want other versions than the other tests are pinned to, so they have a place of their own: `./dev serving-clients`
makes it, and runs all tests of served models there. Where it is, `./dev test` has these run by it."""

import asyncio
import importlib.util
import logging
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "python"), str(HERE)]

import numpy as np
import serving_models as models
from onnx import TensorProto
from serving_http import HttpTest

PLACE = HERE.parent.parent.parent / ".venv-serving" / "bin" / "python"
HAS_KSERVE = importlib.util.find_spec("kserve") is not None
MLP = models.Mlp()

if HAS_KSERVE:
    import grpc
    import httpx
    import kserve
    from kserve.inference_client import RESTConfig
    from kserve.protocol.infer_type import RequestedOutput


class KServe(HttpTest):
    """Each test is of both: `ask_by_grpc` and `ask_by_http` send one and the same request."""

    @classmethod
    def setUpClass(cls):
        if not HAS_KSERVE:
            raise unittest.SkipTest("kserve is not installed: ./dev serving-clients")
        logging.disable(logging.ERROR)  # of what tests provoke
        cls.addClassCleanup(logging.disable, logging.NOTSET)
        super().setUpClass()
        cls.base = "http://" + cls.address

    @classmethod
    def fill(cls):
        cls.folder.put("mlp", MLP.file())
        cls.folder.put("half", models.scale(1.5, TensorProto.FLOAT16))
        cls.folder.put("integers", models.integers())

    def grpc(self, ask):
        """What `ask(client)` gives, of a client for gRPC."""

        async def go():
            async with kserve.InferenceGRPCClient(self.server.address, retries=0) as client:
                return await ask(client)

        return asyncio.run(go())

    def http(self, ask):
        async def go():
            client = kserve.InferenceRESTClient(RESTConfig(protocol="v2", retries=0))
            try:
                return await ask(client)
            finally:
                await client.close()

        return asyncio.run(go())

    def infer_by_grpc(self, request):
        return self.grpc(lambda client: client.infer(request))

    def infer_by_http(self, request):
        return self.http(lambda client: client.infer(self.base, request, model_name=request.model_name))

    def both(self):
        for infer in (self.infer_by_grpc, self.infer_by_http):
            with self.subTest(infer.__name__):
                yield infer

    @staticmethod
    def request(model, arrays, binary=True, outputs=None, **more):
        inputs = []
        for name, array in arrays.items():
            datatype = array.dtype.name.replace("float", "FP").upper()
            inputs.append(kserve.InferInput(name, list(array.shape), datatype))
            inputs[-1].set_data_from_numpy(array, binary_data=binary)
        return kserve.InferRequest(model, inputs, request_outputs=outputs, **more)

    def test_server_and_models_are_live_and_ready(self):
        self.assertTrue(self.grpc(lambda client: client.is_server_live()))
        self.assertTrue(self.grpc(lambda client: client.is_server_ready()))
        self.assertTrue(self.grpc(lambda client: client.is_model_ready("mlp")))
        self.assertFalse(self.grpc(lambda client: client.is_model_ready("nobody")))
        self.assertTrue(self.http(lambda client: client.is_server_live(self.base)))
        self.assertTrue(self.http(lambda client: client.is_server_ready(self.base)))
        self.assertTrue(self.http(lambda client: client.is_model_ready(self.base, "mlp")))
        self.assertFalse(self.http(lambda client: client.is_model_ready(self.base, "nobody")))

    def test_numbers_are_what_numpy_computes(self):
        x = np.random.default_rng(5).standard_normal((7, 16)).astype(np.float32)
        for infer in self.both():
            for binary in (True, False):
                answer = infer(self.request("mlp", {"x": x}, binary, request_id="r7"))
                self.assertEqual((answer.id, answer.model_name), ("r7", "mlp"))
                self.assertEqual([(row.name, row.datatype, list(row.shape)) for row in answer.outputs],
                                 [("y", "FP32", [7, 4])])  # fmt: skip
                np.testing.assert_allclose(answer.outputs[0].as_numpy(), MLP(x), rtol=1e-4, atol=1e-4)

    def test_answers_may_be_binary_whatever_carries_them(self):
        x = np.random.default_rng(6).standard_normal((2, 16)).astype(np.float32)
        for infer in self.both():
            for one, all_of_them in ((True, None), (False, True), (None, True), (None, False)):
                outputs = None if one is None else [RequestedOutput("y", {"binary_data": one})]
                parameters = None if all_of_them is None else {"binary_data_output": all_of_them}
                answer = infer(self.request("mlp", {"x": x}, outputs=outputs, parameters=parameters))
                np.testing.assert_allclose(answer.outputs[0].as_numpy(), MLP(x), rtol=1e-4, atol=1e-4)

    def test_half_precision_travels_binary(self):
        x = np.array([1, -2.5, 1000], np.float16)
        for infer in self.both():
            answer = infer(self.request("half", {"x": x}, outputs=[RequestedOutput("y", {"binary_data": True})]))
            self.assertEqual(answer.outputs[0].as_numpy().tolist(), (x * np.float16(1.5)).tolist())

    def test_integers_and_chosen_outputs(self):
        a, b, c = np.array([1, -2, 100], np.int8), np.array([5, 6, 7], np.int8), np.array([1 << 30, -4], np.int32)
        for infer in self.both():
            for binary in (True, False):
                chosen = [RequestedOutput("same"), RequestedOutput("sum")]
                answer = infer(self.request("integers", {"a": a, "b": b, "c": c}, binary, chosen))
                self.assertEqual([(row.name, row.as_numpy().tolist()) for row in answer.outputs],
                                 [("same", [1 << 30, -4]), ("sum", [6, 4, 107])])  # fmt: skip

    def test_what_a_request_gets_wrong_is_named(self):
        x = np.zeros((2, 15), np.float32)
        for model, code, status, word in (("mlp", "INVALID_ARGUMENT", 400, "[2,15]"),
                                          ("nobody", "NOT_FOUND", 404, "nobody")):  # fmt: skip
            with self.assertRaises(grpc.RpcError) as caught:
                self.infer_by_grpc(self.request(model, {"x": x}))
            self.assertEqual(caught.exception.code().name, code)
            self.assertIn(word, caught.exception.details())
            with self.assertRaises(httpx.HTTPStatusError) as caught:
                self.infer_by_http(self.request(model, {"x": x}))
            self.assertEqual(caught.exception.response.status_code, status)
            self.assertIn(word, str(caught.exception))

    def test_a_count_of_bytes_that_is_none_is_refused(self):
        request = self.request("mlp", {"x": np.zeros((2, 16), np.float32)})
        request.inputs[0].parameters["binary_data_size"] = 127
        with self.assertRaises(grpc.RpcError) as caught:
            self.infer_by_grpc(request)
        self.assertEqual(caught.exception.code().name, "INVALID_ARGUMENT")
        self.assertIn("127 bytes; 128 came", caught.exception.details())


@unittest.skipIf(HAS_KSERVE, "this is that place")
@unittest.skipUnless(PLACE.exists(), "there is no .venv-serving: ./dev serving-clients makes it")
class InTheirPlace(unittest.TestCase):
    def run_there(self, file, *names):
        # Not this process's packages: those there are other versions.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        ran = subprocess.run([str(PLACE), str(HERE / file), *names], capture_output=True, text=True, env=environment)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertNotIn("skipped", ran.stderr)

    def test_kserves_clients(self):
        self.run_there("kserve_test.py", "KServe")

    def test_tritons_newest_clients(self):
        self.run_there("serving_test.py", "Inference")
        self.run_there("http_test.py", "TritonsClient")


if __name__ == "__main__":
    unittest.main()
