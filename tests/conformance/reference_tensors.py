"""Movement and reduce ops, by numpy.

A case is a graph in the numbered text form with the dtype left open ("$T"), and
for each dtype a digest of the bytes that it must give. Inputs come from a
formula that the tests know too (tests/conformance/cases.cc).
"""

import numpy as np

from reference_scalars import DTYPES as SCALAR_DTYPES, FLOAT8, FLOATS

DTYPES = [dtype for dtype in SCALAR_DTYPES if dtype not in FLOAT8]  # movement sees bytes, as of int8

MASK = (1 << 64) - 1


def mix(x):
    """SplitMix64's finaliser, on uint64 arrays."""
    x = (x + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def numpy_dtype(dtype):
    """bfloat16 is carried as float32: its small integers are exact in both."""
    return np.dtype({"bfloat16": "float32"}.get(dtype, dtype))


def make_input(number, shape, dtype, mode):
    count = int(np.prod(shape, dtype=np.int64))
    with np.errstate(over="ignore"):
        h = mix(np.arange(count, dtype=np.uint64) + np.uint64(number * 1000003))
    if mode.startswith("index"):  # from -2 to n + 1
        n = int(mode[5:])
        values = (h % np.uint64(n + 4)).astype(np.int64) - 2
    elif mode == "unit":  # products stay small: 1 and -1, and a few 2
        values = np.where(h % np.uint64(2) == 0, 1, -1)
        values = np.where(h % np.uint64(97) == 0, 2, values)
    elif dtype == "bool":
        values = (h % np.uint64(2)).astype(np.int64)
    elif dtype in FLOATS:
        values = (h % np.uint64(17)).astype(np.int64) - 8
    else:
        return h.astype(numpy_dtype(dtype)).reshape(shape)
    with np.errstate(all="ignore"):
        return values.astype(numpy_dtype(dtype)).reshape(shape)


def to_bytes(array, dtype):
    if dtype == "bfloat16":
        bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
        rounded = (bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> np.uint64(16)
        return rounded.astype(np.uint16).tobytes()
    return np.ascontiguousarray(array).tobytes()


def digest(data):
    """FNV-1a, 64 bits."""
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


class Case:
    """Builds a graph as text and computes it, both at once."""

    def __init__(self, name, dtypes=None):
        self.name = name
        self.dtypes = dtypes or DTYPES
        self.nodes = []
        self.inputs = []  # (slot, dtype or $T, shape, mode)
        self.steps = []   # how to compute each value, given the dtype and the values so far
        self.result = None

    def node(self, text):
        self.nodes.append(f"{len(self.nodes)} {text}")
        return len(self.nodes) - 1

    def value(self, text, compute):
        index = self.node(text)
        self.steps.append((index, compute))
        return index

    def shape(self, ints):
        parts = [self.node(f"CONST [] weakint {n}") for n in ints]
        return self.node(f"STACK [{', '.join(map(str, parts))}]")

    def input(self, shape, dtype="$T", mode="plain"):
        slot = len(self.inputs)
        self.inputs.append((slot, dtype, tuple(shape), mode))
        source = self.shape(shape)
        return self.value(f"PARAM [{source}] slot={slot} dtype={dtype}",
                          lambda d, v: make_input(slot, shape, d if dtype == "$T" else dtype, mode))

    def permute(self, x, order):
        return self.value(f"PERMUTE [{x}] axes=({', '.join(map(str, order))})", lambda d, v: np.transpose(v[x], order))

    def flip(self, x, flags):
        axes = tuple(i for i, f in enumerate(flags) if f)
        return self.value(f"FLIP [{x}] flip=({', '.join(map(str, flags))})", lambda d, v: np.flip(v[x], axes))

    def reshape(self, x, shape):
        return self.value(f"RESHAPE [{x}, {self.shape(shape)}]", lambda d, v: v[x].reshape(shape))

    def expand(self, x, shape):
        return self.value(f"EXPAND [{x}, {self.shape(shape)}]", lambda d, v: np.broadcast_to(v[x], shape))

    def shrink(self, x, offset, shape):
        box = tuple(slice(o, o + n) for o, n in zip(offset, shape))
        return self.value(f"SHRINK [{x}, {self.shape(offset)}, {self.shape(shape)}]", lambda d, v: v[x][box])

    def pad(self, x, offset, shape, fill=None):
        def compute(d, v):
            out = np.full(shape, 0 if fill is None else fill, numpy_dtype(d))
            out[tuple(slice(o, o + n) for o, n in zip(offset, v[x].shape))] = v[x]
            return out
        arg = "" if fill is None else f" fill=$T {fill}"
        return self.value(f"PAD [{x}, {self.shape(offset)}, {self.shape(shape)}]{arg}", compute)

    def stack(self, *xs):
        return self.value(f"STACK [{', '.join(map(str, xs))}]", lambda d, v: np.stack([v[x] for x in xs]))

    def index(self, x, *indices):
        def compute(d, v):
            x_value, out = v[x], v[x]
            axis = 0
            for i in indices:
                index = np.asarray(v[i]).astype(np.int64)
                inside = (index >= 0) & (index < out.shape[axis])
                safe = np.where(inside, index, 0)
                if out.shape[axis] == 0:
                    shape = out.shape[:axis] + index.shape + out.shape[axis + 1:]
                    out = np.zeros(shape, x_value.dtype)
                else:
                    taken = np.take(out, safe, axis=axis)
                    keep = inside.reshape((1,) * axis + inside.shape + (1,) * (taken.ndim - axis - inside.ndim))
                    out = np.where(keep, taken, np.zeros((), x_value.dtype))
                axis += index.ndim
            return out
        return self.value(f"INDEX [{', '.join(map(str, (x,) + indices))}]", compute)

    def add(self, a, b):
        def compute(d, v):
            if d == "bool":
                return v[a] | v[b]
            with np.errstate(over="ignore"):
                return v[a] + v[b]
        return self.value(f"ADD [{a}, {b}]", compute)

    def reduce(self, x, op, axes):
        def compute(d, v):
            array = v[x]
            if op == "MAX":
                if d == "bool":
                    return np.any(array, tuple(axes), keepdims=True)
                low = -np.inf if d in FLOATS else np.iinfo(numpy_dtype(d)).min
                return np.max(array, tuple(axes), keepdims=True, initial=low)
            if d == "bool":
                reduce_op = np.any if op == "ADD" else np.all
                return reduce_op(array, tuple(axes), keepdims=True)
            inner = np.float32 if d in ("float16", "bfloat16") else array.dtype
            reduce_op = np.sum if op == "ADD" else np.prod
            with np.errstate(all="ignore"):
                return reduce_op(array.astype(inner), tuple(axes), keepdims=True, dtype=inner).astype(array.dtype)
        return self.value(f"REDUCE [{x}] {op} axes=({', '.join(map(str, axes))})", compute)

    def lines(self, result):
        self.node(f"TUPLE [{result}]")
        yield f"case {self.name}"
        for slot, dtype, shape, mode in self.inputs:
            yield f"input {dtype} {mode} {' '.join(map(str, shape))}".rstrip()
        for node in self.nodes:
            yield f"  {node}"
        for dtype in self.dtypes:
            values = {}
            for index, compute in self.steps:
                values[index] = compute(dtype, values)
            yield f"= {dtype} {digest(to_bytes(values[result], dtype)):016x}"


# A dozen shapes: nothing, scalars, ones, odd sizes, vectors' widths and their
# neighbours, several axes, and some that are worth more than one thread.
SHAPES = [(), (0,), (1,), (7,), (64,), (1000,), (3, 5), (1, 9), (4, 0, 2), (2, 3, 4), (17, 33), (8, 1, 6, 2), (40, 65)]


def movement_cases():
    for shape in SHAPES:
        name = "x".join(map(str, shape)) or "scalar"
        n, rank = int(np.prod(shape, dtype=np.int64)), len(shape)
        c = Case(f"reshape {name}")
        yield c.lines(c.reshape(c.input(shape), (1, n, 1)))
        c = Case(f"permute {name}")
        yield c.lines(c.permute(c.input(shape), tuple(reversed(range(rank)))))
        c = Case(f"rotate axes {name}")
        yield c.lines(c.permute(c.input(shape), tuple((i + 1) % rank for i in range(rank))))
        c = Case(f"flip {name}")
        yield c.lines(c.flip(c.input(shape), tuple((i + 1) % 2 for i in range(rank))))
        c = Case(f"flip all {name}")
        yield c.lines(c.flip(c.input(shape), (1,) * rank))
        c = Case(f"expand {name}")
        yield c.lines(c.expand(c.reshape(c.input(shape), (1,) + shape), (3,) + shape))
        c = Case(f"expand last {name}")
        yield c.lines(c.expand(c.reshape(c.input(shape), shape + (1,)), shape + (5,)))
        c = Case(f"pad {name}")
        yield c.lines(c.pad(c.input(shape), tuple(i % 3 for i in range(rank)), tuple(n + 3 for n in shape)))
        c = Case(f"pad with 1 {name}")
        yield c.lines(c.pad(c.input(shape), (1,) * rank, tuple(n + 2 for n in shape), fill=1))
        c = Case(f"shrink {name}")
        yield c.lines(c.shrink(c.input(shape), tuple(min(n, 1) for n in shape), tuple(max(n - 2, 0) for n in shape)))
        c = Case(f"stack {name}")
        yield c.lines(c.stack(c.input(shape), c.input(shape), c.input(shape)))
        c = Case(f"broadcast rows {name}")
        yield c.lines(c.add(c.input(shape), c.input(tuple(1 if i % 2 else n for i, n in enumerate(shape)))))
        if rank == 0:
            continue
        c = Case(f"index vector {name}")
        yield c.lines(c.index(c.input(shape), c.input((6,), "int32", f"index{shape[0]}")))
        c = Case(f"index scalar {name}")
        yield c.lines(c.index(c.input(shape), c.input((), "int64", f"index{shape[0]}")))
        if rank >= 2:
            c = Case(f"index matrix and vector {name}")
            yield c.lines(c.index(c.input(shape), c.input((2, 3), "int16", f"index{shape[0]}"), c.input((4,), "int64", f"index{shape[1]}")))
        c = Case(f"permute of pad of shrink of flip {name}")
        x = c.flip(c.input(shape), (1,) * rank)
        x = c.shrink(x, (0,) * rank, tuple(max(n - 1, 0) for n in shape))
        x = c.pad(x, (2,) * rank, tuple(max(n - 1, 0) + 3 for n in shape))
        yield c.lines(c.permute(x, tuple(reversed(range(rank)))))


def reduce_cases():
    for shape in SHAPES:
        name = "x".join(map(str, shape)) or "scalar"
        rank = len(shape)
        choices = {"all": tuple(range(rank)), "first": (0,)[:rank], "last": (rank - 1,) if rank > 1 else None}
        for which, axes in choices.items():
            if axes is None:
                continue
            for op in ("ADD", "MUL", "MAX"):
                c = Case(f"reduce {op} {which} {name}")
                yield c.lines(c.reduce(c.input(shape, mode="unit" if op == "MUL" else "plain"), op, axes))
        if rank >= 2:
            c = Case(f"sum of transposed {name}")
            yield c.lines(c.reduce(c.permute(c.input(shape), tuple(reversed(range(rank)))), "ADD", (0,)))
            c = Case(f"max of max {name}")
            yield c.lines(c.reduce(c.reduce(c.input(shape), "MAX", (rank - 1,)), "MAX", (0,)))


def lines():
    for cases in (movement_cases(), reduce_cases()):
        for case in cases:
            yield from case
