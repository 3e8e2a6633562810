"""reference/compositions.txt: tinyspec's "Common Ops as Compositions", and what NumPy makes of them.

The functions below are tinyspec's definitions, line by line, on a Tensor that only
writes down nodes: PAD fills with Invalid, REDUCE skips it, every operand of an ALU
op broadcasts. compositions_test.cc runs each graph on every engine.
"""

import numpy as np

DTYPES = {"float32": np.float32, "int32": np.int32, "int64": np.int64}


class Program:
    """Nodes in the text form, each once."""

    def __init__(self):
        self.lines = []
        self.known = {}
        self.inputs = []

    def node(self, text):
        if text not in self.known:
            self.known[text] = len(self.lines)
            self.lines.append(text)
        return self.known[text]

    def ints(self, values):
        numbers = [self.node(f"CONST [] weakint {int(value)}") for value in values]
        return self.node("STACK [" + ", ".join(str(number) for number in numbers) + "]")

    def param(self, array):
        slot = len(self.inputs)
        self.inputs.append(array)
        shape = self.ints(array.shape)
        return Tensor(self, self.node(f"PARAM [{shape}] slot={slot} dtype={array.dtype}"), array.shape, str(array.dtype))

    def const(self, value, dtype):
        return Tensor(self, self.node(f"CONST [] {dtype} {value}"), (), dtype)


class Tensor:
    def __init__(self, program, node, shape, dtype):
        self.program, self.node, self.shape, self.dtype = program, node, tuple(shape), dtype

    def make(self, text, shape, dtype=None):
        return Tensor(self.program, self.program.node(text), shape, dtype or self.dtype)

    def alu(self, op, other, dtype=None):
        other = other if isinstance(other, Tensor) else self.program.const(other, self.dtype)
        return self.make(f"{op} [{self.node}, {other.node}]", np.broadcast_shapes(self.shape, other.shape), dtype)

    def __add__(self, other):
        return self.alu("ADD", other)

    def __sub__(self, other):
        return self.alu("SUB", other)

    def __mul__(self, other):
        return self.alu("MUL", other)

    def equal(self, other):
        return self.alu("CMPEQ", other, "bool")

    def cast(self, dtype):
        return self.make(f"CAST [{self.node}] to={dtype}", self.shape, dtype)

    def reshape(self, *shape):
        shape = tuple(np.empty(self.shape, bool).reshape(shape).shape)
        return self.make(f"RESHAPE [{self.node}, {self.program.ints(shape)}]", shape)

    def expand(self, *shape):
        return self.make(f"EXPAND [{self.node}, {self.program.ints(shape)}]", shape)

    def pad(self, *around):
        """(before, after) an axis; Invalid fills."""
        shape = [before + size + after for size, (before, after) in zip(self.shape, around)]
        offset = self.program.ints(before for before, _ in around)
        return self.make(f"PAD [{self.node}, {offset}, {self.program.ints(shape)}]", shape)

    def shrink_to(self, *shape):
        offset = self.program.ints(0 for _ in shape)
        return self.make(f"SHRINK [{self.node}, {offset}, {self.program.ints(shape)}]", shape)

    def sum(self, axis):
        """Over one axis, which goes away."""
        axis %= len(self.shape)
        kept = self.shape[:axis] + (1,) + self.shape[axis + 1 :]
        return self.make(f"REDUCE [{self.node}] ADD axes=({axis})", kept).reshape(*kept[:axis], *kept[axis + 1 :])


# -- tinyspec


def gemm(A, B):
    M, K = A.shape
    _, N = B.shape
    return (A.reshape(M, K, 1) * B.reshape(1, K, N)).sum(1)


def prefix_sum(T):
    n = T.shape[0]
    x = T.pad((n - 1, 0))
    x = x.reshape(1, 2 * n - 1).expand(n + 1, 2 * n - 1)
    x = x.reshape((n + 1) * (2 * n - 1)).shrink_to(2 * n * n)
    x = x.reshape(n, 2 * n).shrink_to(n, n)
    return x.sum(-1)


def arange(program, n, dtype):
    return prefix_sum(program.const(1, dtype).reshape(1).expand(n)) - 1


def one_hot_mask(T, idx, dtype):
    """(K, D): whether row k of T is the one that idx[d] names."""
    pos = arange(T.program, T.shape[0], idx.dtype).reshape(T.shape[0], 1)
    return pos.equal(idx.reshape(1, -1)).cast(dtype)


def gather(T, idx):
    return (T.reshape(T.shape[0], 1) * one_hot_mask(T, idx, T.dtype)).sum(0)


def scatter_add(T, idx, val):
    return T + (one_hot_mask(T, idx, T.dtype) * val.reshape(1, val.shape[0])).sum(1)


# -- NumPy's word for it


def scattered(T, idx, val):
    out = T.copy()
    np.add.at(out, idx, val)
    return out


def numbers(array):
    return " ".join(repr(value) for value in np.asarray(array).reshape(-1).tolist())


def case(name, program, result, expected):
    """Small integers in floats, so that every sum is exact and every engine gives these very values."""
    yield f"case {name}"
    for slot, array in enumerate(program.inputs):
        yield f"input {slot} {array.dtype}: {numbers(array)}"
    expected = np.asarray(expected)
    assert expected.shape == result.shape and str(expected.dtype) == result.dtype, name
    yield f"expect {result.dtype}: {numbers(expected)}"
    for number, line in enumerate([*program.lines, f"TUPLE [{result.node}]"]):
        yield f"  {number} {line}"


def lines():
    rng = np.random.default_rng(0)

    def small(dtype, *shape, high=9):
        return rng.integers(-high, high + 1, shape).astype(DTYPES[dtype])

    for m, k, n in [(1, 1, 1), (3, 4, 5), (17, 8, 33)]:
        for dtype in DTYPES:
            program, a, b = Program(), small(dtype, m, k), small(dtype, k, n)
            yield from case(f"gemm_{m}_{k}_{n}_{dtype}", program, gemm(program.param(a), program.param(b)), a @ b)
    for n in [1, 2, 7, 64, 150]:
        for dtype in DTYPES:
            program, values = Program(), small(dtype, n)
            yield from case(f"prefix_sum_{n}_{dtype}", program, prefix_sum(program.param(values)), values.cumsum(dtype=values.dtype))
            program = Program()
            yield from case(f"arange_{n}_{dtype}", program, arange(program, n, dtype), np.arange(n).astype(DTYPES[dtype]))
    for rows, count in [(1, 1), (5, 8), (40, 23)]:
        for dtype in DTYPES:
            table, idx = small(dtype, rows), rng.integers(0, rows, count).astype(np.int32)
            program = Program()
            yield from case(f"gather_{rows}_{count}_{dtype}", program, gather(program.param(table), program.param(idx)), table[idx])
            program, val = Program(), small(dtype, count)
            made = scatter_add(program.param(table), program.param(idx), program.param(val))
            yield from case(f"scatter_add_{rows}_{count}_{dtype}", program, made, scattered(table, idx, val))
