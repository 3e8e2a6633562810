"""Writes ops_reference.txt: what the builder's functions must compute, by NumPy.

    python3 tests/client/ops_reference.py > tests/client/ops_reference.txt

One line a tensor: "input" or "expect", name, dtype, shape, ":" and the elements.
The cases stand in ops_test.cc under the same names.
"""

import math

import numpy as np

rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32).round(3)


x = normal(2, 3, 6, 5)
w = normal(4, 3, 3, 2)
wg = normal(6, 1, 3, 2)
b = normal(4)
a = normal(2, 4, 5)
m = normal(5, 3)
v = normal(5)
ids = np.array([1, 0, 4, 2], np.int32)
i = rng.integers(0, 10, (4, 5)).astype(np.int32)
u = rng.integers(0, 255, 7).astype(np.uint8)
g = rng.integers(0, 5, (2, 4, 3)).astype(np.int32)
inputs = dict(x=x, w=w, wg=wg, b=b, a=a, m=m, v=v, ids=ids, i=i, u=u, g=g)


def conv(x, w, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    """A convolution as its definition has it, one filter element after another."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    out, channels, kh, kw = w.shape
    oh = (x.shape[2] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (x.shape[3] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    y = np.zeros((x.shape[0], out, oh, ow))
    for o in range(out):
        first = o // (out // groups) * channels
        for p in range(kh):
            for q in range(kw):
                top, left = p * dilation[0], q * dilation[1]
                window = x[:, first : first + channels,
                           top : top + stride[0] * (oh - 1) + 1 : stride[0],
                           left : left + stride[1] * (ow - 1) + 1 : stride[1]]
                y[:, o] += np.einsum("nchw,c->nhw", window, w[o, :, p, q])
    return y if bias is None else y + bias[:, None, None]


def pool(x, kernel, stride, padding, function, fill):
    x = np.pad(x, ((0, 0), (0, 0), (padding,) * 2, (padding,) * 2), constant_values=fill)
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel, (2, 3))
    return function(windows[:, :, :: stride[0], :: stride[1]], axis=(-1, -2))


def softmax(z, axis):
    e = np.exp(z - z.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


z = a[0]
centred = a - a.mean(-1, keepdims=True)
expect = dict(
    conv=conv(x, w, b),
    conv_strided=conv(x, w, b, (2, 3), (1, 2), (2, 1)),
    conv_grouped=conv(x, wg, None, (3, 2), (0, 1), groups=3),
    max_pool=pool(x, (2, 2), (2, 2), 0, np.max, 0),
    max_pool_padded=pool(x, (3, 3), (2, 2), 1, np.max, -np.inf),
    avg_pool=pool(x, (3, 2), (3, 2), 0, np.mean, 0),
    windows_far_apart=np.lib.stride_tricks.sliding_window_view(x, 2, 3)[:, :, :, ::4],
    matmul=a @ m, matvec=a @ v, vecmat=v @ m, dot=v @ v, batched=a @ a.transpose(0, 2, 1), linear=a @ m,
    softmax=softmax(a, 1), log_softmax=np.log(softmax(a, -1)),
    cross_entropy=-np.log(softmax(z, 1))[np.arange(4), ids].mean(),
    layer_norm=centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * v + v,
    sum=a.sum(), sum_keepdim=a.sum((0, 2), keepdims=True), prod=a.prod(1), max=a.max(0), min=a.min(2),
    min_signed=i.min(1), min_unsigned=u.min(), mean=a.mean(1), var=a.var((1, 2), ddof=1),
    argmax=a.argmax(1), argmin=i.argmin(0), argmax_unsigned=u.argmax(0, keepdims=True), cumsum=a.cumsum(1),
    any=(i > 3).any(1), all=(i > 3).all(), count=(i > 3).sum(),
    arange=np.arange(11), arange_one=np.arange(1), arange_double=np.arange(100.0), arange_byte=np.arange(128),
    one_hot=np.eye(5)[ids], embedding=m[ids.reshape(2, 2)], gather=np.take_along_axis(a, g, 2),
    index_select=a[:, :, ids], index=a[1][[3, 0]],
    concat=np.concatenate([a, a[:, 1:3]], 1), stack=np.stack([v, v * 2], 1), slice=a[:, :, -4:5:2],
    slice_uneven=a[:, ::3], flip=a[::-1, :, ::-1], pad=np.pad(z, ((1, 0), (2, 3)), constant_values=-7),
    repeat=np.tile(z, (2, 3)), permute=a.transpose(2, 0, 1), flatten=a.reshape(2, 20),
    broadcast=np.broadcast_to(v, (3, 4, 5)), full=np.ones((2, 2), bool),
    exp=np.exp(a), log=np.log(abs(a)), cos=np.cos(a), sin=np.sin(a), rsqrt=1 / np.sqrt(abs(a)), tanh=np.tanh(a),
    erf=np.vectorize(math.erf)(a),
    sigmoid=1 / (1 + np.exp(-a)), gelu=0.5 * a * (1 + np.tanh(0.7978845608 * (a + 0.044715 * a**3))),
    relu=np.maximum(a, 0), abs=abs(a), sign=np.sign(a), sign_signed=np.sign(i - 5), sign_unsigned=np.sign(u),
    floor=np.floor(a * 3), ceil=np.ceil(a * 3), trunc=np.trunc(a * 3), clamp=a.clip(-0.5, 0.25),
    clamp_signed=i.clip(2, 7), minimum=np.minimum(a, v), minimum_unsigned=np.minimum(u, 3), pow=abs(a) ** 2.5,
    mod=(i - 5) % 3, floor_div=(i - 5) // 3, bits=((i & 6) | 1) ^ 3, shifts=(i << 2) >> 1, logical_not=~(i > 3),
    compare=a <= 0, compare_nan=np.nan <= a, compare_with_nan=a >= np.nan, compare_integers=i <= 3,
    where=np.where(i > 3, i, 0), bitcast=v.view(np.uint8), rsub=1 - a, rdiv=1 / a,
    cast=a.astype(np.int32),
)


def line(kind, name, value):
    value = np.asarray(value)
    dtype = str(value.dtype) if kind == "input" else "-"
    shape = ",".join(str(n) for n in value.shape)
    return f"{kind} {name} {dtype} {shape}: " + " ".join("%.7g" % e for e in value.astype(np.float64).reshape(-1))


for name, value in inputs.items():
    print(line("input", name, value))
for name, value in expect.items():
    print(line("expect", name, value))
