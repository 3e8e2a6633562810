"""ResNet-50, GPT-2 small and a MiniLM with random weights, in a few words that every backend of model_backends.py has.

A model is a function of a backend, whose `weight(shape, scale)` and `factor(shape, scale)` give its
next weight: uniform with deviation `scale`, the same numbers in the same order everywhere. A factor
is what a product or a convolution multiplies with. Batch normalization is part of the weights before
it, as in any network that is deployed.

What a precision means stands in three words. `product`, `matmul` and `conv` sum in float32 (in int8:
in int32, scaled afterwards) and give float32; `narrow` makes of that what goes from layer to layer;
`add` stays in float32 if one of its operands is. All other words compute in float32 and give what
goes from layer to layer.
"""

import time
from typing import Any, Callable, NamedTuple

import numpy as np

PRECISIONS = ("float32", "bfloat16", "int8")


class Sizes:
    """Of a whole model, or of one for a smoke test."""

    def __init__(self, name, small):
        self.side = 64 if small else 224
        self.blocks = (1, 1, 1, 1) if small else (3, 4, 6, 3)
        self.layers = 2 if small else {"gpt2": 12, "minilm": 6}.get(name)
        self.tokens = 8 if small else {"gpt2": 64, "minilm": 128}.get(name)
        self.vocabulary = 1000 if small else {"gpt2": 50257, "minilm": 30522}.get(name)


class Weights:
    """An endless source of them. `seconds` is what making them took: a deployed model's lie in a file."""

    def __init__(self):
        self._numbers, self.seconds = np.random.default_rng(0), 0.0

    def __call__(self, shape, scale):
        return self.made(lambda: (self._numbers.random(shape, np.float32) * 2 - 1) * np.float32(scale * 3**0.5))

    def made(self, make):
        begin = time.perf_counter()
        array = make()
        self.seconds += time.perf_counter() - begin
        return array


def quantized(array, channel):
    """int8, and the scale of each channel along this axis."""
    scale = np.abs(array).max(tuple(a for a in range(array.ndim) if a != channel), keepdims=True) / np.float32(127)
    return np.rint(array / scale).astype(np.int8), scale.ravel()


class Started(NamedTuple):
    """A model that is ready: `step` takes an array and gives one."""

    step: Callable[[Any], Any]
    weights_s: float = 0.0  # in which weights were made
    parts: Callable[[], Any] = dict  # once the first step is over: its seconds by part, since the beginning


def convolution(b, x, channels, kernel, stride=1, gain=1.0):
    entering = b.shape(x)[1]
    weight = b.factor((channels, entering, kernel, kernel), gain * (2 / (entering * kernel * kernel)) ** 0.5)
    return b.narrow(b.conv(x, weight, b.weight((channels,), 0.1), stride, kernel // 2))


def resnet50(b, image, sizes):
    x = b.max_pool(b.relu(convolution(b, b.entering(image), 64, 7, 2)))
    for stage, count in enumerate(sizes.blocks):
        width = 64 << stage
        for block in range(count):
            stride = 2 if block == 0 and stage > 0 else 1
            around = convolution(b, x, 4 * width, 1, stride) if block == 0 else x
            inner = b.relu(convolution(b, x, width, 1))
            inner = b.relu(convolution(b, inner, width, 3, stride))
            x = b.relu(b.add(convolution(b, inner, 4 * width, 1, gain=0.3), around))
    x = b.mean(x, (2, 3))
    return b.add(b.matmul(x, b.weight((2048, 1000), 0.02)), b.weight((1000,), 0.02))


def linear(b, x, leaving, scale=0.02):
    return b.narrow(b.add(b.product(x, b.factor((b.shape(x)[-1], leaving), scale)), b.weight((leaving,), 0.02)))


def norm(b, x):
    width = b.shape(x)[-1]
    return b.layer_norm(x, b.weight((width,), 1.0), b.weight((width,), 0.1))


def attention(b, x, heads, mask=None):
    length, width = b.shape(x)
    each = width // heads
    parts = b.transpose(b.reshape(linear(b, x, 3 * width), (length, 3, heads, each)), (1, 2, 0, 3))
    query, key, value = (b.reshape(b.part(parts, n), (heads, length, each)) for n in range(3))
    scores = b.scale(b.matmul(query, b.transpose(key, (0, 2, 1))), each**-0.5)
    scores = scores if mask is None else b.add(scores, mask)
    seen = b.narrow(b.matmul(b.softmax(scores), value))
    return linear(b, b.reshape(b.transpose(seen, (1, 0, 2)), (length, width)), width)


def gpt2(b, tokens, sizes, width=768, heads=12):
    """The greatest logit after each token: all logits are computed, and few are sent anywhere."""
    words = b.weight((sizes.vocabulary, width), 0.02)
    x = b.add(b.rows(words, tokens), b.weight((sizes.tokens, width), 0.01))
    mask = b.constant(np.triu(np.full((sizes.tokens,) * 2, -1e9, np.float32), 1))
    for _ in range(sizes.layers):
        x = b.add(x, attention(b, norm(b, x), heads, mask))
        x = b.add(x, linear(b, b.gelu(linear(b, norm(b, x), 4 * width)), width))
    return b.max(b.product(norm(b, x), b.turned(words)), 1)


def minilm(b, tokens, sizes, width=384, heads=12):
    """An embedding of a text: the mean of its tokens'."""
    words = b.weight((sizes.vocabulary, width), 0.02)
    x = norm(b, b.add(b.rows(words, tokens), b.weight((sizes.tokens, width), 0.01)))
    for _ in range(sizes.layers):
        x = norm(b, b.add(x, attention(b, x, heads)))
        x = norm(b, b.add(x, linear(b, b.gelu(linear(b, x, 4 * width)), width)))
    return b.mean(x, (0,))


def argument(name, sizes, seed=1):
    rng = np.random.default_rng(seed)
    if name == "resnet50":
        return rng.standard_normal((1, 3, sizes.side, sizes.side)).astype(np.float32)
    return rng.integers(0, sizes.vocabulary, (sizes.tokens,)).astype(np.int32)


MODELS = {"resnet50": resnet50, "gpt2": gpt2, "minilm": minilm}
