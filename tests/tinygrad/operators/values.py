"""The data that a case runs on: dtypes, kinds of values, and a generator that is seeded with the case.

Kinds: (none) normal numbers, small integers; pos, nz (away from zero), unit
(between -1 and 1), gt1; small, wide, huge (floats of such magnitude); half
(halves, where rounding must decide); ties (few different values); perm (all
different); special (infinities, NaN, limits, denormals; the limits of
integers); full (all bits random); shift (0 to 7); idxN, sidxN (int32 indices
below N, the latter also negative).

A case has the same data on every device, in every process and on every day.
"""

import zlib

import ml_dtypes
import numpy as np

FLOATS = ("float32", "float16", "bfloat16", "float64")
FLOAT = ("float32",)
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = SIGNED + UNSIGNED
FLOAT8 = ("fp8e4m3", "fp8e5m2")
ALL = FLOATS + INTS + ("bool",)
NUMPY = {
    "bfloat16": ml_dtypes.bfloat16,
    "fp8e4m3": ml_dtypes.float8_e4m3fn,
    "fp8e5m2": ml_dtypes.float8_e5m2,
    "fp8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "fp8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
}
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7,
           "fp8e4m3": 2.0**-3, "fp8e5m2": 2.0**-2, "fp8e4m3fnuz": 2.0**-3, "fp8e5m2fnuz": 2.0**-2}  # fmt: skip
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 3.0, -7.25, 100.0, -100.0)


def is_float(dtype):
    return dtype in EPSILON


def numpy_dtype(dtype):
    return np.dtype(NUMPY.get(dtype, dtype))


def integers(kind, shape, dtype, random):
    info = np.iinfo(dtype)
    low, high = max(info.min, -20), min(info.max, 20)
    if kind == "full":
        return random.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    if kind == "special":
        edges = np.array([info.min, info.max, 0, 1, info.max - 1, info.min + 1, 2, 7, info.max // 2, 3], dtype)
        return np.resize(np.where(random.random(10) < 0, edges, edges), shape)
    if kind in ("pos", "nz", "gt1", "unit"):
        values = random.integers(2 if kind == "gt1" else 1, 15, shape)
        signs = random.choice([-1, 1], shape) if kind == "nz" and low < 0 else 1
        return (values * signs).astype(dtype)
    if kind == "shift":
        return random.integers(0, 8, shape).astype(dtype)
    if kind == "ties":
        return random.integers(max(low, -2), 3, shape).astype(dtype)
    if kind == "perm":
        return random.permutation(int(np.prod(shape))).reshape(shape).astype(dtype)
    return random.integers(low, high, shape, endpoint=True).astype(dtype)


def floats(kind, shape, dtype, random):
    info = ml_dtypes.finfo(numpy_dtype(dtype))
    normal = random.standard_normal(shape)
    if kind == "pos":
        return random.uniform(0.1, 4, shape)
    if kind == "unit":
        return random.uniform(-0.95, 0.95, shape)
    if kind == "gt1":
        return random.uniform(1.05, 5, shape)
    if kind == "nz":
        return np.where(normal < 0, normal - 0.25, normal + 0.25)
    if kind == "small":
        return normal * 0.5
    if kind == "wide":
        return normal * 50
    if kind == "huge":
        top = min(float(np.log10(float(info.max))), 300)
        return np.sign(normal) * 10 ** random.uniform(0, top, shape)
    if kind == "half":  # halves, where rounding must decide
        return random.integers(-20, 20, shape) * 0.5
    if kind == "ties":
        return random.integers(-2, 3, shape) * 1.0
    if kind == "perm":
        return random.permutation(int(np.prod(shape))).reshape(shape) * 1.0
    if kind == "special":
        tiny, least = float(info.smallest_normal), float(info.smallest_subnormal)
        limits = (float(info.max), float(info.min), tiny, -tiny, least, -least, tiny * 0.75)
        return np.resize(np.array(SPECIAL + limits), shape)
    return normal * 2


def value(spec, dtype, random):
    """(dtype, array) of one input, e.g. "3,4:pos"."""
    shape, *words = spec.strip().split(":")
    shape = tuple(int(size) for size in shape.split(",") if size)
    kind = ""
    for word in words:
        if word.startswith("idx"):
            return "int32", random.integers(0, int(word[3:]), shape).astype(np.int32)
        if word.startswith("sidx"):
            return "int32", random.integers(-int(word[4:]), int(word[4:]), shape).astype(np.int32)
        if word in ALL + FLOAT8:
            dtype = word
        else:
            kind = word
    if dtype == "bool":
        return dtype, random.random(shape) < 0.5
    if is_float(dtype):
        with np.errstate(all="ignore"):
            return dtype, np.asarray(floats(kind, shape, dtype, random)).astype(numpy_dtype(dtype))
    return dtype, np.asarray(integers(kind, shape, np.dtype(dtype), random))


def inputs(case):
    """Names to (dtype, array)."""
    random = np.random.default_rng(zlib.crc32(("%s %s" % (case.on, case.dtype)).encode()))
    if case.on == "-":
        return {}

    return {name: value(spec, case.dtype, random) for name, spec in zip("xyzw", case.on.split(";"))}


def cotangent(shape, number):
    """What flows back into output `number` of a gradient case."""
    return np.random.default_rng(number).uniform(-1, 1, shape)
