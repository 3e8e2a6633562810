"""What models.py's words are in Kiln, in each precision, and what the first call's time goes to.

float32: as they are read. bfloat16: weights and what goes from layer to layer are bfloat16, factors are
widened to float32, sums are float32's; it takes the CPU's bfloat16 units if fast_math allows it.
int8: factors are int8 with a scale for each channel that leaves. What a product takes is scaled by its
rows' greatest magnitudes; what a convolution takes, by those that onnxruntime found (scales.json).
"""

import json
import os
import pathlib
import time
from typing import Any, NamedTuple

import numpy as np

import models
from model_backends import Traced

LEAST = 1e-30  # a row of zeros has a scale, too


class Scaled(NamedTuple):
    """`values` (int8) times `scale`: a number, or a tensor with one for each channel that leaves."""

    values: Any
    scale: Any

    @property
    def shape(self):
        return self.values.shape


class Kiln(Traced):
    """In float32."""

    def __init__(self):
        import kiln

        super().__init__()
        self.kiln, self.graph, self.arrays = kiln, kiln.Graph(), []
        self.softmax, self.gelu, self.mean = (self.computed(one) for one in (kiln.softmax, kiln.gelu, kiln.mean))
        self.transpose, self.max, self.relu = kiln.transpose, kiln.max, kiln.relu

    def wide(self, x):
        return x.astype("float32")

    def weight(self, shape, scale):
        return self.param(self.source(shape, scale))

    def param(self, array):
        self.arrays.append(array)
        return self.graph.param("w%d" % len(self.arrays), array.shape, array.dtype.name)

    constant = param

    def rows(self, table, ids):
        return self.kiln.take(table, ids, 0)

    def layer_norm(self, x, weight, bias):
        return self.narrow(self.kiln.layer_norm(self.wide(x), self.wide(weight), self.wide(bias)))

    # -- convolutions

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

    def patches(self, x, size, stride, padding, value):
        x = self.kiln.pad(x, [(0, 0), (0, 0), (padding, padding), (padding, padding)], value)
        return self.windows(self.windows(x, 2, size, stride), 3, size, stride)

    def convolved(self, x, weight, stride, padding, sums):
        """Its sums are of this dtype."""
        out, entering, size, _ = weight.shape
        if x.dtype.itemsize == 1 and entering % 4:  # zeros, so that a pixel's channels are whole words to units of dots
            more = [(0, 0), (0, -entering % 4), (0, 0), (0, 0)]
            x, weight, entering = self.kiln.pad(x, more), self.kiln.pad(weight, more), entering + -entering % 4
        patches = self.kiln.transpose(self.patches(x, size, stride, padding, 0), (0, 2, 3, 1, 4, 5))
        n, height, width = patches.shape[:3]
        product = patches.astype(sums).reshape(n, 1, height, width, entering, size, size) * weight.astype(
            sums).reshape(1, out, 1, 1, entering, size, size)  # fmt: skip
        return product.sum((4, 5, 6), dtype=sums)

    def conv(self, x, weight, bias, stride, padding):
        return self.convolved(x, weight, stride, padding, "float32") + self.wide(bias).reshape(1, -1, 1, 1)

    def pooled(self, x, least):
        return self.kiln.max(self.patches(x, 3, 2, 1, least), (4, 5))

    def max_pool(self, x):
        return self.pooled(x, -np.inf)


class Narrow(Kiln):
    """In bfloat16."""

    def weight(self, shape, scale):
        import ml_dtypes

        array = self.source(shape, scale)
        return self.param(self.source.made(lambda: array.astype(ml_dtypes.bfloat16)))

    def narrow(self, x):
        return x.astype("bfloat16")


