"""Constants in canonical form: every way to write a value gives the same bytes.

Floats are rounded once, from their exact value, to nearest with ties to even, by
integer arithmetic: numpy's casts to the narrow floats do not all saturate as the
protocol says.
"""

from __future__ import annotations

import fractions
import math
import re
import struct
from typing import Dict, NamedTuple, Union

from kiln.dtypes import BY_NAME, BY_NUMBER
from kiln.errors import GraphError
from kiln.v1 import graph_pb2

_INTEGER_BITS: Dict[int, int] = {row.number: 8 * row.itemsize for row in BY_NUMBER.values() if row.kind in "biu"}
_WEAKINT = BY_NAME["weakint"].number
_INTEGER_BITS[_WEAKINT] = 64
_SIGNED = {row.number for row in BY_NUMBER.values() if row.kind == "i"} | {_WEAKINT}
_BOOL = BY_NAME["bool"].number
_DECIMAL = re.compile(r"(?=.{1,1000}\Z)-?[0-9]+")


class FloatFormat(NamedTuple):
    exponent: int  # bits
    mantissa: int  # bits
    bias: int
    style: str  # ieee; saturating: as ieee, but finite values stay so; no_inf; fnuz

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.mantissa)

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def nan(self) -> int:
        return {"fnuz": self.sign, "no_inf": self.sign - 1}.get(self.style, self.infinity | 1 << (self.mantissa - 1))

    @property
    def greatest(self) -> int:
        return {"fnuz": self.sign - 1, "no_inf": self.sign - 2}.get(self.style, self.infinity - 1)


FLOATS: Dict[int, FloatFormat] = {
    BY_NAME[name].number: row
    for name, row in {
        "float16": FloatFormat(5, 10, 15, "ieee"),
        "bfloat16": FloatFormat(8, 7, 127, "ieee"),
        "float32": FloatFormat(8, 23, 127, "ieee"),
        "float64": FloatFormat(11, 52, 1023, "ieee"),
        "weakfloat": FloatFormat(11, 52, 1023, "ieee"),
        "float8_e4m3": FloatFormat(4, 3, 7, "no_inf"),
        "float8_e5m2": FloatFormat(5, 2, 15, "saturating"),
        "float8_e4m3_fnuz": FloatFormat(4, 3, 8, "fnuz"),
        "float8_e5m2_fnuz": FloatFormat(5, 2, 16, "fnuz"),
    }.items()
}


def float_pattern(form: FloatFormat, value: Union[int, float]) -> int:
    """The pattern of a number in `form`."""
    if form.mantissa == 52 and isinstance(value, float):
        return form.nan if math.isnan(value) else struct.unpack("<Q", struct.pack("<d", value))[0]
    negative = math.copysign(1, value) < 0 if isinstance(value, float) else value < 0
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value) or form.style in ("fnuz", "no_inf"):
            return form.nan
        return form.infinity | (form.sign if negative else 0)
    exact = abs(fractions.Fraction(value))
    exponent = 1 - form.bias
    if exact:
        exponent = max(exponent, exact.numerator.bit_length() - exact.denominator.bit_length())
        exponent -= exponent > 1 - form.bias and exact < fractions.Fraction(2) ** exponent
    # round() of a Fraction ties to even; a carry into the exponent is as it should be.
    units = round(exact / fractions.Fraction(2) ** (exponent - form.mantissa))
    pattern = ((exponent + form.bias - 1) << form.mantissa) + units
    if pattern > form.greatest:
        pattern = form.infinity if form.style == "ieee" else form.greatest
    return pattern | (form.sign if negative and not (form.style == "fnuz" and pattern == 0) else 0)


def _integer(arg: graph_pb2.ConstArg, form: str) -> int:
    """The value of an integer or bool constant, not yet checked against its range."""
    if form == "decimal":
        if not _DECIMAL.fullmatch(arg.decimal):
            raise _bad("%r is no decimal number" % arg.decimal)
        return int(arg.decimal)
    if form == "f":
        if not math.isfinite(arg.f) or arg.f != math.trunc(arg.f):
            raise _bad("%r is no integer" % arg.f)
        return int(arg.f)
    if form == "bits":
        width = _INTEGER_BITS[arg.dtype]
        if arg.bits >> width:
            raise _bad("bits above the dtype's width")
        return arg.bits - (1 << width) if arg.dtype in _SIGNED and arg.bits >> (width - 1) else arg.bits
    return int(getattr(arg, form))


def constant(arg: graph_pb2.ConstArg) -> bytes:
    """The canonical bytes; GraphError (BAD_ARGUMENT) if the value has none."""
    form = arg.WhichOneof("value")
    if arg.dtype not in FLOATS and arg.dtype not in _INTEGER_BITS:
        raise _bad("a constant of dtype %d" % arg.dtype)
    head = struct.pack("<I", arg.dtype)
    if form is None or (form == "invalid" and not arg.invalid):
        raise _bad("a constant without a value")
    floats = FLOATS.get(arg.dtype)
    if floats is None and arg.dtype not in _INTEGER_BITS:
        raise _bad("a constant of dtype %d" % arg.dtype)
    if form == "invalid":
        return head + b"\1"
    if floats is not None:
        return head + b"\0" + struct.pack("<Q", _float(arg, form, floats))
    value = _integer(arg, form)
    if arg.dtype == _WEAKINT:
        if not -(1 << 63) <= value < 1 << 63:
            text = str(value).encode()
            return head + b"\2" + struct.pack("<I", len(text)) + text
    elif not _fits(arg.dtype, value):
        raise _bad("%d does not fit %s" % (value, BY_NUMBER[arg.dtype].name))
    return head + b"\0" + struct.pack("<Q", value & (1 << 64) - 1)


def _float(arg: graph_pb2.ConstArg, form: str, floats: FloatFormat) -> int:
    if form == "decimal":
        raise _bad("a float in decimal")
    if form == "bits":
        if arg.bits >= 2 * floats.sign:
            raise _bad("bits above the dtype's width")
        return arg.bits
    value = getattr(arg, form)
    return float_pattern(floats, int(value) if isinstance(value, bool) else value)


def _fits(dtype: int, value: int) -> bool:
    if dtype == _BOOL:
        return value in (0, 1)
    width = _INTEGER_BITS[dtype]
    if dtype in _SIGNED:
        return -(1 << (width - 1)) <= value < 1 << (width - 1)
    return 0 <= value < 1 << width


def _bad(text: str) -> GraphError:
    return GraphError(text, code="BAD_ARGUMENT")
