"""One operand: rounding, roots, logarithms, circular functions, activations, casts."""

from rows import ALL, FLOAT, FLOAT8, FLOATS, INTS, SIGNED, Row

F = ("3,4", "7:special", "")
S = ("2,3,5", "24:special")

ELEMENTARY = [
    # the IR's own ops: bounds of its definition
    Row("x.exp2()", "np.exp2(x)", F, FLOATS, "x", ulp=2),
    Row("x.log2()", "np.log2(x)", ("3,4:pos", "24:special"), FLOATS, "", ulp=2),
    Row("x.sin()", "np.sin(x)", ("3,4", "24:special", "16:wide"), FLOATS, "", ulp=4),
    Row("x.sqrt()", "np.sqrt(x)", ("3,4:pos", "24:special"), FLOATS, "", ulp=0),
    Row("x.reciprocal()", "1/x", ("3,4:nz", "24:special"), FLOATS, "", ulp=0),
    Row("x.trunc()", "np.trunc(x)", ("3,4", "24:special", "9:half"), FLOATS, "x", ulp=0),
    Row("x.neg()", "-x", ("3,4", "24:special"), FLOATS, "x", ulp=0),
    Row("-x", "-x", ("9", "8:full"), INTS),
    Row("x.neg()", "~x", ("9",), ("bool",)),
    Row("x.log2()", "", ("3,5:pos",), FLOATS, "x"),
    Row("x.sin()", "", ("3,5",), FLOATS, "x"),
    Row("x.sqrt()", "", ("3,5:pos",), FLOATS, "x"),
    Row("x.reciprocal()", "", ("3,5:nz",), FLOATS, "x"),
]
ROUNDING = [
    Row("x.floor()", "np.floor(x)", ("3,4:half", "24:special"), FLOATS, "x", ulp=0),
    Row("x.ceil()", "np.ceil(x)", ("3,4:half", "24:special"), FLOATS, "x", ulp=0),
    Row("x.round()", "np.round(x)", ("3,4:half", "24:special"), FLOATS, "x", ulp=0),
    Row("x.sign()", "np.sign(x)", ("3,4:half",), FLOATS, "x", ulp=0),
    Row("x.sign()", "", ("24:special",), FLOATS, ulp=0),
    Row("x.sign()", "np.sign(x)", ("9",), INTS),
    Row("x.abs()", "np.abs(x)", ("3,4", "24:special"), FLOATS, "x", ulp=0),
    Row("x.abs()", "np.abs(x)", ("3,4", "10:special"), INTS),
    Row("x.isnan()", "np.isnan(x)", ("24:special",), FLOATS),
    Row("x.isinf()", "np.isinf(x)", ("24:special",), FLOATS),
    Row("x.isinf(detect_negative=False)", "x == np.inf", ("24:special",)),
    Row("x.isfinite()", "np.isfinite(x)", ("24:special",), FLOATS),
    Row("x.logical_not()", "x == 0", ("24:special",), ALL),
    Row("x.bitwise_not()", "~x", ("8:full",), INTS + ("bool",)),
    Row("~x", "~x", ("8:full",), ("int32", "uint8", "bool")),
]
FUNCTIONS = [
    Row("x.exp()", "np.exp(x)", F, FLOATS, "x", ulp=16),
    Row("x.log()", "np.log(x)", ("3,4:pos", "24:special"), FLOATS, "", ulp=4),
    Row("x.log10()", "np.log10(x)", ("3,4:pos",), FLOATS, "x", norm=8),
    Row("x.cos()", "np.cos(x)", ("3,4",), FLOATS, "x", norm=16),
    Row("x.cos()", "np.cos(x)", ("16:wide",), FLOATS, norm=256),
    Row("x.tan()", "np.tan(x)", ("3,4:unit",), FLOATS, "x", norm=16),
    Row("x.asin()", "np.arcsin(x)", ("3,4:unit",), ("float32", "float16"), "x", norm=4000),
    Row("x.acos()", "np.arccos(x)", ("3,4:unit",), ("float32", "float16"), "x", norm=4000),
    Row("x.atan()", "np.arctan(x)", ("3,4",), ("float32", "float16"), "x", norm=4000),
    Row("x.sinh()", "np.sinh(x)", ("3,4",), FLOATS, "x"),
    Row("x.cosh()", "np.cosh(x)", ("3,4",), FLOATS, "x"),
    Row("x.tanh()", "np.tanh(x)", ("3,4", "7:special", "16:wide"), FLOATS, "x"),
    Row("x.asinh()", "np.arcsinh(x)", ("3,4",), FLOATS, "x"),
    Row("x.acosh()", "np.arccosh(x)", ("3,4:gt1",), FLOATS, "x"),
    Row("x.atanh()", "np.arctanh(x)", ("3,4:unit",), FLOATS, "x"),
    Row("x.rsqrt()", "1/np.sqrt(x)", ("3,4:pos",), FLOATS, "x", ulp=2),
    Row("x.square()", "x*x", ("3,4",), FLOATS, "x", ulp=0),
    Row("x.square()", "x*x", ("8:full",), INTS),
    Row("x.erf()", "erf(x)", ("3,4",), FLOATS[:3], "x", norm=40),
    Row("x.erf()", "", ("3,4",), ("float64",), "x"),
    Row("x.sigmoid()", "sigmoid(x)", ("3,4", "24:special"), FLOATS, "x", norm=4),
    Row("x.sigmoid()", "sigmoid(x)", ("8:wide",), FLOATS, norm=4),
    Row("x.exp()", "", ("16:wide",), FLOAT, "x", norm=500),
]
ACTIVATIONS = [
    Row("x.relu()", "np.where(x > 0, x, x*0)", ("3,4", "6"), FLOATS, "x", ulp=0),
    Row("x.relu()", "np.maximum(x, 0)", ("9",), SIGNED),
    Row("x.relu6()", "np.clip(x, 0, 6)", ("3,4", "16:wide"), FLOATS, "x"),
    Row("x.leaky_relu()", "np.where(x > 0, x, x*0.01)", ("3,4",), FLOATS, "x"),
    Row("x.leaky_relu(0.3)", "np.where(x > 0, x, x*0.3)", ("3,4",), FLOAT, "x"),
    Row("x.elu()", "np.where(x > 0, x, np.exp(x)-1)", ("3,4",), FLOATS, "x"),
    Row("x.elu(0.7)", "np.where(x > 0, x, 0.7*(np.exp(x)-1))", ("3,4",), FLOAT, "x"),
    Row("x.celu()", "np.where(x > 0, x, np.exp(x)-1)", ("3,4",), FLOATS, "x"),
    Row("x.celu(0.5)", "np.where(x > 0, x, 0.5*(np.exp(x/0.5)-1))", ("3,4",), FLOAT, "x"),
    Row("x.selu()", "1.0507*np.where(x > 0, x, 1.67326*(np.exp(x)-1))", ("3,4",), FLOATS, "x"),
    Row("x.gelu()", "0.5*x*(1+np.tanh(np.sqrt(2/np.pi)*(x+0.044715*x**3)))", ("3,4", "16:wide"), FLOATS, "x",
        norm=16),
    Row("x.gelu('none')", "0.5*x*(1+erf(x/np.sqrt(2)))", ("3,4",), FLOATS[:3], "x", norm=40),
    Row("x.quick_gelu()", "x*sigmoid(1.702*x)", ("3,4",), FLOATS, "x"),
    Row("x.silu()", "x*sigmoid(x)", ("3,4", "16:wide"), FLOATS, "x"),
    Row("x.swish()", "x*sigmoid(x)", ("3,4",), FLOATS, "x"),
    Row("x.mish()", "x*np.tanh(np.log1p(np.exp(x)))", ("3,4",), FLOATS, "x"),
    Row("x.softplus()", "np.log1p(np.exp(x))", ("3,4",), FLOATS, "x"),
    Row("x.softplus(beta=3)", "np.log1p(np.exp(3*x))/3", ("3,4",), FLOAT, "x"),
    Row("x.softsign()", "x/(1+np.abs(x))", ("3,4",), FLOATS, "x"),
    Row("x.hardsigmoid()", "np.clip(x/6+0.5, 0, 1)", ("3,4", "16:wide"), FLOATS, "x"),
    Row("x.hardswish()", "x*np.clip(x+3, 0, 6)/6", ("3,4",), FLOATS, "x"),
    Row("x.hardtanh()", "np.clip(x, -1, 1)", ("3,4",), FLOATS, "x"),
    Row("x.hardtanh(-0.5, 2)", "np.clip(x, -0.5, 2)", ("3,4",), FLOAT, "x"),
    Row("x.logsigmoid()", "-np.log1p(np.exp(-x))", ("3,4",), FLOATS, "x"),
]

