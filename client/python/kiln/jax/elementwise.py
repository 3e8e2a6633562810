"""Arithmetic, comparisons, bits, choice and conversion of element by element.

jax's operands are of one dtype already; a scalar may stand beside an array.
"""

from __future__ import annotations

from typing import Any

from kiln import elementwise as ops, functions
from kiln.composed.division import fmod, to_even
from kiln.dtypes import bool_, dtype as dtype_of, float64
from kiln.jax.table import rule
from kiln.promotion import limits
from kiln.value import emit


def binary(op: str) -> Any:
    def apply(e: Any, x: Any, y: Any) -> Any:
        return emit(op, (x, y), e.dtype, e.shape)

    return apply


# What is one op of the IR for all of jax's dtypes.
for _names, _op in {
    ("add", "add_any"): "ADD",
    ("mul",): "MUL",
    ("max",): "MAX",
    ("lt", "lt_to"): "CMPLT",
    ("gt",): "CMPGT",
    ("eq", "eq_to"): "CMPEQ",
    ("ne",): "CMPNE",
    ("and",): "AND",
    ("or",): "OR",
    ("xor",): "XOR",
    ("shift_left",): "SHL",
}.items():
    rule(*_names)(binary(_op))


@rule("sub")
def sub(e: Any, x: Any, y: Any) -> Any:
    return emit("SUB", (x, y), e.dtype, e.shape)


@rule("min")
def minimum(e: Any, x: Any, y: Any) -> Any:
    return ops.minimum(x, y)


@rule("le", "le_to")
def less_equal(e: Any, x: Any, y: Any) -> Any:
    return ops.less_equal(x, y)


@rule("ge")
def greater_equal(e: Any, x: Any, y: Any) -> Any:
    return ops.greater_equal(x, y)


@rule("div")
def div(e: Any, x: Any, y: Any) -> Any:
    """Of integers towards 0; by 0 it is -1, as XLA has it."""
    if x.dtype.is_float:
        return emit("FDIV", (x, y), e.dtype, e.shape)
    minus_one = -1 if x.dtype.kind == "i" else (1 << 8 * x.dtype.itemsize) - 1
    return ops.where(y == 0, x.graph.scalar(minus_one, x.dtype), emit("CDIV", (x, y), e.dtype, e.shape))


@rule("rem")
def rem(e: Any, x: Any, y: Any) -> Any:
    """The remainder with the dividend's sign; of floats in float64, exact for quotients up to 2^104."""
    if not x.dtype.is_float:
        return ops.where(y == 0, x, emit("CMOD", (x, y), e.dtype, e.shape))
    return ops.astype(fmod(ops.astype(x, float64), ops.astype(y, float64)), x.dtype)


@rule("neg")
def neg(e: Any, x: Any) -> Any:
    return ops.negative(x) if x.dtype.kind in "if" else emit("SUB", (x.graph.scalar(0, x.dtype), x), x.dtype, x.shape)


@rule("abs")
def absolute(e: Any, x: Any) -> Any:
    return functions.absolute(x)


@rule("sign")
def sign(e: Any, x: Any) -> Any:
    return functions.sign(x)


@rule("not")
def invert(e: Any, x: Any) -> Any:
    return ops.invert(x)


@rule("square")
def square(e: Any, x: Any) -> Any:
    return x * x


@rule("integer_pow")
def integer_pow(e: Any, x: Any) -> Any:
    power = e.params["y"]
    result, factor, rest = None, x, abs(power)
    while rest:
        if rest & 1:
            result = factor if result is None else emit("MUL", (result, factor), x.dtype, x.shape)
        rest >>= 1
        factor = emit("MUL", (factor, factor), x.dtype, x.shape) if rest else factor
    if result is None:
        return x.graph.full(x.shape, 1, x.dtype)
    return functions.reciprocal(result) if power < 0 else result


@rule("pow")
def power(e: Any, x: Any, y: Any) -> Any:
    return emit("POW", (x, ops.astype(y, x.dtype)), e.dtype, e.shape)


@rule("is_finite")
def is_finite(e: Any, x: Any) -> Any:
    return functions.absolute(x) < float("inf")


@rule("floor")
def floor(e: Any, x: Any) -> Any:
    return functions.floor(x)


@rule("ceil")
def ceil(e: Any, x: Any) -> Any:
    return functions.ceil(x)


@rule("round")
def rounded(e: Any, x: Any) -> Any:
    """Halves away from 0, or to the even neighbour."""
    if int(e.params["rounding_method"]) == 1:
        return to_even(x)
    a = functions.absolute(x)
    whole = functions.trunc(a)
    whole = ops.where(a - whole >= 0.5, whole + 1, whole)
    return ops.where(x < 0, ops.negative(whole), ops.where(ops.equal(x, 0), x, whole))


# -- bits


