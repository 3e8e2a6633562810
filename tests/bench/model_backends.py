"""What models.py's words are in Kiln, onnxruntime, JAX, torch and tinygrad.

BACKENDS gives, by name, a function of (model, its sizes, an argument) that makes a
step: a function of the argument that gives an array. Weights stay where it computes.
"""

import os

import numpy as np

import models


class Traced:
    """The words that numpy-like tensors share; `self.np` is their module."""

    def __init__(self):
        self.source = models.weights()

    def shape(self, x):
        return x.shape

    def add(self, x, y):
        return x + y

    def scale(self, x, by):
        return x * by

    def matmul(self, x, y):
        return x @ y

    def reshape(self, x, shape):
        return x.reshape(shape)

    def part(self, x, n):
        return x[n]

    def rows(self, table, ids):
        return table[ids]


class Kiln(Traced):
    def __init__(self):
        import kiln

        super().__init__()
        self.kiln, self.graph, self.arrays = kiln, kiln.Graph(), []
        self.transpose, self.relu, self.gelu = kiln.transpose, kiln.relu, kiln.gelu
        self.softmax, self.layer_norm = kiln.softmax, kiln.layer_norm
        self.mean, self.max = kiln.mean, kiln.max

    def weight(self, shape, scale):
        return self.constant(self.source(shape, scale))

    def constant(self, array):
        self.arrays.append(array)
        return self.graph.param("w%d" % len(self.arrays), array.shape, "float32")

    def rows(self, table, ids):
        return self.kiln.take(table, ids, 0)

    def windows(self, x, axis, size, stride):
        """A new last axis of `size`: the axis end to end, cut into rows that are longer by one."""
        count = (x.shape[axis] - size) // stride + 1
        x = self.kiln.pad(x, [(0, max(0, count * stride - n) if a == axis else 0) for a, n in enumerate(x.shape)])
        before, length, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
        tape = self.kiln.tile(x, [-(-size * (length + 1) // length) if a == axis else 1 for a in range(x.ndim)])

        def cut(x, axis, count):
            return self.kiln.shrink(x, [(0, count if a == axis else n) for a, n in enumerate(x.shape)])

        rows = cut(tape, axis, size * (length + 1)).reshape(*before, size, length + 1, *after)
        rows = cut(rows, axis + 1, count * stride).reshape(*before, size, count, stride, *after)
        rows = cut(rows, axis + 2, 1).reshape(*before, size, count, *after)
        return self.kiln.moveaxis(rows, axis, rows.ndim - 1)

    def patches(self, x, size, stride, padding, value=0.0):
        x = self.kiln.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)], value)
        return self.windows(self.windows(x, 2, size, stride), 3, size, stride)

    def conv(self, x, weight, bias, stride, padding):
        out, entering, size, _ = weight.shape
        patches = self.kiln.transpose(self.patches(x, size, stride, padding), (0, 2, 3, 1, 4, 5))
        n, height, width = patches.shape[:3]
        product = patches.reshape(n, 1, height, width, entering, size, size) * weight.reshape(
            1, out, 1, 1, entering, size, size)  # fmt: skip
        return product.sum((4, 5, 6)) + bias.reshape(1, out, 1, 1)

    def max_pool(self, x):
        return self.kiln.max(self.patches(x, 3, 2, 1, -np.inf), (4, 5))


def kiln_step(name, sizes, argument):
    import kiln

    b = Kiln()
    entry = b.graph.param("x", argument.shape, argument.dtype.name)
    b.graph.output(models.MODELS[name](b, entry, sizes))
    client = kiln.connect(os.environ["KILN_ADDR"])
    program = client.compile(b.graph)
    resident = {"w%d" % (i + 1): client.buffer(array) for i, array in enumerate(b.arrays)}
    return lambda x: program(x=x, **resident)


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


class Jax(Traced):
    """Its weights are arguments of the compiled function: `given`, in their order."""

    def __init__(self, given=None):
        import jax

        super().__init__()
        self.jax, self.given, self.arrays = jax, given, []
        self.relu, self.softmax, self.gelu = jax.nn.relu, jax.nn.softmax, jax.nn.gelu
        self.mean, self.max, self.transpose = jax.numpy.mean, jax.numpy.max, jax.numpy.transpose
        self.constant = jax.numpy.asarray

    def weight(self, shape, scale):
        if self.given is None:
            self.arrays.append(self.source(shape, scale))
            return self.constant(self.arrays[-1])
        self.arrays.append(None)
        return self.given[len(self.arrays) - 1]

    def layer_norm(self, x, weight, bias):
        away = x - x.mean(-1, keepdims=True)
        return away * self.jax.lax.rsqrt((away * away).mean(-1, keepdims=True) + 1e-5) * weight + bias

    def conv(self, x, weight, bias, stride, padding):
        return self.jax.lax.conv_general_dilated(x, weight, (stride,) * 2, ((padding, padding),) * 2) + bias[:, None, None]

    def max_pool(self, x):
        return self.jax.lax.reduce_window(x, -np.inf, self.jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2),
                                          ((0, 0), (0, 0), (1, 1), (1, 1)))  # fmt: skip


def jax_step(name, sizes, argument):
    import jax

    first = Jax()
    jax.eval_shape(lambda x: models.MODELS[name](first, x, sizes), argument)
    arrays = [jax.device_put(array) for array in first.arrays]
    traced = models.MODELS[name]

    @jax.jit
    def step(given, x):
        b = Jax(given)
        b.source = lambda shape, scale: None  # tracing draws no numbers
        return traced(b, x, sizes)

    return lambda x: np.asarray(step(arrays, x))


class Tinygrad(Traced):
    def __init__(self):
        from tinygrad import Tensor

        super().__init__()
        self.tensor, self.arrays = Tensor, []
        self.relu, self.softmax, self.gelu = Tensor.relu, Tensor.softmax, Tensor.gelu
        self.mean, self.max, self.transpose = Tensor.mean, Tensor.max, Tensor.permute

    def weight(self, shape, scale):
        return self.constant(self.source(shape, scale))

    def constant(self, array):
        self.arrays.append(self.tensor(array).realize())
        return self.arrays[-1]

    def layer_norm(self, x, weight, bias):
        return x.layernorm(eps=1e-5) * weight + bias

    def conv(self, x, weight, bias, stride, padding):
        return x.conv2d(weight, bias, stride=stride, padding=padding)

    def max_pool(self, x):
        return x.max_pool2d(3, stride=2, padding=1)


class Again(Tinygrad):
    """The same weights once more: the function that is captured is run several times."""

    def __init__(self, arrays):
        super().__init__()
        self.left = iter(arrays)

    def weight(self, shape, scale):
        return next(self.left)

    def constant(self, array):
        return next(self.left)


def tinygrad_step(name, sizes, argument):
    from tinygrad import Tensor, TinyJit

    first = Tinygrad()
    models.MODELS[name](first, Tensor(argument), sizes)
    step = TinyJit(lambda x: models.MODELS[name](Again(first.arrays), x, sizes).realize())
    return lambda x: step(Tensor(x).realize()).numpy()


BACKENDS = {"Kiln": kiln_step, "onnxruntime": onnx_step, "XLA": jax_step, "tinygrad": tinygrad_step}
