"""Two and three operands: arithmetic, division in its kinds, comparison, bits, powers, choice."""

from rows import ALL, FLOAT, FLOATS, INTS, SIGNED, UNSIGNED, Row

SHAPES = ("3,4; 3,4", "3,4; 4", "2,1; 1,3", "5; ")
PAIR = ("3,4; 4",)
EDGES = ("24:special; 24:perm", "24:perm; 24:special")
FULL = ("16:full; 16:full", "10:special; 10")

ARITHMETIC = [
    Row("x + y", "x + y", SHAPES, FLOATS, "x y", ulp=0),
    Row("x.add(y)", "x + y", FULL, INTS),
    Row("x.sub(y)", "x - y", PAIR, FLOATS, "x y", ulp=0),
    Row("x - y", "x - y", FULL, INTS),
    Row("x * y", "x * y", SHAPES, FLOATS, "x y", ulp=0),
    Row("x.mul(y)", "x * y", FULL, INTS),
    Row("x / y", "x / y", ("3,4; 4:nz", "5:nz; :nz"), FLOATS, "x y", ulp=2),
    Row("x.div(y)", "x / y", ("24:special; 24:nz",), FLOATS, ulp=2),
    Row("x.div(y)", "", ("24:nz; 24:special",), FLOATS, ulp=2),
    Row("x / y", "x.astype(np.float32) / y.astype(np.float32)", ("3,4; 4:nz",), ("int32", "uint8", "int16"), ulp=2),
    Row("x.div(y, rounding_mode='floor')", "np.floor(x / y)", ("3,4:half; 4:nz",), FLOAT, ulp=0),
    Row("x.div(y, rounding_mode='trunc')", "np.trunc(x / y)", ("3,4:half; 4:nz",), FLOAT, ulp=0),
    Row("x.div(y, rounding_mode='trunc')", "", ("24; 24:nz",), INTS),
    Row("x.div(y, rounding_mode='floor')", "floor_divide(x, y)", ("24; 24:nz",), INTS),
    Row("x // y", "floor_divide(x, y)", ("24; 24:nz", "16:full; 16:nz"), INTS),
    Row("x // y", "floor_divide(x, y)", ("24; 24:ties",), SIGNED, cpu=False, levels="TK"),
    Row("x % y", "modulo(x, y)", ("24; 24:nz", "16:full; 16:nz"), INTS),
    Row("x.mod(y)", "modulo(x, y)", ("24; 24:ties",), SIGNED, cpu=False, levels="TK"),
    Row("x % y", "np.mod(x, y)", ("24:half; 24:nz",), FLOAT, norm=8),
    Row("x.fmod(y)", "np.fmod(x, y)", ("24:half; 24:nz",), FLOAT, norm=8),
    Row("x.fmod(y)", "np.fmod(x, y)", ("24; 24:nz",), ("int32", "int64")),
    Row("x // 3", "x // 3", ("24", "16:full"), INTS),
    Row("x % 3", "x % 3", ("24", "16:full"), INTS),
    Row("x // -5", "x // -5", ("24",), SIGNED),
    Row("x % -5", "x % -5", ("24",), SIGNED),
    Row("x // 8", "x // 8", ("16:full",), INTS),
    Row("x % 8", "x % 8", ("16:full",), INTS),
    Row("100 // x", "100 // x", ("9:nz",), ("int32", "int64")),
    Row("100 % x", "100 % x", ("9:nz",), ("int32", "int64")),
    Row("x + 2", "x + 2", ("3,4",), FLOATS, "x", ulp=0),
    Row("2 + x", "2 + x", ("3,4",), FLOATS, "x", ulp=0),
    Row("3 * x", "3 * x", ("3,4",), FLOATS, "x", ulp=0),
    Row("2 - x", "2 - x", ("3,4",), FLOATS, "x", ulp=0),
    Row("x * 2.5", "x * 2.5", ("3,4",), FLOATS, "x", ulp=0),
    Row("3 / x", "3 / x", ("3,4:nz",), FLOATS, "x", ulp=2),
    Row("x + 1.5", "", ("9",), INTS, ulp=0),
    Row("x + True", "", ("9",), ("int32", "float32", "bool")),
    Row("x * 3", "x * 3", ("9:full",), INTS),
    Row("x.usum(y)", "x + y", ("5; 5",), FLOAT, "x y"),
    Row("x.uprod(y)", "x * y", ("5; 5",), FLOAT, "x y"),
    Row("x + y", "", ("5:float32; 5", "5:int32; 5", "5:uint8; 5", "5:bfloat16; 5", "5:bool; 5"), ALL, ulp=0),
    Row("x * y", "", ("5:float16; 5", "5:int8; 5", "5:uint64; 5"), ALL, ulp=0),
    Row("x.lerp(y, 0.3)", "x + (y-x)*0.3", PAIR, FLOATS, "x y"),
    Row("x.lerp(y, z)", "x + (y-x)*z", ("3,4; 3,4; 3,4:pos",), FLOATS, "x y z"),
    Row("x.lerp(y, 0.3)", "x + (y - x)*0.3", ("9; 9",), ("uint8",)),
    Row("x.logaddexp(y)", "np.logaddexp(x, y)", SHAPES, FLOATS, "x y"),
    Row("x.copysign(y)", "np.copysign(x, y)", ("3,4; 4", "24:special; 24:perm"), FLOATS, ulp=0),
    Row("x += y; x", "x + y", PAIR, FLOAT, "", ulp=0),
    Row("x -= y; x", "x - y", PAIR, FLOAT, "", ulp=0),
    Row("x *= y; x", "x * y", PAIR, FLOAT, "", ulp=0),
    Row("x /= y; x", "x / y", ("3,4; 4:nz",), FLOAT, "", ulp=2),
    Row("x //= y; x", "x // y", ("9; 9:nz",), ("int32",)),
]
EXTREMA = [
    Row("x.maximum(y)", "np.maximum(x, y)", SHAPES, FLOATS, "x y", ulp=0),
    Row("x.minimum(y)", "np.minimum(x, y)", SHAPES, FLOATS, "x y", ulp=0),
    Row("x.maximum(y)", "np.maximum(x, y)", EDGES, ("float32",), ulp=0),
    Row("x.minimum(y)", "np.minimum(x, y)", EDGES, ("float32",), ulp=0),
    Row("x.maximum(y)", "np.maximum(x, y)", ("16:full; 16:full",), INTS),
    Row("x.minimum(y)", "np.minimum(x, y)", ("16:full; 16:full",), INTS),
    Row("x.maximum(y)", "x | y", ("16; 16",), ("bool",)),
    Row("x.maximum(1)", "np.maximum(x, 1)", ("9",), ("float32", "int32", "float16"), "x"),
    Row("x.clip(-1, 1)", "np.clip(x, -1, 1)", ("3,4",), FLOATS, "x", ulp=0),
    Row("x.clamp(0.5)", "np.maximum(x, 0.5)", ("3,4",), FLOATS, "x", ulp=0),
    Row("x.clip(max_=0.5)", "np.minimum(x, 0.5)", ("3,4",), FLOAT, "x", ulp=0),
    Row("x.clamp(2, 9)", "np.clip(x, 2, 9)", ("3,4",), INTS),
]
# tinygrad writes x <= y as not (y < x), which is true of NaN.
COMPARE = {"<=": "~(y < x)", ">=": "~(x < y)"}
COMPARISON = [
    Row("x %s y" % op, COMPARE.get(op, "x %s y" % op), ("12:ties; 12:ties", "24:special; 24:ties"), ALL)
        for op in ("<", "<=", ">", ">=", "==", "!=")
] + [
    Row("x.eq(y)", "x == y", ("12:ties; 12:ties",), FLOAT),
    Row("x.ne(y)", "x != y", ("24:special; 24:special",), FLOATS),
    Row("x < 1", "x < 1", ("9",), ALL),
    Row("x.isclose(y)", "np.isclose(x, y)", ("24:special; 24:special", "12:ties; 12:ties"), FLOAT),
    Row("x.isclose(y, equal_nan=True)", "np.isclose(x, y, equal_nan=True)", ("24:special; 24:special",), FLOAT),
    Row("x.isclose(y, rtol=0.1, atol=0.5)", "np.isclose(x, y, rtol=0.1, atol=0.5)", ("12; 12",), FLOAT),
    Row("x.allclose(x + 1e-9)", "True", ("12:pos",), FLOAT),
    Row("x.allclose(y)", "False", ("12; 12",), FLOAT),
]
BITS = [
    Row("x & y", "x & y", ("12:full; 12:full",), INTS + ("bool",)),
    Row("x | y", "x | y", ("12:full; 12:full",), INTS + ("bool",)),
    Row("x ^ y", "x ^ y", ("12:full; 12:full",), INTS + ("bool",)),
    Row("x.bitwise_and(7)", "x & 7", ("12:full",), INTS),
    Row("x.bitwise_or(8)", "x | 8", ("12:full",), INTS),
    Row("x.bitwise_xor(5)", "x ^ 5", ("12:full",), INTS),
    Row("6 & x", "6 & x", ("12:full",), ("int32", "uint8")),
    Row("6 | x", "6 | x", ("12:full",), ("int32", "uint8")),
    Row("6 ^ x", "6 ^ x", ("12:full",), ("int32", "uint8")),
    Row("3 << x", "3 << x", ("12:shift",), ("uint32",)),
    Row("200 >> x", "200 >> x", ("12:shift",), ("uint32",)),
    # tinygrad's own lowering refuses these on every device.
    Row("3 << x", "3 << x", ("12:shift",), ("int32", "int64"), cpu=False, levels="T"),
    Row("200 >> x", "200 >> x", ("12:shift",), ("int32", "int64"), cpu=False, levels="T"),
    Row("x << 3", "", ("12:full",), UNSIGNED),
    Row("x >> 3", "x >> 3", ("12:full",), UNSIGNED),
    Row("x.lshift(2)", "", ("12:shift",), INTS),
    Row("x.rshift(2)", "x >> 2", ("12:shift",), INTS),
    Row("x << y", "x << y", ("12:full; 12:shift",), UNSIGNED),
    Row("x >> y", "x >> y", ("12:full; 12:shift",), UNSIGNED),
    Row("x >> 1", "x >> 1", ("12:full",), SIGNED),
    Row("x &= y; x |= 1; x ^= 2; x <<= 1; x >>= 1; x", "", ("9:shift; 9",), ("int32", "uint32")),
    Row("x.threefry(y)", "", ("9:full; 9:full",), ("uint64",)),
]
POWERS = [
    Row("x ** y", "np.power(x, y)", ("3,4:pos; 4", "2,1:pos; 1,3"), FLOATS, "x y", norm=64),
    Row("x.pow(y)", "np.power(x, y)", ("24:special; 24:ties", "24:nz; 24:ties"), FLOAT, ulp=16),
    Row("x ** 2", "x ** 2", ("3,4",), FLOATS, "x", ulp=4),
    Row("x ** 2", "x ** 2", ("24:special",), FLOATS, ulp=4),
    Row("x ** 3", "x ** 3", ("3,4",), FLOATS, "x", ulp=4),
    Row("x ** 0.5", "x ** 0.5", ("3,4:pos",), FLOATS, "x", ulp=16),
    Row("x ** -1", "1 / x", ("3,4:nz",), FLOATS, "x", ulp=4),
    Row("x ** 2.5", "x ** 2.5", ("3,4:pos",), FLOATS, "x", ulp=16),
    Row("x ** 0", "x ** 0", ("3,4",), FLOATS, "x", ulp=0),
    Row("2 ** x", "2.0 ** x", ("3,4",), FLOATS, "x", ulp=16),
    Row("x ** 3", "x ** 3", ("9",), INTS),
    Row("x ** y", "np.power(x, y)", ("9:shift; 9:shift",), ("int32", "int64"), either=True),
    Row("x **= 2; x", "x ** 2", ("9",), FLOAT, "", ulp=4),
]
CHOICE = [
    Row("(x > 0).where(x, y)", "np.where(x > 0, x, y)", ("3,4; 3,4", "3,4; 4", "3,4; "), FLOATS, "x y", ulp=0),
    Row("x.where(y, z)", "np.where(x, y, z)", ("3,4:bool; 3,4; 3,4", "4:bool; 3,4; 3,1"), ALL, ulp=0),
    Row("(x > 0).where(x, 0)", "np.where(x > 0, x, 0)", ("3,4",), ALL[:-1], ulp=0),
    Row("(x > 0).where(1.5, 2)", "np.where(x > 0, 1.5, 2)", ("3,4",), FLOAT, ulp=0),
    Row("x.masked_fill(y, 2)", "np.where(y, 2, x)", ("3,4; 3,4:bool", "3,4; 4:bool"), FLOATS, "x", ulp=0),
    Row("x.masked_fill(y, 2)", "np.where(y, 2, x)", ("3,4; 3,4:bool",), INTS),
    Row("(x < 0.5).where(x.exp(), x.log())", "", ("9:pos",), FLOAT, "x"),
]

TABLES = {
    "arithmetic": ARITHMETIC, "extrema": EXTREMA, "comparison": COMPARISON,
    "bits": BITS, "powers": POWERS, "choice": CHOICE,
}  # fmt: skip