@rule("shift_right_logical")
def shift_right_logical(e: Any, x: Any, y: Any) -> Any:
    unsigned = dtype_of("uint%d" % (8 * x.dtype.itemsize))
    moved = emit("SHR", (ops.bitcast(x, unsigned), ops.bitcast(y, unsigned)), unsigned, e.shape)
    return ops.bitcast(moved, x.dtype)


@rule("shift_right_arithmetic")
def shift_right_arithmetic(e: Any, x: Any, y: Any) -> Any:
    signed = dtype_of("int%d" % (8 * x.dtype.itemsize))
    return ops.bitcast(emit("SHR", (ops.bitcast(x, signed), ops.bitcast(y, signed)), signed, e.shape), x.dtype)


def _ones_of(x: Any) -> Any:
    """How many bits of an unsigned integer are set: sums of neighbours, doubled in width each time."""
    bits = 8 * x.dtype.itemsize
    width = 1
    while width < bits:
        mask = sum(((1 << width) - 1) << at for at in range(0, bits, 2 * width))
        x = (x & mask) + (ops.right_shift(x, width) & mask)
        width *= 2
    return x


@rule("population_count")
def population_count(e: Any, x: Any) -> Any:
    unsigned = dtype_of("uint%d" % (8 * x.dtype.itemsize))
    return ops.bitcast(_ones_of(ops.bitcast(x, unsigned)), x.dtype)


@rule("clz")
def clz(e: Any, x: Any) -> Any:
    """Leading zeros: the bits that are not set once all below the first are."""
    unsigned = dtype_of("uint%d" % (8 * x.dtype.itemsize))
    value, step = ops.bitcast(x, unsigned), 1
    while step < 8 * x.dtype.itemsize:
        value, step = value | ops.right_shift(value, step), 2 * step
    return ops.bitcast(_ones_of(ops.invert(value)), x.dtype)


@rule("nextafter")
def nextafter(e: Any, x: Any, y: Any) -> Any:
    bits = dtype_of("int%d" % (8 * x.dtype.itemsize))
    least = ops.bitcast(x.graph.scalar(1, bits), x.dtype)
    inward = ops.equal(x < y, x < 0)  # towards 0
    moved = ops.bitcast(
        ops.bitcast(x, bits) + ops.where(inward, x.graph.scalar(-1, bits), x.graph.scalar(1, bits)), x.dtype
    )
    moved = ops.where(ops.equal(x, 0), ops.where(y < 0, ops.negative(least), least), moved)
    moved = ops.where(ops.equal(x, y), y, moved)
    return ops.where(ops.isnan(x) | ops.isnan(y), x + y, moved)


# -- choice and conversion


@rule("select_n")
def select_n(e: Any, which: Any, *cases: Any) -> Any:
    """Of two by a bool, of several by an integer; `which` may be a scalar."""
    if which.dtype is bool_:
        return ops.where(which, cases[1], cases[0]) if len(cases) == 2 else cases[0]
    result = cases[-1]
    for number in range(len(cases) - 2, -1, -1):
        result = ops.where(ops.less_equal(which, number), cases[number], result)
    return result


@rule("clamp")
def clamp(e: Any, least: Any, x: Any, greatest: Any) -> Any:
    return ops.minimum(ops.maximum(x, least), greatest)


@rule("convert_element_type")
def convert(e: Any, x: Any) -> Any:
    kind = e.dtype
    if x.dtype.is_float and kind.is_integer and kind.itemsize < 4:  # int32 first, of which NaN makes 0
        least, greatest = limits(kind)
        x = ops.minimum(ops.maximum(ops.astype(x, "int32"), least), greatest)
    return ops.astype(x, kind)


@rule("bitcast_convert_type")
def bitcast(e: Any, x: Any) -> Any:
    kind = e.dtype
    if x.dtype.itemsize < kind.itemsize:
        return ops.bitcast(x, kind).reshape(e.shape)
    if x.dtype.itemsize > kind.itemsize:
        return ops.bitcast(x.reshape((*x.shape, 1)), kind)
    return ops.bitcast(x, kind)


@rule("reduce_precision")
def reduce_precision(e: Any, x: Any) -> Any:
    form = (e.params["exponent_bits"], e.params["mantissa_bits"])
    kinds = {(8, 23): "float32", (5, 10): "float16", (8, 7): "bfloat16", (11, 52): "float64"}
    if form not in kinds:
        raise e.refuse("no dtype has %d bits of exponent and %d of mantissa" % form)
    return ops.astype(ops.astype(x, kinds[form]), x.dtype)


@rule(
    "stop_gradient",
    "copy",
    "copy_p",
    "optimization_barrier",
    "real",
    "pvary",
    "sharding_constraint",
    "mesh_cast",
    raw=True,
)
def same(e: Any, *operands: Any) -> Any:
    return list(operands)


@rule("imag")
def imag(e: Any, x: Any) -> Any:
    return x.graph.zeros(x.shape, x.dtype)
