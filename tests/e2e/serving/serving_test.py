"""Models served by the open inference protocol, asked by Triton's own client, which nobody here wrote."""

import pathlib
import sys
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "python"), str(HERE)]

import admin
import numpy as np
import serving_models as models
import support
import tritonclient.grpc as triton
from onnx import TensorProto
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc as pb_grpc
from tritonclient.utils import InferenceServerException

MLP = models.Mlp()


def given(name, array, datatype=None):
    made = triton.InferInput(name, list(array.shape), datatype or triton.np_to_triton_dtype(array.dtype))
    made.set_data_from_numpy(array)
    return made


class ServingTest(unittest.TestCase):
    """A server over FOLDER's models, and a client."""

    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = models.Folder(cls)
        cls.fill()
        cls.server = support.Server("--models=%s" % cls.folder.path, *cls.FLAGS)
        cls.addClassCleanup(cls.server.stop)
        cls.client = triton.InferenceServerClient(cls.server.address)
        cls.addClassCleanup(cls.client.close)
        channel = triton._client.grpc.insecure_channel(cls.server.address)
        cls.addClassCleanup(channel.close)
        cls.stub = pb_grpc.GRPCInferenceServiceStub(channel)
        cls.wait(lambda: cls.client.is_server_ready())

    @classmethod
    def wait(cls, condition):
        if not support.eventually(condition):
            raise AssertionError("it did not come true:\n" + "".join(cls.server.log[-20:]))

    def infer(self, name, *inputs, **more):
        return self.client.infer(name, list(inputs), **more)

    def index(self):
        return {(row.name, row.version): row for row in self.client.get_model_repository_index().models}

    def refused(self, code, words, call, *arguments, **more):
        with self.assertRaises(InferenceServerException) as caught:
            call(*arguments, **more)
        self.assertEqual(caught.exception.status(), "StatusCode." + code, caught.exception.message())
        for word in words:
            self.assertIn(word, caught.exception.message())


