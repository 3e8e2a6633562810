"""ResNet-18 and GPT-2 with random weights, as tinygrad's users write them; what tinygrad_bench.py times.

MODELS gives, by name, a function of `small` that makes a step and its input: the
step is one forward pass, all on tinygrad's default device. The weights are uniform,
as wide as keeps the numbers of deep layers near 1, and the same on every device.
"""

import numpy as np
from tinygrad import Tensor, nn

RNG = np.random.default_rng(0)


def fill(model):
    """Random weights that do not depend on the device that tinygrad would draw them on."""
    for name, parameter in nn.state.get_state_dict(model).items():
        fan_in = max(1, parameter.numel() // max(1, parameter.shape[0])) if parameter.ndim > 1 else 1
        if name.endswith("num_batches_tracked"):
            continue
        if parameter.ndim == 1:
            values = np.full(parameter.shape, 1.0 if name.endswith(("weight", "running_var")) else 0.0)
        else:
            values = RNG.uniform(-1, 1, parameter.shape) * (3 / fan_in) ** 0.5
        parameter.replace(Tensor(values.astype(np.float32))).realize()
    return model


class Block:
    """Two convolutions and a way around them."""

    def __init__(self, channels_in, channels, stride):
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm(channels)
        self.around = []
        if stride != 1 or channels_in != channels:
            self.around = [nn.Conv2d(channels_in, channels, 1, stride=stride, bias=False), nn.BatchNorm(channels)]

    def __call__(self, x):
        inner = self.norm1(self.conv1(x)).relu()
        return (self.norm2(self.conv2(inner)) + x.sequential(self.around)).relu()


class ResNet18:
    def __init__(self):
        self.conv = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.norm = nn.BatchNorm(64)
        plan = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
        self.blocks = [b for i, o, stride in plan for b in (Block(i, o, stride), Block(o, o, 1))]
        self.head = nn.Linear(512, 1000)

    def __call__(self, x):
        x = self.norm(self.conv(x)).relu().max_pool2d(3, stride=2, padding=1)
        return self.head(x.sequential(self.blocks).mean((2, 3)))


class Attention:
    def __init__(self, width, heads):
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.take = nn.Linear(width, 3 * width)
        self.give = nn.Linear(width, width)

    def __call__(self, x):
        size, length, width = x.shape
        parts = self.take(self.norm(x)).reshape(size, length, 3, self.heads, width // self.heads)
        query, key, value = (parts[:, :, n].transpose(1, 2) for n in range(3))
        seen = query.scaled_dot_product_attention(key, value, is_causal=True)
        return x + self.give(seen.transpose(1, 2).reshape(size, length, width))


class Dense:
    def __init__(self, width):
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, 4 * width)
        self.outer = nn.Linear(4 * width, width)

    def __call__(self, x):
        return x + self.outer(self.inner(self.norm(x)).gelu())


class GPT2:
    """The logits of the token that follows."""

    def __init__(self, layers=12, width=768, heads=12, vocabulary=50257):
        self.words = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(1024, width)
        self.layers = [layer for _ in range(layers) for layer in (Attention(width, heads), Dense(width))]
        self.norm = nn.LayerNorm(width)

    def __call__(self, tokens):
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        return self.norm(x.sequential(self.layers)[:, -1]) @ self.words.weight.T


def resnet18(small):
    side = 32 if small else 224
    return fill(ResNet18()), RNG.standard_normal((1, 3, side, side)).astype(np.float32)


def gpt2(small):
    model = GPT2(layers=2, width=64, heads=4, vocabulary=1000) if small else GPT2()
    return fill(model), RNG.integers(0, 1000, (1, 8 if small else 32)).astype(np.int32)


MODELS = {"resnet18": resnet18, "gpt2": gpt2}
