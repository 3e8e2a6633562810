"""Random keys and numbers, bit for bit jax's.

What a kind of key does with its words is a function of jax's; it is traced, and becomes the primitives that it is
written in, of which threefry2x32 is the only one of its own.
"""

from __future__ import annotations

import math
from typing import Any, Sequence

import jax
import numpy as np

from kiln import elementwise as ops, movement
from kiln.dtypes import uint32, uint64
from kiln.jax.table import Keys, rule


@rule("threefry2x32")
def threefry2x32(e: Any, key_low: Any, key_high: Any, low: Any, high: Any) -> Any:
    made = ops.threefry(_joined(low, high), _joined(key_low, key_high))
    return [ops.astype(made & 0xFFFFFFFF, uint32), ops.astype(ops.right_shift(made, 32), uint32)]


@rule("iota_2x32_shape")
def iota_2x32(e: Any) -> Any:
    """The number of each element of a shape, in two words."""
    shape = e.shape
    low = movement.reshape(e.arange(math.prod(shape), uint32), shape)
    return [e.graph.zeros(shape, uint32), low]


def _joined(low: Any, high: Any) -> Any:
    return ops.astype(low, uint64) | ops.left_shift(ops.astype(high, uint64), 32)


def kind_of(key: Keys) -> Any:
    return key.kind._impl


def _words_in(value: Any, width: int) -> Any:
    """Of an array whose last axis is the words."""
    if isinstance(value, np.ndarray):
        return tuple(np.array(value[..., word]) for word in range(width))
    return tuple(value[..., word] for word in range(width))


def words_of(run: Any, key: Keys) -> Any:
    """Keys as an array whose last axis is their words."""
    if all(isinstance(word, np.ndarray) for word in key.words):
        return np.stack(key.words, -1)
    return movement.stack([run.lift(word) for word in key.words], -1)


def traced(e: Any, function: Any, shapes: Sequence[Any], values: Sequence[Any]) -> Any:
    """What jax's function gives for values of these shapes."""
    jaxpr = jax.make_jaxpr(function)(*shapes)
    return e.run.closed(jaxpr, values)


def _key_shape(key: Keys) -> Any:
    return jax.ShapeDtypeStruct((*key.words[0].shape, len(key.words)), np.uint32)


def _over(function: Any, rank: int) -> Any:
    """A function of one key for an array of keys."""
    for _ in range(rank):
        function = jax.vmap(function)
    return function


@rule("random_seed", raw=True)
def random_seed(e: Any, seed: Any) -> Any:
    kind = e.params["impl"]
    aval = e.ins[0]
    (words,) = traced(e, _over(kind.seed, len(aval.shape)), [jax.ShapeDtypeStruct(aval.shape, aval.dtype)], [seed])
    return Keys(_words_in(words, kind.key_shape[0]), e.outs[0].dtype)


@rule("random_wrap", raw=True)
def random_wrap(e: Any, words: Any) -> Any:
    return Keys(_words_in(words, e.params["impl"].key_shape[0]), e.outs[0].dtype)


@rule("random_unwrap", raw=True)
def random_unwrap(e: Any, key: Keys) -> Any:
    return words_of(e.run, key)


@rule("random_split", raw=True)
def random_split(e: Any, key: Keys) -> Any:
    kind, shape = kind_of(key), tuple(e.params["shape"])
    split = _over(lambda words: kind.split(words, shape), key.words[0].ndim)
    (words,) = traced(e, split, [_key_shape(key)], [words_of(e.run, key)])
    return Keys(_words_in(words, len(key.words)), key.kind)


@rule("random_fold_in", raw=True)
def random_fold_in(e: Any, key: Keys, data: Any) -> Any:
    kind, shape = kind_of(key), e.outs[0].shape
    size, width = math.prod(shape), len(key.words)

    def fold(words: Any, numbers: Any) -> Any:
        flat = jax.numpy.broadcast_to(words, (*shape, width)).reshape(size, width)
        return jax.vmap(kind.fold_in)(flat, jax.numpy.broadcast_to(numbers, shape).reshape(size)).reshape(*shape, width)

    shapes = [_key_shape(key), jax.ShapeDtypeStruct(e.ins[1].shape, e.ins[1].dtype)]
    (words,) = traced(e, fold, shapes, [words_of(e.run, key), data])
    return Keys(_words_in(words, width), key.kind)


@rule("random_bits", raw=True)
def random_bits(e: Any, key: Keys) -> Any:
    kind, shape, width = kind_of(key), tuple(e.params["shape"]), e.params["bit_width"]
    bits = _over(lambda words: kind.random_bits(words, width, shape), key.words[0].ndim)
    return traced(e, bits, [_key_shape(key)], [words_of(e.run, key)])


@rule("random_clone", raw=True)
def random_clone(e: Any, key: Keys) -> Any:
    return key
