"""models.py's words as an ONNX graph with its weights in it, for onnxruntime."""

import os

import numpy as np

import models


class Onnx:
    def __init__(self):
        import onnx

        self.onnx, self.source, self.nodes, self.constants, self.shapes = onnx, models.weights(), [], [], {}

    def node(self, op, *inputs, shape, **attributes):
        name = "v%d" % len(self.shapes)
        self.nodes.append(self.onnx.helper.make_node(op, inputs, [name], **attributes))
        self.shapes[name] = tuple(shape)
        return name

    def constant(self, array):
        name = "c%d" % len(self.constants)
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        self.shapes[name] = array.shape
        return name

    def weight(self, shape, scale):
        return self.constant(self.source(shape, scale))

    def shape(self, x):
        return self.shapes[x]

    def same(self, op, x, *others, **attributes):
        return self.node(op, x, *others, shape=self.shapes[x], **attributes)

    def add(self, x, y):
        return self.same("Add", x, y)

    def relu(self, x):
        return self.same("Relu", x)

    def gelu(self, x):
        return self.same("Gelu", x, approximate="tanh")

    def softmax(self, x):
        return self.same("Softmax", x, axis=-1)

    def layer_norm(self, x, weight, bias):
        return self.same("LayerNormalization", x, weight, bias, axis=-1, epsilon=1e-5)

    def scale(self, x, by):
        return self.same("Mul", x, self.constant(np.float32(by)))

    def conv(self, x, weight, bias, stride, padding):
        out, _, size, _ = self.shapes[weight]
        side = (self.shapes[x][2] + 2 * padding - size) // stride + 1
        return self.node("Conv", x, weight, bias, shape=(1, out, side, side), strides=[stride] * 2, pads=[padding] * 4)

    def max_pool(self, x):
        n, channels, side, _ = self.shapes[x]
        side = (side - 1) // 2 + 1
        return self.node("MaxPool", x, shape=(n, channels, side, side), kernel_shape=[3, 3], strides=[2, 2],
                         pads=[1, 1, 1, 1])  # fmt: skip

    def without(self, x, axes):
        return [n for a, n in enumerate(self.shapes[x]) if a not in axes]

    def mean(self, x, axes):
        return self.node("ReduceMean", x, self.constant(np.int64(axes)), shape=self.without(x, axes), keepdims=0)

    def max(self, x, axis):
        return self.node("ReduceMax", x, self.constant(np.int64([axis])), shape=self.without(x, (axis,)), keepdims=0)

    def matmul(self, x, y):
        return self.node("MatMul", x, y, shape=(*self.shapes[x][:-1], self.shapes[y][-1]))

    def reshape(self, x, shape):
        return self.node("Reshape", x, self.constant(np.int64(shape)), shape=shape)

    def transpose(self, x, axes):
        return self.node("Transpose", x, shape=[self.shapes[x][a] for a in axes], perm=axes)

    def part(self, x, n):
        return self.node("Gather", x, self.constant(np.int64(n)), shape=self.shapes[x][1:], axis=0)

    def rows(self, table, ids):
        return self.node("Gather", table, ids, shape=(*self.shapes[ids], *self.shapes[table][1:]), axis=0)


def onnx_step(name, sizes, argument):
    import onnxruntime

    b = Onnx()
    onnx = b.onnx
    b.shapes["x"] = argument.shape
    result = models.MODELS[name](b, "x", sizes)
    kind = onnx.TensorProto.FLOAT if argument.dtype == np.float32 else onnx.TensorProto.INT32
    graph = onnx.helper.make_graph(
        b.nodes, name, [onnx.helper.make_tensor_value_info("x", kind, argument.shape)],
        [onnx.helper.make_tensor_value_info(result, onnx.TensorProto.FLOAT, b.shapes[result])], b.constants)  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]