# One row for each destination: x's dtype is the source.
CASTS = [
    Row("x.cast('%s')" % to, "cast(x, '%s')" % to, ("24:ties", "24:special"), ALL + FLOAT8, cpu=False)
        for to in INTS + ("bool",)
] + [
    Row("x.cast('%s')" % to, "cast(x, '%s')" % to, ("24:ties", "24:special"), ALL + FLOAT8, ulp=-1) for to in FLOATS
] + [
    Row("x.cast('%s')" % to, "cast(x, '%s')" % to, ("24:pos", "24:ties"), ALL + FLOAT8, ulp=-1) for to in FLOAT8
] + [
    Row("x.cast('%s')" % to, "", ("24:pos",), ("float32", "int32", "uint64"), ulp=-1) for to in INTS + FLOATS
] + [
    Row("x.float()", "", ("9",), ALL, ulp=-1),
    Row("x.half()", "", ("9", "24:special"), ("float32", "float64", "int32"), ulp=-1),
    Row("x.bfloat16()", "", ("9", "24:special"), ("float32", "float64", "int32"), ulp=-1),
    Row("x.double()", "", ("9", "24:special"), ALL, ulp=-1),
    Row("x.int()", "", ("9",), ALL),
    Row("x.long()", "", ("9",), ALL),
    Row("x.short()", "", ("9",), ALL),
    Row("x.bool()", "x != 0", ("24:special",), ALL),
    Row("x.cast('int8')", "x.astype(np.int8)", ("12:full",), INTS),
    Row("x.cast('uint16')", "x.astype(np.uint16)", ("12:full",), INTS),
    Row("x.cast('int64')", "x.astype(np.int64)", ("12:full",), INTS),
    Row("x.cast('float32')", "x", ("12:full",), INTS, ulp=0),
    Row("x.cast('float64')", "x.astype(np.float64)", ("12:full",), INTS, ulp=0),
    Row("x.cast('float16').cast('float32')", "x.astype(np.float16)", ("24:special",), ("float32",), ulp=0, either=True),
    Row("x.bitcast('int32')", "", ("3,4", "24:special"), ("float32", "uint32")),
    Row("x.bitcast('float32')", "", ("8",), ("int32",), ulp=-1),
    Row("x.bitcast('uint8')", "", ("3,4",), ("float32", "int16", "float64", "float16")),
    Row("x.bitcast('uint16')", "", ("3,4",), ("float16", "bfloat16", "uint8", "uint32")),
    Row("x.bitcast('uint64')", "", ("3,4",), ("float32", "float64", "uint16")),
]

TABLES = {
    "elementary": ELEMENTARY, "rounding": ROUNDING, "functions": FUNCTIONS, "activations": ACTIVATIONS, "casts": CASTS,
}  # fmt: skip
