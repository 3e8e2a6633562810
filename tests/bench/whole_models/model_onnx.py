"""models.py's words as an ONNX graph with its weights in it, for onnxruntime and OpenVINO.

prepare() writes what the parties read: model.onnx, which onnxruntime's own tools have quantized for int8;
expected.json, the result of the float32 graph by onnxruntime; scales.json, what these tools found to be
the scales of what goes from layer to layer; and stored.onnx, where OpenVINO is to quantize while it runs:
it takes three times as long for the operators by which onnxruntime's tools have that done.
"""

import json
import os
import pathlib

import numpy as np

import models


CALIBRATION = range(2, 6)  # seeds of arguments
GROUP = "128"  # numbers that OpenVINO gives one scale while it runs: its fastest here


class Onnx:
    """In float32. `still` are the tensors whose scales a quantized convolution has beforehand, in models.py's order."""

    def __init__(self):
        import onnx

        self.onnx, self.source = onnx, models.Weights()
        self.nodes, self.constants, self.shapes, self.still = [], [], {}, []

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

    factor = weight

    def narrow(self, x):
        return x

    def entering(self, x):
        self.still.append(x)
        return x

    def shape(self, x):
        return self.shapes[x]

    def same(self, op, x, *others, **attributes):
        return self.node(op, x, *others, shape=self.shapes[x], **attributes)

    def add(self, x, y):
        return self.same("Add", x, y)

    def relu(self, x):
        self.still.append(self.same("Relu", x))
        return self.still[-1]

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

    product = matmul

    def turned(self, table):
        return self.transpose(table, (1, 0))

    def reshape(self, x, shape):
        return self.node("Reshape", x, self.constant(np.int64(shape)), shape=shape)

    def transpose(self, x, axes):
        return self.node("Transpose", x, shape=[self.shapes[x][a] for a in axes], perm=axes)

    def part(self, x, n):
        return self.node("Gather", x, self.constant(np.int64(n)), shape=self.shapes[x][1:], axis=0)

    def rows(self, table, ids):
        return self.node("Gather", table, ids, shape=(*self.shapes[ids], *self.shapes[table][1:]), axis=0)


class Separate(Onnx):
    """All factors are constants, as it takes to have them quantized."""

    def turned(self, table):
        array = next(self.onnx.numpy_helper.to_array(one) for one in self.constants if one.name == table)
        return self.separate(array.T)

    def separate(self, array):
        return self.constant(array)


class Stored(Separate):
    """Factors of products are int8 with a scale for each channel that leaves."""

    def factor(self, shape, scale):
        return self.separate(self.source(shape, scale))

    def separate(self, array):
        values, scale = models.quantized(array, 1)
        return self.node("DequantizeLinear", self.constant(values), self.constant(scale), shape=array.shape, axis=1)


def written(b, name, sizes, path, rows=None):
    """The model in a file; gives its builder. `rows` names the first size, which is then any, of a model whose nodes do
    not have it: ResNet-50."""
    onnx, argument = b.onnx, models.argument(name, sizes)
    b.shapes["x"] = argument.shape
    result = models.MODELS[name](b, "x", sizes)
    kind = onnx.helper.np_dtype_to_tensor_dtype(argument.dtype)
    entering, leaving = ([rows or shape[0], *shape[1:]] for shape in (argument.shape, b.shapes[result]))
    entry = onnx.helper.make_tensor_value_info("x", kind, entering)
    leaving = onnx.helper.make_tensor_value_info(result, onnx.TensorProto.FLOAT, leaving)
    graph = onnx.helper.make_graph(b.nodes, name, [entry], [leaving], b.constants)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9), path)
    return b


class Calibration:
    """What onnxruntime's tools read arguments from."""

    def __init__(self, name, sizes):
        self.left = iter([{"x": models.argument(name, sizes, seed)} for seed in CALIBRATION])

    def get_next(self):
        return next(self.left, None)


def quantized(name, sizes, source, path):
    """Of products the weights, and what they take while it runs; of convolutions all beforehand, for each channel.

    What they take is unsigned: with signed numbers onnxruntime takes two and a half times as long, OpenVINO eight.
    """
    from onnxruntime import quantization

    b, kinds = written(Separate(), name, sizes, source), quantization.QuantType
    if name != "resnet50":
        written(Stored(), name, sizes, os.path.join(os.path.dirname(path), "stored.onnx"))
        quantization.quantize_dynamic(source, path, ["MatMul"], per_channel=True, weight_type=kinds.QInt8)
        return
    quantization.quantize_static(source, path, Calibration(name, sizes), per_channel=True,
                                 op_types_to_quantize=["Conv", "Relu", "Add", "MaxPool"],
                                 activation_type=kinds.QUInt8, weight_type=kinds.QInt8)  # fmt: skip
    constants = {one.name: one for one in b.onnx.load(path).graph.initializer}

    def greatest(tensor):
        scale, zero = (b.onnx.numpy_helper.to_array(constants[tensor + part]).item()
                       for part in ("_scale", "_zero_point"))  # fmt: skip
        return scale * max(255 - zero, zero)

    scales = [greatest(tensor) / 127 for tensor in b.still]
    pathlib.Path(path).with_name("scales.json").write_text(json.dumps(scales))


def prepare(name, sizes, precision, folder):
    path = pathlib.Path(folder)
    written(Onnx(), name, sizes, str(path / "float32.onnx"))
    result = session(str(path / "float32.onnx")).run(None, {"x": models.argument(name, sizes)})[0]
    (path / "expected.json").write_text(json.dumps(result.ravel().tolist()))
    if precision == "int8":
        quantized(name, sizes, str(path / "source.onnx"), str(path / "model.onnx"))
    else:
        (path / "float32.onnx").rename(path / "model.onnx")


def session(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def onnx_step(name, sizes, precision, folder):
    made = session(os.path.join(folder, "model.onnx"))
    return models.Started(lambda x: made.run(None, {"x": x})[0])


def openvino_step(name, sizes, precision, folder):
    """In int8 it computes in float32 what the file says is not quantized, as the others do."""
    import openvino

    said = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": len(os.sched_getaffinity(0)),
            "INFERENCE_PRECISION_HINT": "bf16" if precision == "bfloat16" else "f32"}  # fmt: skip
    path = os.path.join(folder, "stored.onnx")
    if os.path.exists(path):
        said["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = GROUP
    else:
        path = os.path.join(folder, "model.onnx")
    request = openvino.Core().compile_model(path, "CPU", said).create_infer_request()
    return models.Started(lambda x: request.infer({"x": x}, share_inputs=True)[0].copy())
