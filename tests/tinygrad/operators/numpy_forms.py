"""What numpy has no function for, written with it: the names that a row's numpy form may use besides np and x, y, z, w.

Arguments are float64, or long double where the case's dtype is float64; integers come as they are.
"""

import hashlib
import math

import numpy as np

import values


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(np.asarray(x, np.float64))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(x, axis=-1):
    return x - x.max(axis, keepdims=True) - np.log(np.exp(x - x.max(axis, keepdims=True)).sum(axis, keepdims=True))


def logsumexp(x, axis=None, keepdims=False):
    top = x.max(axis, keepdims=True)
    total = np.log(np.exp(x - top).sum(axis, keepdims=True)) + top
    return total if keepdims else total.squeeze(axis)


def cast(x, to):
    """As the IR's definition has it: floats saturate, NaN is 0 to integers and true to bool; integers keep low bits."""
    if to == "bool":
        return x != 0
    if np.dtype(values.numpy_dtype(to)).kind not in "iu" or x.dtype.kind != "f":
        return x.astype(values.numpy_dtype(to))
    wide, info = np.trunc(np.nan_to_num(x.astype(np.longdouble), nan=0, posinf=np.inf, neginf=-np.inf)), np.iinfo(to)
    least, most = np.longdouble(info.min), np.longdouble(info.max)
    inside = np.clip(wide, least, most)
    return inside.astype(np.uint64 if info.min == 0 else np.int64).astype(to)


def floor_divide(x, y):
    """Floor division as the IR's definition has it: by 0 it is 0, the least by -1 is itself."""
    return np.where(y == 0, 0, np.floor_divide(x, np.where(y == 0, 1, y))).astype(np.result_type(x, y))


def modulo(x, y):
    return np.where(y == 0, x, np.mod(x, np.where(y == 0, 1, y))).astype(np.result_type(x, y))


def digest(x, name):
    """Of the bytes along the last axis."""
    make = lambda row: hashlib.new(name, row.tobytes()).digest(*([16] if name.startswith("shake") else []))
    rows = [np.frombuffer(make(row), np.uint8) for row in x.reshape(-1, x.shape[-1])]
    return np.stack(rows).reshape(x.shape[:-1] + rows[0].shape)


def tree_digest(x):
    """tinygrad's hash of at most 2**20 bytes: of the digests of its blocks."""
    padded = np.pad(x.ravel(), (0, 2**20 - x.size)).reshape(256, 4096)
    return digest(digest(padded, "shake_128").ravel()[None], "shake_128")[0]


def each(value, count):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count


def windows(x, kernel, stride, dilation=1):
    """x[..., spatial] as [..., out, window] over its last len(kernel) axes."""
    count = len(kernel)
    stride, dilation = each(stride, count), each(dilation, count)
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation))
    axes = tuple(range(x.ndim - count, x.ndim))
    seen = np.lib.stride_tricks.sliding_window_view(x, reach, axes)
    steps = tuple(slice(None, None, s) for s in stride)
    return seen[(..., *steps, *(slice(None, None, d) for d in dilation))]


def conv(x, y, stride=1, padding=None, dilation=1, groups=1):
    count = y.ndim - 2
    if padding:
        x = np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in padding])
    parts = []
    for part, weights in zip(np.split(x, groups, 1), np.split(y, groups, 0)):
        seen = windows(part, y.shape[2:], stride, dilation)  # batch, channel, out…, window…
        letters = "xyz"[:count], "uvw"[:count]
        parts.append(np.einsum("bc%s%s,oc%s->bo%s" % (*letters, letters[1], letters[0]), seen, weights))
    return np.concatenate(parts, 1)


def pool(x, function, kernel, stride=None):
    seen = windows(x, kernel, stride or kernel)
    return function(seen, axis=tuple(range(-len(kernel), 0)))


def attention(q, k, v, mask=None):
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    return softmax(scores if mask is None else np.where(mask, scores, -np.inf)) @ v
