"""kiln.onnx.load: models as functions, beside numpy and onnxruntime, and mistakes that are named."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

import numpy as np
import onnx
import support
from onnx import TensorProto, helper, numpy_helper

import kiln
import kiln.onnx

WEIGHTS = np.arange(4 * 33, dtype=np.float32).reshape(4, 33) / 64 - 1
HALF = np.float32([1.5, -2, 0.25])


def save(path, nodes, inputs, outputs, constants):
    graph = helper.make_graph(nodes, "model", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


def info(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


class Onnx(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        save(cls.folder / "layer.onnx",
             [helper.make_node("MatMul", ["x", "w"], ["product"]), helper.make_node("Relu", ["product"], ["y"]),
              helper.make_node("ReduceSum", ["y", "axes"], ["total"], keepdims=0)],
             [info("x", ["batch", 4]), info("unread", [2], TensorProto.INT64)], [info("y", ["batch", 33]), info("total", [33])],
             [numpy_helper.from_array(WEIGHTS, "w"), numpy_helper.from_array(np.array([0]), "axes")])  # fmt: skip
        bits = (HALF.view(np.uint32) >> 16).astype(np.uint16)
        half = helper.make_tensor("h", TensorProto.BFLOAT16, [3], bits.tobytes(), raw=True)
        save(cls.folder / "half.onnx",
             [helper.make_node("Cast", ["h"], ["wide"], to=TensorProto.FLOAT), helper.make_node("Mul", ["x", "wide"], ["y"])],
             [info("x", [3])], [info("y", [3])], [half])  # fmt: skip
        save(cls.folder / "no_op.onnx", [helper.make_node("Unique", ["x"], ["y"], name="words")],
             [info("x", [3], TensorProto.INT64)], [info("y", [3])], [])  # fmt: skip
        cli = mock.patch.dict(os.environ, KILN_CLI=str(support.CLI))
        cli.start()
        cls.addClassCleanup(cli.stop)
        cls.server = support.Server()
        cls.addClassCleanup(cls.server.stop)
        cls.client = kiln.connect(cls.server.address)
        cls.addClassCleanup(cls.client.close)

    def layer(self):
        return kiln.onnx.load(self.folder / "layer.onnx", sizes={"batch": (1, 8)}, client=self.client)

    def test_a_model_is_a_function(self):
        model = self.layer()
        self.assertEqual(model.inputs, (("x", "float32", ("batch", 4)), ("unread", "int64", (2,))))
        self.assertEqual(model.outputs, (("y", "float32", ("batch", 33)), ("total", "float32", (33,))))
        unread = np.zeros(2, np.int64)
        for rows in (1, 3, 8):
            x = np.random.default_rng(rows).standard_normal((rows, 4), np.float32)
            y, total = model(x, unread)
            np.testing.assert_allclose(y, np.maximum(x @ WEIGHTS, 0), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(total, np.maximum(x @ WEIGHTS, 0).sum(0), rtol=1e-5, atol=1e-5)
            again, _ = model(unread=unread, x=kiln.array(x, client=self.client))
            np.testing.assert_array_equal(again, y)

    def test_constants_of_bfloat16(self):
        model = kiln.onnx.load(self.folder / "half.onnx", client=self.client)
        np.testing.assert_array_equal(model(np.float32([2, 3, 4])), np.float32([3, -6, 1]))

    def test_a_model_that_is_not_taken_is_named(self):
        for name, error, code, words in (
            ("no_op.onnx", kiln.InvalidArgument, "UNSUPPORTED_OP", "Unique"),
            ("missing.onnx", kiln.NotFound, "NOT_FOUND", "missing.onnx"),
        ):
            with self.assertRaises(error) as caught:
                kiln.onnx.load(self.folder / name, client=self.client)
            self.assertEqual(caught.exception.code, code)
            self.assertIn(words, str(caught.exception))

    def test_arguments_that_do_not_fit_are_named(self):
        model, x, unread = self.layer(), np.zeros((2, 4), np.float32), np.zeros(2, np.int64)
        for error, words, call in (
            (kiln.InvalidArgument, "no value for unread", lambda: model(x)),
            (kiln.InvalidArgument, "z is no input; they are x, unread", lambda: model(x, unread, z=1)),
            (kiln.InvalidArgument, "x is given twice", lambda: model(x, x=x)),
            (kiln.InvalidArgument, "2 inputs, not 3", lambda: model(x, unread, x)),
            (kiln.DTypeError, "x is float64, and takes float32", lambda: model(x.astype(float), unread)),
            (kiln.ShapeError, "x has shape (2, 5), and takes (batch, 4)", lambda: model(np.zeros((2, 5), np.float32), unread)),
            (kiln.ShapeError, "x has shape (4,), and takes (batch, 4)", lambda: model(x[0], unread)),
            (kiln.ShapeError, "batch is 3", lambda: model(x, unread, sizes={"batch": 3})),
            (kiln.InvalidArgument, "rows is no size that calls decide; they are batch", lambda: model(x, unread, sizes={"rows": 2})),
            (kiln.InvalidArgument, "it cannot be 9", lambda: model(np.zeros((9, 4), np.float32), unread)),
        ):
            with self.subTest(words), self.assertRaises(error) as caught:
                call()
            self.assertIn(words, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
