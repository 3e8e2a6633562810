"""Integers as tinygrad means them: modulo 2^n, weak ones with a width, and their powers."""

from __future__ import annotations

from tinygrad.dtype import DType, dtypes
from tinygrad.uop.ops import Ops, UOp


def wrapped(value: int, kind: DType) -> int:
    """An integer modulo 2^n, as tinygrad's constants are once they are stored."""
    bits = 8 * kind.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind in dtypes.sints and value >> (bits - 1) else value


def width_of(kind: DType) -> DType:
    """What a weak dtype is at run time."""
    return {dtypes.weakint: dtypes.int32, dtypes.weakfloat: dtypes.float32}.get(kind, kind)


def integer_power(base: UOp, exponent: UOp) -> UOp:
    """base ** exponent modulo 2^n, by squaring; for a negative exponent the quotient's integer part."""
    kind = base.dtype if base.dtype not in dtypes.weaks else exponent.dtype
    kind = width_of(kind)
    base, one, zero = base.cast(kind), UOp.const(1, kind), UOp.const(0, kind)
    if exponent.base.op is Ops.CONST and exponent.base.arg >= 0:
        power, rest = one, int(exponent.base.arg)
        while rest:
            power = power * base if rest & 1 else power
            base, rest = base * base, rest >> 1
        return power
    exponent = exponent.cast(kind)
    power, square = one, base
    for bit in range(8 * kind.itemsize - (kind in dtypes.sints)):
        power = (exponent & UOp.const(1 << bit, kind)).ne(zero).where(power * square, power)
        square = square * square
    if kind not in dtypes.sints:
        return power
    odd = (exponent & one).ne(zero)
    inverse = base.eq(one).where(one, base.eq(-one).where(odd.where(-one, one), zero))
    return (exponent < zero).where(inverse, power)
