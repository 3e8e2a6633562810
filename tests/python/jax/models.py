"""Three models in plain jax, an MLP, a convolutional net and a transformer; and SGD, momentum and Adam.

A step takes (state, batch) and gives (state, loss), as users of optax write it.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def weights(seed, **shapes):
    """float32 numbers of variance 1 / fan-in by name; zeros for what is one axis."""
    random = np.random.default_rng(seed)
    scale = {name: 1 / np.sqrt(np.prod(shape[:-1])) if len(shape) > 1 else 0.0 for name, shape in shapes.items()}
    return {name: np.float32(random.standard_normal(shape) * scale[name]) for name, shape in shapes.items()}


def cross_entropy(scores, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(scores), labels[..., None], -1))


def mlp(p, batch):
    hidden = jax.nn.relu(batch["x"] @ p["w1"] + p["b1"])
    return cross_entropy(hidden @ p["w2"] + p["b2"], batch["y"])


def cnn(p, batch):
    numbers = ("NHWC", "HWIO", "NHWC")
    x = jax.nn.relu(lax.conv_general_dilated(batch["x"], p["c1"], (1, 1), "SAME", dimension_numbers=numbers) + p["b1"])
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.relu(lax.conv_general_dilated(x, p["c2"], (2, 2), "SAME", dimension_numbers=numbers) + p["b2"])
    return cross_entropy(x.reshape(len(x), -1) @ p["w"] + p["b"], batch["y"])


def norm(x, scale):
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * (1 + scale)


def block(x, p, heads=2):
    """Attention, and a feed-forward net; of (batch, time, features)."""
    rows, time, width = x.shape
    q, k, v = jnp.split(norm(x, p["n1"]) @ p["qkv"], 3, -1)
    q, k, v = (one.reshape(rows, time, heads, width // heads) for one in (q, k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // heads)
    scores = jnp.where(jnp.tril(jnp.ones((time, time), bool)), scores, -1e9)
    x = x + jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape) @ p["out"]
    return x + jax.nn.gelu(norm(x, p["n2"]) @ p["up"]) @ p["down"]


def transformer(p, batch):
    """Predicts each next token; its blocks, of stacked weights, are a scan."""
    tokens = batch["x"]
    x = p["tokens"][tokens[:, :-1]] + p["places"][: tokens.shape[1] - 1]
    blocks = {name: p[name] for name in ("n1", "n2", "qkv", "out", "up", "down")}
    x, _ = lax.scan(lambda x, one: (block(x, one), None), x, blocks)
    return cross_entropy(norm(x, p["n"]) @ p["tokens"].T, tokens[:, 1:])


def sgd(loss, rate=0.1):
    def step(p, batch):
        value, slopes = jax.value_and_grad(loss)(p, batch)
        return jax.tree.map(lambda a, slope: a - rate * slope, p, slopes), value

    return step, lambda p: p


def momentum(loss, rate=0.05, kept=0.9):
    def step(state, batch):
        p, speed = state
        value, slopes = jax.value_and_grad(loss)(p, batch)
        speed = jax.tree.map(lambda s, slope: kept * s + slope, speed, slopes)
        return (jax.tree.map(lambda a, s: a - rate * s, p, speed), speed), value

    return step, lambda p: (p, jax.tree.map(np.zeros_like, p))


def adam(loss, rate=1e-3, b1=0.9, b2=0.999, epsilon=1e-4):
    def step(state, batch):
        p, first, second, count = state
        value, slopes = jax.value_and_grad(loss)(p, batch)
        count = count + 1
        first = jax.tree.map(lambda m, slope: b1 * m + (1 - b1) * slope, first, slopes)
        second = jax.tree.map(lambda v, slope: b2 * v + (1 - b2) * slope**2, second, slopes)
        scale = rate * jnp.sqrt(1 - b2**count) / (1 - b1**count)
        p = jax.tree.map(lambda a, m, v: a - scale * m / (jnp.sqrt(v) + epsilon), p, first, second)
        return (p, first, second, count), value

    return step, lambda p: (p, jax.tree.map(np.zeros_like, p), jax.tree.map(np.zeros_like, p), np.float32(0))


def batches(make, count=4, seed=5):
    random = np.random.default_rng(seed)
    return [make(random) for _ in range(count)]


def rows_of(*shape, classes=10):
    return lambda random: {
        "x": random.standard_normal(shape).astype(np.float32),
        "y": random.integers(0, classes, shape[0]).astype(np.int32),
    }


# By name: (training step, state), the weights, and what makes a batch of 32.
MODELS = {
    "mlp": (momentum(mlp), weights(0, w1=(20, 24), b1=(24,), w2=(24, 10), b2=(10,)), rows_of(32, 20)),
    "cnn": (
        sgd(cnn),
        weights(1, c1=(3, 3, 1, 6), b1=(6,), c2=(3, 3, 6, 8), b2=(8,), w=(32, 10), b=(10,)),
        rows_of(32, 8, 8, 1),
    ),
    "transformer": (
        adam(transformer),
        weights(
            2,
            tokens=(17, 16),
            places=(9, 16),
            n=(16,),
            n1=(2, 16),
            n2=(2, 16),
            qkv=(2, 16, 48),
            out=(2, 16, 16),
            up=(2, 16, 32),
            down=(2, 32, 16),
        ),
        lambda random: {"x": random.integers(0, 17, (32, 10)).astype(np.int32)},
    ),
}
