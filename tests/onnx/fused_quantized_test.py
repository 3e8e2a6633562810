"""com.microsoft's ops on integers that stand for floats, and weights by blocks of few bits, beside onnxruntime."""

import unittest

import numpy as np
from beside import Beside, model_of
from onnx import TensorProto, helper

# By how much an integer may differ that was rounded from a float in between.
STEP = 1


class Quantized(Beside):
    def whole(self, *shape, dtype=np.uint8, seed=0):
        range = np.iinfo(dtype)
        return np.random.default_rng([seed, *shape]).integers(range.min, range.max, shape, dtype, endpoint=True)

    def by(self, scale, zero, dtype=np.uint8):
        return [(np.float32(scale),), None if zero is None else (np.array(zero, dtype),)]

    def test_sums_and_products(self):
        for op in ("QLinearAdd", "QLinearMul"):
            for dtype, zeros in ((np.uint8, (120, 7, 99)), (np.int8, (-3, 20, 0))):
                a, b = self.whole(3, 4, 5, dtype=dtype), self.whole(4, 1, dtype=dtype, seed=1)
                factors = [self.by(scale, zero, dtype) for scale, zero in zip((0.02, 0.05, 0.07), zeros)]
                self.check(op, [a, *factors[0], b, *factors[1], *factors[2]], step=STEP)
        none, a, b = self.by(0.05, None), self.whole(3, 4), self.whole(3, 4, seed=1)
        expected = np.rint((a.astype(np.float32) + b) / 2).astype(np.uint8)
        self.check("QLinearAdd", [a, *none, b, *none, (np.float32(0.1),)], step=STEP, expected=[expected])

    def test_functions(self):
        for dtype, zero in ((np.uint8, 130), (np.int8, 5)):
            x, forth, back = self.whole(3, 50, dtype=dtype), self.by(0.04, zero, dtype), self.by(0.01, 3, dtype)
            self.check("QLinearSigmoid", [x, *forth, *back], step=STEP)
            self.check("QLinearLeakyRelu", [x, *forth, *self.by(0.05, 9, dtype)], step=STEP, alpha=0.2)
            x, back = self.whole(2, 3, 6, dtype=dtype), self.by(1 / 256, 0 if dtype == np.uint8 else -128, dtype)
            for axis, opset in ((-1, 13), (1, 13), (1, 12)):
                self.check("QLinearSoftmax", [x, *forth, *back], step=STEP, axis=axis, opset=opset)
            for opset in (12, 13):
                of_last = self.check("QLinearSoftmax", [x, *forth, *back], step=STEP, axis=-1, opset=opset)
                by_itself = self.check("QLinearSoftmax", [x, *forth, *back], step=STEP, opset=opset)
                self.assertTrue(np.array_equal(of_last, by_itself))

    def test_means(self):
        x, forth, back = self.whole(2, 3, 6, 7), self.by(0.04, 130), self.by(0.02, 100)
        self.check("QLinearGlobalAveragePool", [x, *forth, *back], step=STEP, channels_last=0)
        last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        self.check("QLinearGlobalAveragePool", [last, *forth, *back], step=STEP, channels_last=1)
        pool = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
        for include in (0, 1):
            self.check("QLinearAveragePool", [x, *forth, *back], step=STEP, count_include_pad=include, **pool)
        self.check("QLinearAveragePool", [last, *forth, *back], step=STEP, channels_last=1, **pool)

    def test_a_mean_over_axes(self):
        x = self.whole(2, 3, 6)
        for attributes, axes in (({"axes": [1]}, 1), ({"axes": [-1, 0], "keepdims": 0}, (0, 2))):
            mean = (np.float32(0.04) * (x.astype(np.float32) - 130)).mean(axis=axes, keepdims=attributes.get("keepdims", 1) == 1)
            expected = np.clip(np.rint(mean / np.float32(0.02)) + 100, 0, 255).astype(np.uint8)
            self.check("QLinearReduceMean", [x, *self.by(0.04, 130), *self.by(0.02, 100)], step=STEP, expected=[expected], **attributes)

    def test_joining_and_choosing(self):
        parts = [self.whole(2, n, seed=n) for n in (3, 4)]
        factors = [self.by(0.04, 130), self.by(0.03, 90), self.by(0.05, 100)]
        self.check("QLinearConcat", [*factors[0], parts[0], *factors[1], parts[1], *factors[2]], step=STEP, axis=1)
        which, (a, b) = np.random.default_rng(0).random((2, 5)) > 0.5, [self.whole(2, 5, seed=n) for n in (1, 2)]
        self.check("QLinearWhere", [which, a, *factors[1], b, *factors[2], *factors[0]], step=STEP)
        self.refused("no attribute axis", "QLinearConcat", [*factors[0], parts[0], *factors[1]])

    def test_quantizing(self):
        x, scale = self.random(3, 4), np.float32([0.02, 0.03, 0.01, 0.05])
        zero = np.array([3, 100, 7, 0], np.uint8)
        self.check("QuantizeLinear", [x, (scale,), (zero,)], axis=1)
        self.check("DequantizeLinear", [self.whole(3, 4), (scale,), (zero,)], axis=1)
        self.check("DequantizeLinear", [self.whole(3, 4, dtype=np.int16), (np.float32(0.01),), (np.array(7, np.int16),)])
        self.check("DequantizeLinear", [self.whole(3, 4, dtype=np.int32), (np.float32(1e-9),)], atol=1e-3)

    def test_products_of_floats_and_integers(self):
        a, bias = self.random(3, 20), (self.random(6),)
        for dtype, zero in ((np.uint8, 128), (np.int8, 0)):
            b = (self.whole(20, 6, dtype=dtype),)
            self.check("DynamicQuantizeMatMul", [a, b, *self.by(0.01, zero, dtype), bias], atol=0.01)
            whole, of_a = self.whole(3, 20), self.by(0.02, 110)
            inputs = [whole, b, of_a[0], (np.float32(0.01),), of_a[1], (np.array(zero, dtype),), bias]
            self.check("MatMulIntegerToFloat", inputs, atol=1e-3)
        columns = (np.linspace(0.01, 0.02, 6, dtype=np.float32),), (np.arange(6, dtype=np.uint8),)
        self.check("DynamicQuantizeMatMul", [a, (self.whole(20, 6),), *columns], atol=0.05)

    def test_gemm(self):
        a, b, bias = self.whole(3, 20), (self.whole(6, 20, dtype=np.int8),), (np.arange(-3, 3, dtype=np.int32) * 900,)
        inputs = [a, *self.by(0.02, 100), b, *self.by(0.01, 0, np.int8), bias]
        self.check("QGemm", [*inputs, *self.by(0.5, 128)], step=STEP, transB=1)
        self.check("QGemm", inputs, transB=1, atol=1e-3)

    def test_scales_that_are_several_are_named(self):
        several = (np.float32([0.1, 0.2]),)
        self.refused("one number is taken", "QLinearSigmoid", [self.whole(3, 2), several, None, *self.by(0.01, 3)])
        self.refused("or its scale is missing", "QLinearAdd", [self.whole(3, 2), (np.float32(1),)])
        self.refused("int8 and uint8 are taken", "QLinearSigmoid", [self.random(3, 2), *self.by(0.1, 3), *self.by(0.1, 3)])


