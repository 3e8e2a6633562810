"""Small models between QuantizeLinear and DequantizeLinear, as exporters write them, beside onnxruntime."""

import os
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cases

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RUNNER = pathlib.Path(os.environ.get("KILN_ONNX_RUNNER", ROOT / "bazel-bin" / "tests" / "onnx" / "onnx_runner"))
# Of results that reach from about -6 to 6.
STEP = 0.05


class Model:
    """One layer of quantized tensors."""

    def __init__(self, seed):
        self.random, self.nodes, self.held = np.random.default_rng(seed), [], []

    def constant(self, name, array):
        self.held.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def through(self, x, scale, zero):
        """x as integers and back."""
        inputs = [self.constant(x + "_scale", np.float32(scale)), self.constant(x + "_zero", zero)]
        return self.add("DequantizeLinear", [self.add("QuantizeLinear", [x, *inputs], x + "_q"), *inputs], x + "_dq")

    def weight(self, name, shape, axis, deviation):
        """int8 with a scale for each channel, around 0."""
        floats = self.random.normal(0, deviation, shape).astype(np.float32)
        others = tuple(i for i in range(len(shape)) if i != axis)
        scales = np.abs(floats).max(axis=others) / np.float32(127)
        whole = np.rint(floats / np.expand_dims(scales, others)).astype(np.int8)
        inputs = [self.constant(name + "_q", whole), self.constant(name + "_scale", scales)]
        inputs.append(self.constant(name + "_zero", np.zeros(shape[axis], np.int8)))
        return self.add("DequantizeLinear", inputs, name, axis=axis), scales

    def bias(self, scales):
        """int32, of the products' own scales."""
        whole = self.random.integers(-2000, 2000, scales.shape).astype(np.int32)
        inputs = [self.constant("bias_q", whole), self.constant("bias_scale", scales.astype(np.float32))]
        return self.add("DequantizeLinear", inputs, "bias", axis=0)

    def made(self, shape):
        graph = helper.make_graph(self.nodes, "layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                                  [helper.make_tensor_value_info(self.nodes[-1].output[0], TensorProto.FLOAT, None)],
                                  self.held)  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def convolution(zero, groups, signed=False):
    model, shape = Model(1), [2, 16, 9, 9]
    x = model.through("x", 0.03, np.int8(zero) if signed else np.uint8(zero))
    weight, scales = model.weight("w", [24, 16 // groups, 3, 3], 0, 0.15)
    bias = model.bias(np.float32(0.03) * scales)
    model.add("Conv", [x, weight, bias], "y", pads=[1, 1, 1, 1], strides=[2, 2], group=groups)
    model.through("y", STEP, np.uint8(120))
    return model.made(shape), shape


def gemm():
    model, shape = Model(2), [5, 40]
    x = model.through("x", 0.03, np.uint8(128))
    weight, scales = model.weight("w", [33, 40], 0, 0.2)
    model.add("Gemm", [x, weight, model.bias(np.float32(0.03) * scales)], "y", transB=1)
    model.through("y", STEP, np.int8(-3))
    return model.made(shape), shape


def matmul():
    model, shape = Model(3), [2, 7, 40]
    model.add("MatMul", [model.through("x", 0.03, np.uint8(3)), model.weight("w", [40, 33], 1, 0.2)[0]], "y")
    model.through("y", STEP, np.uint8(128))
    return model.made(shape), shape


class QuantizedModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not RUNNER.exists():
            raise AssertionError("%s is not built: bazel build //tests/onnx:onnx_runner" % RUNNER)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.runner = cases.Runner(RUNNER, limit=600)
        cls.addClassCleanup(cls.runner.close)

    def test_are_within_a_step_of_onnxruntime(self):
        made = {
            "convolution": convolution(128, 1),
            "convolution-around-3": convolution(3, 1),
            "convolution-of-int8": convolution(0, 1, signed=True),
            "convolution-in-groups": convolution(100, 4),
            "gemm": gemm(),
            "matmul": matmul(),
        }
        for name, (model, shape) in made.items():
            with self.subTest(name):
                x = np.random.default_rng(4).standard_normal(shape, np.float32)
                session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
                expected = session.run(None, {"x": x})
                self.assertGreater(np.std(expected[0]), 10 * STEP)
                case = cases.Case(name, model, [numpy_helper.from_array(x)], expected, rtol=0, atol=1.001 * STEP)
                self.assertEqual(self.runner.run(case, self.folder / name), ("passed", "", []))


if __name__ == "__main__":
    unittest.main()
