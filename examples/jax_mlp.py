"""Handwritten digits, learnt by a net in plain jax: by jax on this machine's CPU, and by the same step on a server.

    ./dev run --cpu_devices=4 & python examples/jax_mlp.py      # KILN_ADDR: another server than localhost:7437

What differs is one word, kiln.jax.jit for jax.jit; and for four devices what is to be split over them.
"""
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
import kiln
import kiln.jax
import numpy as np
from sklearn.datasets import load_digits

TRAINED, BATCH, EPOCHS, RATE, KEPT = 1437, 128, 10, 0.1, 0.9
DEVICES = ["CPU:%d" % n for n in range(4)]

def scores(net, x):
    for w, b in net[:-1]: x = jax.nn.relu(x @ w + b)
    return x @ net[-1][0] + net[-1][1]

def loss(net, x, digits):
    picked = jnp.take_along_axis(jax.nn.log_softmax(scores(net, x)), digits[:, None], axis=1)
    return -picked.mean()

def step(state, x, digits):
    net, speed = state
    value, slopes = jax.value_and_grad(loss)(net, x, digits)
    speed = jax.tree.map(lambda v, slope: KEPT * v + slope, speed, slopes)
    return (jax.tree.map(lambda w, v: w - RATE * v, net, speed), speed), value

def train(jitted, pictures, digits):
    """The net after all epochs, as numpy's arrays."""
    random = np.random.default_rng(1)
    net = [(random.normal(0, scale, (rows, columns)).astype(np.float32), np.zeros(columns, np.float32))
           for rows, columns, scale in ((64, 48, 0.2), (48, 32, 0.2), (32, 10, 0.2))]
    state = net, jax.tree.map(np.zeros_like, net)
    for _ in range(EPOCHS):
        order = random.permutation(TRAINED)
        for rows in (order[n:n + BATCH] for n in range(0, TRAINED - BATCH + 1, BATCH)):
            state, value = jitted(state, pictures[rows], digits[rows])
    return jax.tree.map(np.asarray, state[0])

def main():
    pictures, digits = load_digits(return_X_y=True)
    pictures, digits = (pictures / 16).astype(np.float32), digits.astype(np.int32)
    wanted = train(jax.jit(step), pictures, digits)
    apart = []
    with kiln.connect(os.environ.get("KILN_ADDR", "localhost:7437")):
        four = kiln.jax.jit(step, devices=DEVICES, split_argnums=(1, 2))
        for name, jitted in (("one device", kiln.jax.jit(step)), ("four", four)):
            net = train(jitted, pictures, digits)
            apart.append(max(jax.tree.leaves(jax.tree.map(lambda a, b: float(np.abs(a - b).max()), net, wanted))))
            right = (kiln.jax.jit(scores)(net, pictures[TRAINED:]).numpy().argmax(1) == digits[TRAINED:]).mean()
            print("%s: reads %.4f of the new ones; weights differ from jax's by %.1e" % (name, right, apart[-1]))
    return apart, right

if __name__ == "__main__": main()