class FewBits(Beside):
    """Weights of 4 and 2 bits, which files hold and nothing but DequantizeLinear and Cast takes."""

    domain = ""

    def held(self, kind, shape, least, most):
        numbers = np.random.default_rng(len(shape)).integers(least, most, shape, endpoint=True)
        return (helper.make_tensor("w", kind, shape, numbers.ravel().tolist()),)

    def test_dequantized(self):
        for kind, least, most in ((TensorProto.INT4, -8, 7), (TensorProto.UINT4, 0, 15)):
            for raw in (False, True):
                weight, zero = self.held(kind, [5, 7], least, most), self.held(kind, [7], least, most)
                if raw:
                    packed = np.array(weight[0].int32_data, np.int32).astype(np.uint8)
                    weight = (helper.make_tensor("w", kind, [5, 7], packed.tobytes(), raw=True),)
                scale = (np.linspace(0.1, 0.7, 7, dtype=np.float32),)
                self.check("DequantizeLinear", [weight, scale, zero], opsets={"": 21}, axis=1)
            blocks = [self.held(kind, [6, 5], least, most), (self.random(2, 5),), self.held(kind, [2, 5], least, most)]
            self.check("DequantizeLinear", blocks, opsets={"": 21}, axis=0, block_size=3)
            self.check("Cast", [self.held(kind, [3, 3], least, most)], opsets={"": 21}, to=TensorProto.FLOAT)

    def test_nothing_else_takes_them(self):
        zero, scale = self.held(TensorProto.INT4, [1], -8, 7), (np.float32([0.5]),)
        words = "input 2 has numbers of fewer bits than a byte; DequantizeLinear and Cast take them"
        self.refused(words, "QuantizeLinear", [self.random(3), scale, zero], opsets={"": 21})
        self.refused("input 0 has numbers of fewer bits", "Identity", [self.held(TensorProto.INT4, [3], -8, 7)], opsets={"": 21})
        short = helper.make_tensor("w", TensorProto.INT4, [4], bytes(2), raw=True)
        short.dims[0] = 5
        model = model_of("Cast", [(short,)], (True,), "", {"": 21}, {"to": TensorProto.FLOAT})
        self.assertIn("int8 (5,) has 3 bytes; there are 2", self.run_model(model, [], [])[1])


