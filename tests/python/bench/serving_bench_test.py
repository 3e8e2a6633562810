"""What `./dev bench serving` measures: its models, and onnxruntime behind a server."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(TESTS / "python"), str(TESTS / "bench"), str(TESTS / "bench" / "whole_models"),
                str(TESTS / "e2e" / "serving")]  # fmt: skip

try:
    import onnxruntime
except ImportError:
    onnxruntime = None
import model_onnx
import models
import numpy as np
import serving_bench
import serving_models
import tritonclient.grpc as triton
from onnx import TensorProto, helper


def table():
    """Of int64 [n, 3] the rows of a table, added up."""
    rows = np.arange(20, dtype=np.float32).reshape(10, 2) ** 2
    tensor = helper.make_tensor_value_info
    return rows, serving_models.model(
        [helper.make_node("Gather", ["table", "ids"], ["found"]),
         helper.make_node("ReduceSum", ["found", "axes"], ["y"], keepdims=0)],
        [tensor("ids", TensorProto.INT64, ["n", 3])], [tensor("y", TensorProto.FLOAT, ["n", 2])],
        {"table": rows, "axes": np.array([1], np.int64)})  # fmt: skip


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    @unittest.skipUnless(onnxruntime, "wants onnxruntime")
    def test_a_resnet_of_any_batch(self):
        sizes, path = models.Sizes("resnet50", small=True), str(self.folder / "model.onnx")
        model_onnx.written(model_onnx.Onnx(), "resnet50", sizes, path, rows="batch")
        session = model_onnx.session(path)
        self.assertEqual(session.get_inputs()[0].shape, ["batch", 3, sizes.side, sizes.side])
        self.assertEqual(session.get_outputs()[0].shape, ["batch", 1000])
        rows = [models.argument("resnet50", sizes, seed) for seed in (1, 2)]
        both = session.run(None, {"x": np.concatenate(rows)})[0]
        for row, wanted in zip(rows, both):
            np.testing.assert_allclose(session.run(None, {"x": row})[0][0], wanted, rtol=1e-4, atol=1e-4)
        self.assertGreater(np.abs(both[0] - both[1]).max(), 1e-2)

    @unittest.skipUnless(onnxruntime, "wants onnxruntime")
    def test_the_peer_takes_integers_and_says_so(self):
        rows, file = table()
        (self.folder / "model.onnx").write_bytes(file)
        ids = np.array([[0, 1, 9], [3, 3, 3]])
        with serving_bench.peer(str(self.folder / "model.onnx")) as address:
            with triton.InferenceServerClient(address) as client:
                said = client.get_model_metadata("table")
                given = triton.InferInput("ids", ids.shape, "INT64")
                given.set_data_from_numpy(ids)
                found = client.infer("table", [given]).as_numpy("y")
                config = client.get_model_config("table").config
        self.assertEqual([(row.name, row.datatype, list(row.shape)) for row in (*said.inputs, *said.outputs)],
                         [("ids", "INT64", [-1, 3]), ("y", "FP32", [-1, 2])])  # fmt: skip
        self.assertEqual([row.data_type for row in (*config.input, *config.output)],
                         [triton.model_config_pb2.TYPE_INT64, triton.model_config_pb2.TYPE_FP32])  # fmt: skip
        np.testing.assert_array_equal(found, rows[ids].sum(1))

    def test_what_perf_analyzer_is_told(self):
        self.assertEqual(serving_bench.words_of(serving_bench.MODELS["resnet50"].inputs, self.folder),
                         ["--shape", "x:1,3,224,224"])  # fmt: skip
        *shapes, flag, path = serving_bench.words_of(serving_bench.text(), self.folder)
        self.assertEqual(shapes, ["--shape", "input_ids:1,32", "--shape", "attention_mask:1,32"])
        self.assertEqual(flag, "--input-data")
        [row] = json.loads(pathlib.Path(path).read_text())["data"]
        self.assertEqual({name: tensor["shape"] for name, tensor in row.items()},
                         {"input_ids": [1, 32], "attention_mask": [1, 32]})  # fmt: skip
        ids = row["input_ids"]["content"]
        self.assertTrue(len(ids) == 32 and 0 <= min(ids) and max(ids) < 30522, ids)
        self.assertEqual(row["attention_mask"]["content"], [1] * 32)

    def test_an_unknown_model_is_refused(self):
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            serving_bench.main(["--models=mlp,bert"])
        self.assertIn("bert: there are tiny, mlp, large, minilm, minilm_any, resnet50", said.getvalue())


if __name__ == "__main__":
    unittest.main()
