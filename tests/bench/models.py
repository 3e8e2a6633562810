"""ResNet-50 and GPT-2 small with random weights, in a few words that every backend of model_backends.py has.

A model is a function of a backend, whose `weight(shape, scale)` gives its next weight:
uniform with deviation `scale`, the same numbers in the same order everywhere. Batch
normalization is part of the weights before it, as in any network that is deployed.
"""

import numpy as np


class Sizes:
    """Of a whole model, or of one for a smoke test."""

    def __init__(self, small):
        self.side = 64 if small else 224
        self.blocks = (1, 1, 1, 1) if small else (3, 4, 6, 3)
        self.layers = 2 if small else 12
        self.tokens = 8 if small else 64
        self.vocabulary = 1000 if small else 50257


def weights():
    """An endless source of them: source(shape, scale)."""
    rng = np.random.default_rng(0)
    return lambda shape, scale: (rng.random(shape, np.float32) * 2 - 1) * np.float32(scale * 3**0.5)


def convolution(b, x, channels, kernel, stride=1, gain=1.0):
    entering = b.shape(x)[1]
    weight = b.weight((channels, entering, kernel, kernel), gain * (2 / (entering * kernel * kernel)) ** 0.5)
    return b.conv(x, weight, b.weight((channels,), 0.1), stride, kernel // 2)


def resnet50(b, image, sizes):
    x = b.max_pool(b.relu(convolution(b, image, 64, 7, 2)))
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
    return b.add(b.matmul(x, b.weight((b.shape(x)[-1], leaving), scale)), b.weight((leaving,), 0.02))


def norm(b, x):
    width = b.shape(x)[-1]
    return b.layer_norm(x, b.weight((width,), 1.0), b.weight((width,), 0.1))


def gpt2(b, tokens, sizes, width=768, heads=12):
    """The greatest logit after each token: all logits are computed, and few are sent anywhere."""
    length, each = sizes.tokens, width // heads
    words = b.weight((sizes.vocabulary, width), 0.02)
    x = b.add(b.rows(words, tokens), b.weight((length, width), 0.01))
    mask = b.constant(np.triu(np.full((length, length), -1e9, np.float32), 1))
    for _ in range(sizes.layers):
        parts = b.transpose(b.reshape(linear(b, norm(b, x), 3 * width), (length, 3, heads, each)), (1, 2, 0, 3))
        query, key, value = (b.reshape(b.part(parts, n), (heads, length, each)) for n in range(3))
        scores = b.scale(b.matmul(query, b.transpose(key, (0, 2, 1))), each**-0.5)
        seen = b.matmul(b.softmax(b.add(scores, mask)), value)
        x = b.add(x, linear(b, b.reshape(b.transpose(seen, (1, 0, 2)), (length, width)), width))
        x = b.add(x, linear(b, b.gelu(linear(b, norm(b, x), 4 * width)), width))
    return b.max(b.matmul(norm(b, x), b.transpose(words, (1, 0))), 1)


def argument(name, sizes):
    rng = np.random.default_rng(1)
    if name == "resnet50":
        return rng.standard_normal((1, 3, sizes.side, sizes.side)).astype(np.float32)
    return rng.integers(0, sizes.vocabulary, (sizes.tokens,)).astype(np.int32)


MODELS = {"resnet50": resnet50, "gpt2": gpt2}
