"""Writes autograd_reference.txt: losses and their gradients, by autograd and NumPy.

    .venv/bin/python tests/gradient/autograd_reference.py > tests/gradient/autograd_reference.txt

One line a tensor: "input" or "expect", name, dtype, shape, ":" and the elements.
"input mlp.w1" is a parameter of the model mlp, "expect mlp.w1" its loss's gradient
by it, "expect mlp.loss" the loss. The models stand in autograd_test.cc under the
same names.
"""

import autograd.numpy as np
import numpy
from autograd import grad

rng = numpy.random.default_rng(1)


def normal(*shape):
    return rng.standard_normal(shape).round(3)


def log_softmax(z):
    z = z - np.max(z, axis=-1, keepdims=True)
    return z - np.log(np.sum(np.exp(z), axis=-1, keepdims=True))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def windows(x, kernel, stride, padding):
    """Every window of the last two axes, as a tuple of its places' values."""
    x = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2), mode="constant")
    rows = (x.shape[2] - kernel[0]) // stride[0] + 1
    columns = (x.shape[3] - kernel[1]) // stride[1] + 1
    for p in range(kernel[0]):
        for q in range(kernel[1]):
            yield p, q, x[:, :, p : p + stride[0] * (rows - 1) + 1 : stride[0],
                          q : q + stride[1] * (columns - 1) + 1 : stride[1]]


def mlp(x, w1, b1, w2, b2, labels):
    hidden = np.maximum(x @ w1 + b1, 0)
    return -np.mean(log_softmax(hidden @ w2 + b2)[np.arange(len(labels)), labels])


def layer_norm(x, w, b):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return np.sum(np.sin(centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + 1e-5) * w + b))


def batch_norm(x, w, b):
    mean = np.mean(x, axis=0)
    variance = np.mean((x - mean) ** 2, axis=0)
    return np.sum(np.tanh((x - mean) * (variance + 1e-3) ** -0.5 * w + b))


def convolution(x, w, b):
    y = b[:, None, None]
    for p, q, window in windows(x, w.shape[2:], (2, 1), (1, 1)):
        y = y + np.einsum("nchw,oc->nohw", window, w[:, :, p, q])
    return np.sum(np.tanh(y))


def max_pool(x, w):
    y = np.max(np.stack([window for _, _, window in windows(x, (2, 2), (2, 2), (0, 0))]), axis=0)
    return np.sum(y**2 * w)


def attention(q, k, v):
    scores = np.einsum("bqd,bkd->bqk", q, k) / np.sqrt(q.shape[-1])
    return np.sum(np.sin(np.einsum("bqk,bkd->bqd", np.exp(log_softmax(scores)), v)))


def activations(x, w):
    sigmoid = 1 / (1 + np.exp(-x))
    return np.sum((gelu(x) + x * sigmoid + np.tanh(x) + np.cos(x) + np.log(1 + np.exp(x))) * w)


def embedding(table, w, ids):
    return np.sum(np.tanh(table[ids]) * w)


def recurrent(x, wx, wh, b):
    h = np.zeros(wh.shape[0])
    for step in x:
        h = np.tanh(step @ wx + h @ wh + b)
    return np.sum(h**2)


def reductions(x):
    return (np.sum(np.prod(x, axis=0)) + np.sum(np.max(x, axis=1) * np.min(x, axis=1)) + np.sum(np.var(x, axis=0)) +
            np.sum(np.cumsum(x, axis=1) ** 2) + np.sum(np.abs(x)) + np.sum(np.abs(x) ** 1.7))


def gathered(x, w, ids):
    return np.sum(x[ids, ::-1] ** 3 * w)


def curvature(x, w, v):
    """How the gradient of a small net's loss by w changes along v."""

    def loss(w):
        return np.sum(np.tanh(x @ w) ** 2)

    return np.sum(grad(loss)(w) * v)


integers = numpy.int32
models = {
    mlp: dict(x=normal(5, 4), w1=normal(4, 6), b1=normal(6), w2=normal(6, 3), b2=normal(3),
              labels=numpy.array([2, 0, 1, 1, 0], integers)),
    layer_norm: dict(x=normal(3, 5), w=normal(5), b=normal(5)),
    batch_norm: dict(x=normal(6, 3), w=normal(3), b=normal(3)),
    convolution: dict(x=normal(2, 3, 6, 5), w=normal(4, 3, 3, 2), b=normal(4)),
    max_pool: dict(x=normal(1, 2, 6, 4), w=normal(1, 2, 3, 2)),
    attention: dict(q=normal(2, 4, 3), k=normal(2, 5, 3), v=normal(2, 5, 3)),
    activations: dict(x=normal(4, 5) * 3, w=normal(5)),
    embedding: dict(table=normal(7, 3), w=normal(2, 4, 3),
                    ids=numpy.array([[0, 3, 3, 6], [1, 3, 0, 5]], integers)),
    recurrent: dict(x=normal(5, 3), wx=normal(3, 4), wh=normal(4, 4), b=normal(4)),
    reductions: dict(x=normal(4, 3)),
    gathered: dict(x=normal(4, 3), w=normal(3, 3), ids=numpy.array([2, 0, 2], integers)),
    curvature: dict(x=normal(3, 4), w=normal(4, 2), v=normal(4, 2)),
}


def line(kind, name, value):
    dtype = str(value.dtype) if kind == "input" else "-"
    return f"{kind} {name} {dtype} {','.join(map(str, value.shape))}: " + " ".join(map(repr, value.ravel().tolist()))


for model, inputs in models.items():
    print("\n".join(line("input", f"{model.__name__}.{name}", value) for name, value in inputs.items()))
    print(line("expect", f"{model.__name__}.loss", numpy.asarray(model(**inputs))))
    for number, (name, value) in enumerate(inputs.items()):
        if value.dtype == float:
            print(line("expect", f"{model.__name__}.{name}", grad(model, number)(*inputs.values())))
