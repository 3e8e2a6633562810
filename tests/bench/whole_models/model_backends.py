"""What models.py's words are in JAX and tinygrad, and all backends by name.

BACKENDS gives a function of (model, its sizes, a precision, the folder of model_onnx.prepare) that makes
a models.Started. Weights stay where it computes.
"""


import numpy as np

import models


class Traced:
    """The words that numpy-like tensors share."""

    def __init__(self):
        self.source = models.Weights()

    def shape(self, x):
        return x.shape

    # -- precisions: as it is, unless a backend says otherwise

    def wide(self, x):
        return x

    def narrow(self, x):
        return x

    def entering(self, x):
        return self.narrow(x)

    def computed(self, function):
        """In float32; the first argument is a tensor."""
        return lambda x, *more: self.narrow(function(self.wide(x), *more))

    def factor(self, shape, scale):
        return self.weight(shape, scale)

    def turned(self, table):
        """The factor of a product with each row of a table."""
        return self.transpose(table, (1, 0))

    # -- words

    def add(self, x, y):
        total = self.wide(x) + self.wide(y)
        return total if "float32" in (x.dtype.name, y.dtype.name) else self.narrow(total)

    def scale(self, x, by):
        return x * by

    def matmul(self, x, y):
        return self.wide(x) @ self.wide(y)

    def product(self, x, factor):
        return self.matmul(x, factor)

    def reshape(self, x, shape):
        return x.reshape(shape)

    def part(self, x, n):
        return x[n]

    def rows(self, table, ids):
        return table[ids]


class Jax(Traced):
    """Its weights are arguments of the compiled function: `given`, in their order."""

    def __init__(self, precision, given=None):
        import jax

        super().__init__()
        self.jax, self.given, self.arrays = jax, given, []
        self.kind = jax.numpy.dtype(precision)
        self.softmax, self.gelu = self.computed(jax.nn.softmax), self.computed(jax.nn.gelu)
        self.mean, self.max = self.computed(jax.numpy.mean), jax.numpy.max
        self.transpose, self.relu, self.constant = jax.numpy.transpose, jax.nn.relu, jax.numpy.asarray

    def wide(self, x):
        return x.astype("float32")

    def narrow(self, x):
        return x.astype(self.kind)

    def weight(self, shape, scale):
        if self.given is None:
            array = self.source(shape, scale)
            self.arrays.append(self.source.made(lambda: array.astype(self.kind)))
            return self.constant(self.arrays[-1])
        self.arrays.append(None)
        return self.given[len(self.arrays) - 1]

    def matmul(self, x, y):
        return self.jax.numpy.matmul(x, y, preferred_element_type="float32")

    def layer_norm(self, x, weight, bias):
        away = self.wide(x)
        away = away - away.mean(-1, keepdims=True)
        near = away * self.jax.lax.rsqrt((away * away).mean(-1, keepdims=True) + 1e-5)
        return self.narrow(near * self.wide(weight) + self.wide(bias))

    def conv(self, x, weight, bias, stride, padding):
        sums = self.jax.lax.conv_general_dilated(x, weight, (stride,) * 2, ((padding, padding),) * 2,
                                                 preferred_element_type="float32")  # fmt: skip
        return sums + self.wide(bias)[:, None, None]

    def max_pool(self, x):
        least = np.asarray(-np.inf, x.dtype)
        return self.jax.lax.reduce_window(x, least, self.jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2),
                                          ((0, 0), (0, 0), (1, 1), (1, 1)))  # fmt: skip


def jax_step(name, sizes, precision, folder):
    import jax

    first, argument = Jax(precision), models.argument(name, sizes)
    jax.eval_shape(lambda x: models.MODELS[name](first, x, sizes), argument)
    arrays = [jax.device_put(array) for array in first.arrays]

    @jax.jit
    def step(given, x):
        b = Jax(precision, given)
        b.source = None  # tracing makes no weights
        return models.MODELS[name](b, x, sizes)

    return models.Started(lambda x: np.asarray(step(arrays, x)), first.source.seconds)


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


def tinygrad_step(name, sizes, precision, folder):
    from tinygrad import Tensor, TinyJit

    first = Tinygrad()
    models.MODELS[name](first, Tensor(models.argument(name, sizes)), sizes)
    step = TinyJit(lambda x: models.MODELS[name](Again(first.arrays), x, sizes).realize())
    return models.Started(lambda x: step(Tensor(x).realize()).numpy(), first.source.seconds)
