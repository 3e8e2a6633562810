"""Every elementwise op on scalars, by exact arithmetic.

An independent reading of docs/ir.md's tables: integers are Python's, floats are
rationals that are rounded once, by the one function `encode`. Only the
transcendental functions come from libm, in float64.
"""

import ctypes
import fractions
import math
import random
import struct

import numpy as np

FLOAT8 = {  # exponent bits, mantissa bits
    "float8_e4m3": (4, 3),
    "float8_e5m2": (5, 2),
    "float8_e4m3_fnuz": (4, 3),
    "float8_e5m2_fnuz": (5, 2),
}
FLOATS = {
    "float16": (5, 10),
    "bfloat16": (8, 7),
    "float32": (8, 23),
    "float64": (11, 52),
    **FLOAT8,
}
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = ["bool"] + INTS + list(FLOATS)


def has_infinity(dtype):
    return dtype not in FLOAT8 or dtype == "float8_e5m2"


def fnuz(dtype):
    return dtype.endswith("fnuz")


def bias(dtype):
    return (1 << (FLOATS[dtype][0] - 1)) - (0 if fnuz(dtype) else 1)


def greatest(dtype):
    """The pattern of the greatest finite value."""
    e_bits, m_bits = FLOATS[dtype]
    if fnuz(dtype):
        return 0x7F
    return 0x7E if dtype == "float8_e4m3" else (((1 << e_bits) - 1) << m_bits) - 1


def width(dtype):
    if dtype == "bool":
        return 1
    if dtype in FLOAT8:
        return 8
    return int(dtype.lstrip("bfloatuin"))