class Quantized(Kiln):
    """In int8. `scales` are of a convolution's input, and then of each relu."""

    def __init__(self, scales):
        super().__init__()
        self.scales, self.numbers = iter(scales), {}
        self.relu = lambda x: self.still(self.kiln.relu(x))

    def wide(self, x):
        return x.values.astype("float32") * x.scale if isinstance(x, Scaled) else x

    def weight(self, shape, scale):
        array = self.source(shape, scale)
        tensor = self.param(array)
        self.numbers[tensor.node] = array
        return tensor

    def factor(self, shape, scale):
        return self.scaled(self.source(shape, scale), 1 if len(shape) == 2 else 0)

    def turned(self, table):
        """The table stays float32 for who looks rows up."""
        array = self.numbers[table.node]
        return self.scaled(self.source.made(lambda: np.ascontiguousarray(array.T)), 1)

    def scaled(self, array, channel):
        values, scale = self.source.made(lambda: models.quantized(array, channel))
        return Scaled(self.param(values), self.param(scale))

    def rounded(self, x, scale):
        return self.kiln.clip((x / scale).round(), -127, 127).astype("int8")

    def still(self, x):
        """By the next scale that was found beforehand."""
        scale = next(self.scales)
        return Scaled(self.rounded(x, scale), scale)

    entering = still

    def add(self, x, y):
        return self.wide(x) + self.wide(y)

    def product(self, x, factor):
        scale = self.kiln.maximum(self.kiln.max(abs(x), -1, keepdims=True) / 127, LEAST)
        sums = self.rounded(x, scale).astype("int32") @ factor.values.astype("int32")
        return sums.astype("float32") * (scale * factor.scale)

    def conv(self, x, weight, bias, stride, padding):
        sums = self.convolved(x.values, weight.values, stride, padding, "int32")
        return sums.astype("float32") * (weight.scale * x.scale).reshape(1, -1, 1, 1) + bias.reshape(1, -1, 1, 1)

    def max_pool(self, x):
        return Scaled(self.pooled(x.values, -128), x.scale)


def backend(precision, folder):
    if precision == "int8":
        scales = pathlib.Path(folder, "scales.json")
        return Quantized(json.loads(scales.read_text()) if scales.exists() else ())
    return Narrow() if precision == "bfloat16" else Kiln()


def trace(client, **asked):
    from kiln.v1 import debug_service_pb2

    return client._connection.call("DebugService.Trace", debug_service_pb2.TraceRequest(**asked))


def run_parts(client):
    """Of the last run: what constants took to be packed, which is before its first kernel, and the rest."""
    kept = trace(client).runs
    run = [one for one in kept if not one.kernel][-1]
    begun = min(one.begin_ns for one in kept if one.kernel and one.begin_ns >= run.begin_ns)
    return {"packing": (begun - run.begin_ns) / 1e9, "run": (run.end_ns - begun) / 1e9}


def kiln_step(name, sizes, precision, folder):
    parts, begin = {}, time.perf_counter()

    def lap(part):
        nonlocal begin
        parts[part], begin = time.perf_counter() - begin, time.perf_counter()

    import kiln

    lap("import")
    client = kiln.connect(os.environ["KILN_ADDR"])
    lap("connect")
    b = backend(precision, folder)
    argument = models.argument(name, sizes)
    b.graph.output(models.MODELS[name](b, b.graph.param("x", argument.shape, argument.dtype.name), sizes))
    lap("graph")
    parts["graph"] -= b.source.seconds
    names = ["w%d" % (i + 1) for i in range(len(b.arrays))]
    program = client.compile(b.graph, constants=names, fast_math=precision == "bfloat16")
    lap("compile")
    weights = {name: client.buffer(array) for name, array in zip(names, b.arrays)}
    client.fence()
    lap("upload")
    trace(client, launch_seconds=5)  # the first run's

    def known():
        megabytes = sum(array.nbytes for array in b.arrays) / 1e6
        return {**parts, **run_parts(client), "server's compile": program.compile_us / 1e6, "megabytes": megabytes}

    return models.Started(lambda x: program(x=x, **weights), b.source.seconds, known)