class Inference(ServingTest):
    FLAGS = ("--admin_listen=127.0.0.1:0",)

    @classmethod
    def fill(cls):
        cls.folder.put("mlp", MLP.file())
        cls.folder.put("half", models.scale(1.5, TensorProto.FLOAT16))
        cls.folder.put("brain", models.scale(1.5, TensorProto.BFLOAT16))
        cls.folder.put("integers", models.integers(), version=7)

    def test_an_mlp_is_what_numpy_computes_for_every_batch(self):
        draw = np.random.default_rng(2)
        for batch in (1, 2, 7, 64, 256):
            x = draw.standard_normal((batch, 16)).astype(np.float32)
            answer = self.infer("mlp", given("x", x), request_id="r%d" % batch)
            np.testing.assert_allclose(answer.as_numpy("y"), MLP(x), rtol=1e-4, atol=1e-4)
            message = answer.get_response()
            self.assertEqual((message.id, message.model_name, message.model_version), ("r%d" % batch, "mlp", "1"))

    def test_half_precision_travels_raw(self):
        x = np.array([1, -2.5, 1000], np.float16)
        np.testing.assert_array_equal(self.infer("half", given("x", x)).as_numpy("y"), x * np.float16(1.5))
        # Of bfloat16 the upper halves of float32s; 1.5 * these is exact.
        upper = (np.array([1, -2, 4], np.float32).view(np.uint32) >> 16).astype(np.uint16)
        request = pb.ModelInferRequest(model_name="brain", raw_input_contents=[upper.tobytes()])
        request.inputs.add(name="x", datatype="BF16", shape=[3])
        answer = self.stub.ModelInfer(request)
        self.assertEqual((answer.outputs[0].datatype, list(answer.outputs[0].shape)), ("BF16", [3]))
        bits = np.frombuffer(answer.raw_output_contents[0], np.uint16).astype(np.uint32) << 16
        self.assertEqual(bits.view(np.float32).tolist(), [1.5, -3, 6])

    def integers_request(self):
        request = pb.ModelInferRequest(model_name="integers")
        for name, values, datatype in (("a", [1, -2, 100], "INT8"), ("b", [5, 6, 7], "INT8"), ("c", [1 << 30, -4], "INT32")):
            request.inputs.add(name=name, datatype=datatype, shape=[len(values)]).contents.int_contents.extend(values)
        return request

    def test_typed_contents_and_chosen_outputs(self):
        request = self.integers_request()
        answer = self.stub.ModelInfer(request)
        self.assertEqual([row.name for row in answer.outputs], ["sum", "difference", "same"])
        self.assertEqual(answer.model_version, "7")
        of = dict(zip([row.name for row in answer.outputs], answer.raw_output_contents))
        self.assertEqual(np.frombuffer(of["sum"], np.int8).tolist(), [6, 4, 107])
        self.assertEqual(np.frombuffer(of["difference"], np.int8).tolist(), [-4, -8, 93])
        self.assertEqual(np.frombuffer(of["same"], np.int32).tolist(), [1 << 30, -4])
        for name in ("same", "difference"):
            request.outputs.add(name=name)
        answer = self.stub.ModelInfer(request)
        self.assertEqual([row.name for row in answer.outputs], ["same", "difference"])
        self.assertEqual(list(answer.raw_output_contents), [of["same"], of["difference"]])

    def test_what_a_request_gets_wrong_is_named(self):
        x = np.zeros((2, 16), np.float32)
        cases = [
            ("INVALID_ARGUMENT", ['"x"', "FP32", "FP64"], ["mlp", given("x", x.astype(np.float64))]),
            ("INVALID_ARGUMENT", ['"x"', "[2,15]", "[batch,16]"], ["mlp", given("x", x[:, :15])]),
            ("INVALID_ARGUMENT", ['"x"', "[16]"], ["mlp", given("x", x[0])]),
            ("INVALID_ARGUMENT", ['"x"', "1 to 256"], ["mlp", given("x", np.zeros((257, 16), np.float32))]),
            ("INVALID_ARGUMENT", ['"x"', "1 to 256"], ["mlp", given("x", x[:0])]),
            ("INVALID_ARGUMENT", ['"x"', "missing"], ["mlp"]),
            ("INVALID_ARGUMENT", ['"x"', "twice"], ["mlp", given("x", x), given("x", x)]),
            ("INVALID_ARGUMENT", ['"z"', "none of the model's"], ["mlp", given("x", x), given("z", x)]),
            ("NOT_FOUND", ['"nobody"'], ["nobody", given("x", x)]),
            ("NOT_FOUND", ['"../mlp"'], ["../mlp", given("x", x)]),
        ]
        for code, words, (name, *inputs) in cases:
            with self.subTest(name=name, words=words):
                self.refused(code, words, self.infer, name, *inputs)
        ask = {"model_name": "mlp", "inputs": [given("x", x)]}
        self.refused("NOT_FOUND", ['"9"'], self.client.infer, model_version="9", **ask)
        self.refused("INVALID_ARGUMENT", ['"q"'], self.client.infer, outputs=[triton.InferRequestedOutput("q")], **ask)
        self.refused("UNIMPLEMENTED", ["parameters.sequence_", "no sequences"], self.client.infer, sequence_id=5, **ask)

    def test_a_request_says_for_how_long_it_is_wanted(self):
        x = np.ones((2, 16), np.float32)
        ask = {"model_name": "mlp", "inputs": [given("x", x)]}
        self.refused("DEADLINE_EXCEEDED", [], self.client.infer, timeout=1, **ask)
        self.refused("INVALID_ARGUMENT", ["parameters.timeout", "microseconds"], self.client.infer, timeout=-1, **ask)
        answer = self.client.infer(timeout=10**15, **ask)
        np.testing.assert_array_equal(answer.as_numpy("y"), self.infer("mlp", given("x", x)).as_numpy("y"))

    def test_contents_that_do_not_fit_are_named(self):
        cases = {
            "of 200": lambda r: r.inputs[0].contents.int_contents.__setitem__(1, 200),
            "too few": lambda r: r.inputs[1].contents.int_contents.pop(),
            "of another type": lambda r: r.inputs[0].contents.fp32_contents.append(1),
            "both": lambda r: r.raw_input_contents.extend([b"123", b"123", b"12345678"]),
            "raw, too few": lambda r: r.raw_input_contents.append(b"123"),
        }
        for name, spoil in cases.items():
            request = self.integers_request()
            spoil(request)
            with self.subTest(name), self.assertRaises(triton._client.grpc.RpcError) as caught:
                self.stub.ModelInfer(request)
            self.assertEqual(caught.exception.code().name, "INVALID_ARGUMENT", name)
        request = pb.ModelInferRequest(model_name="half")
        request.inputs.add(name="x", datatype="FP16", shape=[1]).contents.fp32_contents.append(1)
        with self.assertRaises(triton._client.grpc.RpcError) as caught:
            self.stub.ModelInfer(request)
        self.assertIn("raw_input_contents", caught.exception.details())

    def test_what_the_server_says_of_itself_and_its_models(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_model_ready("mlp"))
        self.assertTrue(self.client.is_model_ready("integers", "7"))
        self.assertFalse(self.client.is_model_ready("integers", "1"))
        self.assertFalse(self.client.is_model_ready("nobody"))
        self.assertEqual(self.client.get_server_metadata().name, "kiln")
        said = self.client.get_model_metadata("mlp")
        self.assertEqual((said.platform, list(said.versions)), ("onnx", ["1"]))
        rows = [(row.name, row.datatype, list(row.shape)) for row in [*said.inputs, *said.outputs]]
        self.assertEqual(rows, [("x", "FP32", [-1, 16]), ("y", "FP32", [-1, 4])])
        config = self.client.get_model_config("integers").config
        self.assertEqual((config.name, config.platform, config.max_batch_size), ("integers", "onnx", 0))
        self.assertEqual([(row.name, row.data_type, list(row.dims)) for row in config.input],
                         [("a", 6, [3]), ("b", 6, [3]), ("c", 8, [2])])  # fmt: skip

    def test_statistics_add_up(self):
        def now():
            return self.client.get_inference_statistics("half").model_stats[0]

        before = now()
        for _ in range(5):
            self.infer("half", given("x", np.ones(3, np.float16)))
        for _ in range(2):
            self.refused("INVALID_ARGUMENT", ["x"], self.infer, "half", given("x", np.ones((3, 3), np.float16)))
        after = now()
        sums = after.inference_stats
        self.assertEqual(after.inference_count - before.inference_count, 5)
        self.assertEqual(sums.success.count - before.inference_stats.success.count, 5)
        self.assertEqual(sums.fail.count - before.inference_stats.fail.count, 2)
        parts = [sums.queue, sums.compute_input, sums.compute_infer, sums.compute_output]
        self.assertEqual({part.count for part in parts}, {sums.success.count})
        self.assertEqual(sum(part.ns for part in parts), sums.success.ns)
        self.assertGreater(sums.compute_infer.ns, 0)
        # Asked one after the other: each run has answered one.
        self.assertEqual([(row.batch_size, row.compute_infer.count) for row in after.batch_stats],
                         [(1, after.execution_count)])  # fmt: skip
        self.assertEqual([row.name for row in self.client.get_inference_statistics().model_stats],
                         ["brain", "half", "integers", "mlp"])  # fmt: skip

    def test_metrics_are_called_as_tritons(self):
        port = admin.Admin(self.server)

        def now():
            return {key[0]: value for key, value in port.samples().items()
                    if key[0].startswith("nv_inference_") and key[1:] == ("integers", "7")}  # fmt: skip

        before = now()
        self.stub.ModelInfer(self.integers_request())
        after, kept = now(), self.client.get_inference_statistics("integers").model_stats[0].inference_stats
        more = {name: after[name] - before[name] for name in after}
        for name in ("request_success", "count", "exec_count"):
            self.assertEqual(more["nv_inference_" + name], 1, name)
        self.assertEqual(more["nv_inference_request_failure"], 0)
        parts = {"queue": kept.queue, "compute_input": kept.compute_input, "compute_infer": kept.compute_infer,
                 "compute_output": kept.compute_output, "request": kept.success}  # fmt: skip
        for name, part in parts.items():
            self.assertEqual(after["nv_inference_%s_duration_us" % name], part.ns // 1000, name)
        self.assertEqual(len(after), 9)
        memory = {key[1:]: value for key, value in port.samples().items() if key[0] == "kiln_model_memory_bytes"}
        # The last bias is so small that the program has it in its code.
        self.assertEqual(memory["mlp", "1"], 4 * sum(MLP.constants[name].size for name in ("w1", "b1", "w2")))
        # One series of each for each version of a model, whoever asked.
        self.assertEqual({key[1:] for key in port.samples() if key[0] == "nv_inference_count"},
                         {("brain", "1"), ("half", "1"), ("integers", "7"), ("mlp", "1")})  # fmt: skip

    def test_each_of_many_callers_gets_its_own_rows(self):
        def now():
            return self.client.get_inference_statistics("mlp").model_stats[0]

        before, wrong = now(), []

        def call(seed):
            random = np.random.default_rng(seed)
            with triton.InferenceServerClient(self.server.address) as client:
                for _ in range(25):
                    x = random.standard_normal((int(random.integers(1, 4)), 16), np.float32)
                    y = client.infer("mlp", [given("x", x)]).as_numpy("y")
                    if y.shape[0] != x.shape[0] or not np.allclose(y, MLP(x), rtol=1e-4, atol=1e-4):
                        wrong.append((seed, x, y))

        threads = [threading.Thread(target=call, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        after = now()
        requests, runs = after.inference_count - before.inference_count, after.execution_count - before.execution_count
        self.assertEqual(requests, 200)
        self.assertGreater(runs, 0)
        self.assertLessEqual(runs, requests)  # fewer, as they happened to come

    def test_what_is_not_served_says_so_by_name(self):
        for rpc, request in (("SystemSharedMemoryStatus", pb.SystemSharedMemoryStatusRequest()),
                             ("CudaSharedMemoryRegister", pb.CudaSharedMemoryRegisterRequest())):  # fmt: skip
            with self.subTest(rpc), self.assertRaises(triton._client.grpc.RpcError) as caught:
                getattr(self.stub, rpc)(request)
            self.assertEqual(caught.exception.code().name, "UNIMPLEMENTED")
            self.assertIn("GRPCInferenceService." + rpc, caught.exception.details())


class Changes(ServingTest):
    @classmethod
    def fill(cls):
        cls.folder.put("live", models.scale(1))
        cls.folder.put("weights", models.outside("weights.bin"), **{"weights.bin": np.full(64, 2, np.float32).tobytes()})

    def factor(self, name="live", n=4):
        return float(self.infer(name, given("x", np.ones(n, np.float32))).as_numpy("y")[0])

    def test_no_call_fails_while_versions_come_and_go(self):
        seen, failures, stop = [], [], threading.Event()

        def call():
            while not stop.is_set():
                try:
                    factor = self.factor()
                except InferenceServerException as error:
                    failures.append(error)
                    return
                if not seen or seen[-1] != factor:
                    seen.append(factor)

        caller = threading.Thread(target=call)
        caller.start()
        try:
            self.folder.put("live", models.scale(2), version=2)
            self.wait(lambda: failures or seen[-1:] == [2])
            self.folder.put("live", models.scale(3), version=2)
            self.wait(lambda: failures or seen[-1:] == [3])
            # A broken one leaves what serves, and says why.
            self.folder.put("live", b"broken", version=3)
            self.wait(lambda: failures or ("live", "3") in self.index() and self.index()["live", "3"].reason)
            self.assertEqual(seen[-1:], [3])
            self.folder.remove("live", version=3)
            self.folder.remove("live", version=2)
            self.wait(lambda: failures or seen[-1:] == [1])
        finally:
            stop.set()
            caller.join()
        self.assertEqual(failures, [])
        self.assertEqual(seen, [1, 2, 3, 1])

    def test_external_data_is_read_beside_the_model_and_watched(self):
        self.assertEqual(self.factor("weights", 64), 2)
        (self.folder.path / "draft").write_bytes(np.full(64, 5, np.float32).tobytes())
        (self.folder.path / "draft").rename(self.folder.path / "weights" / "1" / "weights.bin")
        self.wait(lambda: self.factor("weights", 64) == 5)

    def test_operators_load_and_unload(self):
        self.folder.put("mine", models.scale(4))
        self.client.load_model("mine")
        self.assertEqual(self.factor("mine"), 4)
        self.client.unload_model("mine")
        self.refused("NOT_FOUND", ["mine"], self.factor, "mine")
        self.assertEqual(self.index()["mine", ""].state, "UNAVAILABLE")
        self.client.load_model("mine")
        self.assertEqual(self.factor("mine"), 4)
        self.refused("NOT_FOUND", ["nobody"], self.client.load_model, "nobody")
        self.folder.put("hurt", b"broken")
        self.refused("INVALID_ARGUMENT", ["no ONNX model"], self.client.load_model, "hurt")


class Restarts(unittest.TestCase):
    def test_the_next_server_finds_the_programs_on_disk(self):
        folder = models.Folder(type(self))
        folder.put("mlp", MLP.file())
        logs = []
        for _ in range(2):
            with support.running("--models=%s" % folder.path, "--program_cache_dir=%s" % (folder.path / ".cache")) as server:
                self.assertTrue(support.eventually(lambda: any("event=model_loaded" in line for line in server.log)))
            logs.append("".join(server.log))
        self.assertIn("event=compiled", logs[0])
        self.assertIn("event=loaded", logs[1])
        self.assertNotIn("event=compiled", logs[1])


if __name__ == "__main__":
    unittest.main()