def item_size(dtype):
    return max(1, width(dtype) // 8)


def signed(dtype):
    return dtype.startswith("int")


def wrap(dtype, n):
    """The integer n modulo the width of dtype, in its range."""
    n &= (1 << width(dtype)) - 1
    return n - (1 << width(dtype)) if signed(dtype) and n >> (width(dtype) - 1) else n


def decode(dtype, bits):
    """A bit pattern as a Fraction, or as a float: nan, inf, -inf, -0.0."""
    if dtype not in FLOATS:
        return wrap(dtype, bits)
    e_bits, m_bits = FLOATS[dtype]
    mantissa = bits & ((1 << m_bits) - 1)
    exponent = (bits >> m_bits) & ((1 << e_bits) - 1)
    negative = bits >> (e_bits + m_bits)
    if fnuz(dtype) and bits == 0x80:
        return math.nan
    if bits & ((1 << (e_bits + m_bits)) - 1) > greatest(dtype):
        infinite = has_infinity(dtype) and mantissa == 0
        return math.nan if not infinite else (-math.inf if negative else math.inf)
    if exponent == 0 and mantissa == 0:
        return -0.0 if negative else fractions.Fraction(0)
    significand = mantissa if exponent == 0 else mantissa | (1 << m_bits)
    value = fractions.Fraction(significand) * fractions.Fraction(2) ** (max(exponent, 1) - bias(dtype) - m_bits)
    return -value if negative else value


def encode(dtype, value):
    """The pattern nearest to a Fraction or float, ties to even; "nan" for NaN.

    float8 saturates a finite value.
    """
    e_bits, m_bits = FLOATS[dtype]
    sign_bit = 1 << (e_bits + m_bits)
    infinity = ((1 << e_bits) - 1) << m_bits
    if isinstance(value, float):
        if math.isnan(value):
            return "nan"
        if math.isinf(value):
            return (infinity | (sign_bit if value < 0 else 0)) if has_infinity(dtype) else "nan"
        if value == 0:
            return sign_bit if math.copysign(1, value) < 0 and not fnuz(dtype) else 0
        value = fractions.Fraction(value)
    if value == 0:
        return 0
    sign = sign_bit if value < 0 else 0
    value = abs(value)
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if fractions.Fraction(2) ** exponent > value:
        exponent -= 1
    exponent = max(exponent, 1 - bias(dtype))
    quantum = fractions.Fraction(2) ** (exponent - m_bits)
    steps = round(value / quantum)  # Fraction rounds ties to even
    bits = ((exponent + bias(dtype) - 1) << m_bits) + steps
    bits = min(bits, greatest(dtype) if dtype in FLOAT8 else infinity)
    return 0 if fnuz(dtype) and bits == 0 else sign | bits


def real(value):
    """As a Python float: exact for up to float64."""
    return value if isinstance(value, float) else float(value)


def ieee(dtype, op, *values):
    """An operation on floats: exact where both are numbers, else as IEEE says."""
    a, b = values[0], values[1] if len(values) > 1 else None
    numbers = [isinstance(v, fractions.Fraction) or v == 0 for v in values if v is not None]
    with np.errstate(all="ignore"):
        if op == "ADD":
            if all(numbers) and not (a == 0 and b == 0) and a + fractions.Fraction(b) != 0:
                return fractions.Fraction(a) + fractions.Fraction(b)
            return float(np.float64(real(a) if not all(numbers) or a == 0 else math.copysign(1, a))
                         + np.float64(real(b) if not all(numbers) or b == 0 else math.copysign(1, b)))
        if op == "MUL":
            if all(numbers) and a != 0 and b != 0:
                return a * b
            return float(np.float64(clamp(a)) * np.float64(clamp(b)))
        if op == "FDIV":
            if all(numbers) and a != 0 and b != 0:
                return a / b
            return float(np.float64(clamp(a)) / np.float64(clamp(b)))
    raise ValueError(op)


def clamp(value):
    """Its class and sign, where only those matter."""
    if isinstance(value, fractions.Fraction) and value != 0:
        return 1.0 if value > 0 else -1.0
    return float(value)


def sqrt(dtype, value):
    if not isinstance(value, fractions.Fraction) or value <= 0:
        with np.errstate(all="ignore"):
            return float(np.sqrt(np.float64(real(value) if not isinstance(value, fractions.Fraction) else clamp(value))))
    # Enough bits of the root, and a sticky one below them.
    shift = 700
    scaled = value * fractions.Fraction(4) ** shift
    root = math.isqrt(scaled.numerator // scaled.denominator)
    exact = fractions.Fraction(root) ** 2 == scaled
    return fractions.Fraction(root * 2 + (0 if exact else 1), 2) / fractions.Fraction(2) ** shift


LIBM = ctypes.CDLL("libm.so.6")  # not numpy's, which differs from machine to machine
LIBM_NAMES = {"EXP2": "exp2", "LOG2": "log2", "SIN": "sin", "POW": "pow"}


def transcendental(op, *values):
    function = getattr(LIBM, LIBM_NAMES[op])
    function.restype = ctypes.c_double
    function.argtypes = [ctypes.c_double] * len(values)
    return function(*(real(v) for v in values))


def threefry(x, key):
    mask = 0xFFFFFFFF
    k0, k1 = key & mask, key >> 32
    keys = [k0, k1, k0 ^ k1 ^ 0x1BD11BDA]
    a, b = ((x & mask) + k0) & mask, ((x >> 32) + k1) & mask
    for group in range(5):
        for by in ([13, 15, 26, 6], [17, 29, 16, 24])[group % 2]:
            a = (a + b) & mask
            b = ((b << by | b >> (32 - by)) & mask) ^ a
        a = (a + keys[(group + 1) % 3]) & mask
        b = (b + keys[(group + 2) % 3] + group + 1) & mask
    return b << 32 | a


def integer(dtype, op, a, b):
    bits = width(dtype)
    count = b & ((1 << bits) - 1)
    if dtype == "bool" and op in ("ADD", "MAX"):
        return a | b
    if op == "ADD":
        return a + b
    if op == "MUL":
        return a * b
    if op == "MAX":
        return max(a, b)
    if op in ("FLOORDIV", "IDIV"):
        return 0 if b == 0 else a // b
    if op in ("FLOORMOD", "MOD"):
        return a if b == 0 else a - a // b * b
    if op in ("CDIV", "CMOD"):
        quotient = 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if op == "CDIV" else a - quotient * b
    if op == "XOR":
        return a ^ b
    if op == "OR":
        return a | b
    if op == "AND":
        return a & b
    if op == "SHL":
        return 0 if count >= bits else a << count
    if op == "SHR":
        return (-1 if a < 0 else 0) if count >= bits else a >> count
    if op == "THREEFRY":
        return threefry(a, b)
    raise ValueError(op)


def less(a, b):
    return not math.isnan(a) and not math.isnan(b) and a < b


def evaluate(op, dtype, bits):
    """The result's bits of `op` over operands of `dtype`, or "nan"."""
    values = [decode(dtype, b) for b in bits]
    a, b = values[0], values[1] if len(values) > 1 else None
    if op in ("CMPLT", "CMPNE", "CMPGT", "CMPGE", "CMPLE", "CMPEQ"):
        return int({
            "CMPLT": less(a, b), "CMPNE": a != b, "CMPGT": less(b, a),
            "CMPGE": not less(a, b), "CMPLE": not less(b, a), "CMPEQ": a == b,
        }[op])
    if op == "NEG":
        return evaluate("MUL", dtype, [bits[0], encode(dtype, -1.0)]) if dtype in FLOATS else negate(dtype, bits[0])
    if op == "SUB":
        negative = evaluate("NEG", dtype, [bits[1]])
        return "nan" if negative == "nan" else evaluate("ADD", dtype, [bits[0], negative])
    if op == "MULACC":
        product = evaluate("MUL", dtype, bits[:2])
        return "nan" if product == "nan" else evaluate("ADD", dtype, [product, bits[2]])
    if op == "TRUNC" and dtype not in FLOATS:
        return bits[0]
    if dtype not in FLOATS:
        return integer(dtype, op, a, b) & ((1 << width(dtype)) - 1)
    if op == "MAX":
        if math.isnan(a) or math.isnan(b):
            return "nan"
        return bits[0] if a > b else bits[1]
    if op == "TRUNC":
        if not isinstance(a, fractions.Fraction):
            return encode(dtype, a)
        whole = math.trunc(a)
        return encode(dtype, math.copysign(0.0, real(a)) if whole == 0 else fractions.Fraction(whole))
    # Narrow floats are computed in float32 and rounded once more.
    inner = dtype if width(dtype) >= 32 else "float32"
    if op == "RECIPROCAL":
        result = ieee(inner, "FDIV", fractions.Fraction(1), a)
    elif op == "SQRT":
        result = sqrt(inner, a)
    elif op in ("EXP2", "LOG2", "SIN", "POW"):
        result = transcendental(op, *values)
    else:
        result = ieee(inner, op, a, b)
    in_bits = encode(inner, result)
    return in_bits if inner == dtype or in_bits == "nan" else encode(dtype, decode(inner, in_bits))


def negate(dtype, bits):
    return 1 - bits if dtype == "bool" else -bits & ((1 << width(dtype)) - 1)


def cast(source, target, bits):
    value = decode(source, bits)
    if target == "bool":
        return int(value != 0)
    if target in FLOATS:
        return encode(target, value if isinstance(value, float) else fractions.Fraction(value))
    if isinstance(value, int):
        return value & ((1 << width(target)) - 1)
    low = -(1 << (width(target) - 1)) if signed(target) else 0
    high = low + (1 << width(target)) - 1
    if math.isnan(value):
        return 0
    n = (low if value < 0 else high) if math.isinf(value) else min(max(math.trunc(value), low), high)
    return n & ((1 << width(target)) - 1)


# -- Which operands each op is tried on.


def int_edges(dtype):
    low = -(1 << (width(dtype) - 1)) if signed(dtype) else 0
    high = low + (1 << width(dtype)) - 1
    wanted = [0, 1, 2, 3, 7, 8, width(dtype) - 1, width(dtype), -1, -2, -7, low, low + 1, high, high - 1, high // 2]
    return [n & ((1 << width(dtype)) - 1) for n in dict.fromkeys(wanted) if low <= n <= high]


def float_edges(dtype):
    e_bits, m_bits = FLOATS[dtype]
    if dtype in FLOAT8:
        most = greatest(dtype)
        wanted = [0, encode(dtype, 1.0), encode(dtype, -1.0), encode(dtype, 0.5), encode(dtype, -3.0), encode(dtype, 2.0),
                  1, 0x81, (1 << m_bits) - 1, 1 << m_bits, most, 0x80 | most, 0x80, 0x7F, 0x7C, 0xFC]
        return list(dict.fromkeys(wanted))
    infinity = ((1 << e_bits) - 1) << m_bits
    sign = 1 << (e_bits + m_bits)
    nan = infinity | (1 << (m_bits - 1))
    one = encode(dtype, 1.0)
    return [0, sign, one, sign | one, encode(dtype, 0.5), encode(dtype, -3.0), encode(dtype, 2.0), infinity, sign | infinity, nan,
            1, sign | 1, (1 << m_bits) - 1, 1 << m_bits, infinity - 1, sign | (infinity - 1)]


def edges(dtype):
    return [0, 1] if dtype == "bool" else float_edges(dtype) if dtype in FLOATS else int_edges(dtype)


def random_value(dtype, rng):
    if dtype not in FLOATS:
        return rng.getrandbits(width(dtype))
    if rng.random() < 0.4:
        return rng.getrandbits(width(dtype))  # any exponent
    bits = encode(dtype, rng.uniform(-20, 20))
    return bits


UNARY_FLOATS = [0.1, 0.25, 0.75, 1.5, 2.5, -0.1, -0.5, -1.5, -2.5, 3.141592653589793, 1.5707963267948966, -3.1415926535897931, 6.28318530717958,
                10.0, 24.0, 30.7, 100.0, 127.5, 128.0, 1000.5, 65504.0, -65520.0, 100000.5, 8388609.0, 16777217.0, 2147483647.0, -2147483648.0,
                2147483648.5, 4294967295.0, 4294967296.0, 9.2233720368547758e18, -9.2233720368547758e18, 1.8446744073709552e19, 1e22, 1e30, 1e-10,
                1e-40, 1e300, -149.0, -126.5, -1074.0, 1023.999, 1e5, 12345.678, 254.9, 255.5, 256.0, -128.9, -129.0, 127.9, 32767.5, -32769.0]


def unary_operands(dtype, rng):
    if dtype in FLOAT8:
        return list(range(256))
    out = list(edges(dtype))
    if dtype in FLOATS:
        out += [b for b in (encode(dtype, v) for v in UNARY_FLOATS) if b != "nan"]
        out += [encode(dtype, rng.uniform(-500, 500)) for _ in range(10)]
    elif dtype != "bool":
        # Ties and near-ties of integer to float casts.
        for bit in (8, 9, 11, 12, 24, 25, 53, 54, 62, 63):
            out += [n for n in ((1 << bit) + d for d in (-1, 1, 3)) if 0 <= n < 1 << width(dtype)]
    out += [random_value(dtype, rng) for _ in range(16 if dtype != "bool" else 4)]
    return list(dict.fromkeys(out))


def ternary_operands(dtype, rng):
    """Pairs: every edge with every edge, then random ones; and a third operand."""
    pairs = [(a, b) for a in edges(dtype) for b in edges(dtype)]
    pairs += [(random_value(dtype, rng), random_value(dtype, rng)) for _ in range(44 if dtype != "bool" else 4)]
    thirds = [rng.choice(edges(dtype)) if rng.random() < 0.3 else random_value(dtype, rng) for _ in pairs]
    return [p[0] for p in pairs], [p[1] for p in pairs], thirds


ANY_UNARY = ["TRUNC", "NEG"]
FLOAT_UNARY = ["RECIPROCAL", "EXP2", "LOG2", "SIN", "SQRT"]
ANY_BINARY = ["ADD", "MUL", "MAX", "CMPLT", "CMPNE", "SUB", "CMPGT", "CMPGE", "CMPLE", "CMPEQ"]
INT_BINARY = ["FLOORDIV", "FLOORMOD", "CDIV", "CMOD", "IDIV", "MOD", "XOR", "OR", "AND", "SHL", "SHR"]
FLOAT_BINARY = ["FDIV", "POW"]


def ops_for(dtype):
    """(op, number of operands) of each op that takes `dtype`."""
    kind_unary, kind_binary = (FLOAT_UNARY, FLOAT_BINARY) if dtype in FLOATS else ([], INT_BINARY)
    ops = [(op, 1) for op in ANY_UNARY + kind_unary] + [(op, 2) for op in ANY_BINARY + kind_binary] + [("MULACC", 3)]
    return ops + ([("THREEFRY", 2)] if dtype == "uint64" else [])


def text(values):
    return " ".join(v if v == "nan" else format(v, "x") for v in values)


def lines():
    rng = random.Random(2)
    for vector in ((0, 0, 0x99BA4EFE6B200159), (2**64 - 1, 2**64 - 1, 0xBB002BE71CB996FC)):
        assert threefry(vector[0], vector[1]) == vector[2]
    assert struct.pack("<f", 0.1) == encode("float32", 0.1).to_bytes(4, "little")
    assert struct.pack("<e", 0.1) == encode("float16", 0.1).to_bytes(2, "little")
    unary = {dtype: unary_operands(dtype, rng) for dtype in DTYPES}
    for dtype in DTYPES:
        a, b, c = ternary_operands(dtype, rng)
        yield f"values {dtype} u {text(unary[dtype])}"
        for name, values in (("a", a), ("b", b), ("c", c)):
            yield f"values {dtype} {name} {text(values)}"
        for op, count in ops_for(dtype):
            operands = [(v,) for v in unary[dtype]] if count == 1 else list(zip(a, b, c))
            yield f"op {op} {dtype} {text(evaluate(op, dtype, list(o[:count])) for o in operands)}"
    for source in DTYPES:
        for target in DTYPES:
            if source != target:
                yield f"cast {source} {target} {text(cast(source, target, v) for v in unary[source])}"