class Blocks(Beside):
    def blocks(self, columns, rows, block, bits, zeros="", order=False, bias=False, **attributes):
        count = -(-columns // block)
        random = np.random.default_rng(columns)
        inputs = [self.random(2, 3, columns), (random.integers(0, 256, (rows, count, block * bits // 8)).astype(np.uint8),)]
        inputs += [(random.random(rows * count).astype(np.float32) / 16,), None, None, None]
        if zeros == "packed":
            inputs[3] = (random.integers(0, 256, rows * -(-count * bits // 8)).astype(np.uint8),)
        if zeros == "float":
            inputs[3] = (random.random((rows, count)).astype(np.float32) * 15,)
        if order:
            inputs[4] = ((np.arange(columns) * 7 // 3 % count).astype(np.int32),)
        if bias:
            inputs[5] = (self.random(rows),)
        while inputs[-1] is None:
            inputs.pop()
        self.check("MatMulNBits", inputs, K=columns, N=rows, block_size=block, bits=bits, atol=2e-3, **attributes)

    def test_products_with_blocks(self):
        self.blocks(64, 5, 32, 4)
        self.blocks(80, 5, 32, 4, "packed")
        self.blocks(96, 5, 32, 4, "packed", bias=True)
        self.blocks(64, 4, 16, 4, "float")
        self.blocks(64, 4, 16, 8)
        self.blocks(64, 4, 16, 8, "packed")
        self.blocks(64, 4, 32, 2, "packed")

    def test_columns_in_another_order(self):
        self.blocks(96, 5, 32, 4, order=True)

    def test_mistakes_are_named(self):
        x, bytes, scales = self.random(2, 64), (np.zeros((5, 2, 16), np.uint8),), (np.ones(10, np.float32),)
        zeros, order = (np.zeros(5, np.uint8),), (np.zeros(64, np.int32),)
        good = {"K": 64, "N": 5, "block_size": 32, "bits": 4}
        self.refused("beside g_idx", "MatMulNBits", [x, bytes, scales, zeros, order], **good)
        self.refused("5 rows of 2 blocks", "MatMulNBits", [x, bytes, (np.ones(9, np.float32),)], **good)
        for words, attributes in (
            ("weight_prepacked", {"weight_prepacked": 1}),
            ("weight_prepacked", {"weight_prepacked": 2}),
            ("of 3 bits", {"bits": 3}),
            ("a multiple of 8", {"block_size": 0}),
            ("a multiple of 8", {"block_size": -(2**63)}),
            ("from 1 to 2^30", {"N": 2**62}),
            ("a weight of uint8 (5, 2, 16); it is uint8 (4, 2, 16)", {"N": 4}),
            ("a weight of", {"K": 2**30, "N": 2**30, "block_size": 2**29}),
        ):
            self.refused(words, "MatMulNBits", [x, bytes, scales], **{**good, **attributes})


if __name__ == "__main__":
    unittest.main()
