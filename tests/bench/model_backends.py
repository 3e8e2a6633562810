"""What models.py's words are in Kiln, onnxruntime, JAX, torch and tinygrad.

BACKENDS gives, by name, a function of (model, its sizes, an argument) that makes a
step: a function of the argument that gives an array. Weights stay where it computes.
"""

import os

import numpy as np

import models
from model_onnx import onnx_step


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
    program = client.compile(b.graph, constants=["w%d" % (i + 1) for i in range(len(b.arrays))])
    resident = {"w%d" % (i + 1): client.buffer(array) for i, array in enumerate(b.arrays)}
    return lambda x: program(x=x, **resident)


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
