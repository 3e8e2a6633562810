"""Tensors out of nothing: constants, ranges, random numbers; and what is asked of a tensor without computing."""

from rows import ALL, FLOAT, FLOATS, INTS, Row

NONE = ("-",)
GIVEN = "manual_seed"


def made(code, numpy="", dtypes=FLOAT, **rest):
    return Row(code, numpy, NONE, dtypes, **rest)


CREATION = [
    made("Tensor.zeros(3, 4).contiguous()", "np.zeros((3, 4))"),
    made("Tensor.ones(3, 4).contiguous() + 1", "np.full((3, 4), 2.0)"),
    made("Tensor.full((2, 3), 7).contiguous()", "np.full((2, 3), 7)"),
    made("Tensor.full((2, 3), 1.5).contiguous()", "np.full((2, 3), 1.5)"),
    made("Tensor.full((2,), True).contiguous()", "np.full(2, True)"),
    made("Tensor.full((2, 3), float('nan')).contiguous()", "np.full((2, 3), np.nan)"),
    made("Tensor.full((2, 3), float('-inf')).contiguous()", "np.full((2, 3), -np.inf)"),
    made("Tensor.eye(4).contiguous()", "np.eye(4)"),
    made("Tensor.eye(3, 5).contiguous()", "np.eye(3, 5)"),
    made("Tensor.const(3.5).contiguous() + 1", "4.5"),
    made("Tensor.invalids(4).cast('float32').shape", "[4]"),
    made("Tensor.empty(3, 4).shape", "[3, 4]"),
    made("Tensor(3.0) + Tensor(4)", "7.0"),
    made("Tensor([1, 2, 3]) + 1", "np.array([2, 3, 4])"),
    made("Tensor([[1.5, 2], [3, 4]]).sum(0)", "np.array([4.5, 6])"),
    made("Tensor([True, False]).contiguous()", "np.array([True, False])"),
    made("Tensor(np.arange(6).reshape(2, 3)) * 2", "np.arange(6).reshape(2, 3) * 2"),
    made("Tensor(b'abcd') + 1", "np.frombuffer(b'bcde', np.uint8)"),
    made("Tensor([]).sum()", "0.0"),
    made("Tensor.zeros(0, 3).contiguous().sum(0)", "np.zeros(3)"),
    made("Tensor.ones(3, 0).contiguous().shape", "[3, 0]"),
]
for dtype in ALL:
    CREATION += [
        made("Tensor.zeros(5, dtype='%s').contiguous()" % dtype),
        made("Tensor.ones(5, dtype='%s').contiguous() + Tensor.ones(5, dtype='%s').contiguous()" % (dtype, dtype)),
        made("Tensor.full((3,), 3, dtype='%s').contiguous()" % dtype),
        made("Tensor.eye(3, dtype='%s').contiguous()" % dtype),
    ]
RANGES = [
    made("Tensor.arange(%s).contiguous()" % arguments, "np.arange(%s)" % arguments, norm=16)
    for arguments in (
        "10", "3, 10", "3, 20, 4", "10, 3, -2", "0", "5, 5", "1", "300", "-5, 5", "0, 1, 0.125",
        "2.5, 5.5", "10, 0, -1", "5000",
    )
] + [
    made("Tensor.arange(9, dtype='%s').contiguous()" % dtype, "np.arange(9)") for dtype in ALL[:-1]
] + [
    made("Tensor.arange(10).sum()", "45"),
    made("Tensor.arange(24).reshape(4, 6)[1:3, ::2].contiguous()", "np.arange(24).reshape(4, 6)[1:3, ::2]"),
    made("Tensor.arange(1000).float().mean()", "499.5"),
    made("(Tensor.arange(5).unsqueeze(1) == Tensor.arange(7)).contiguous()", "np.arange(5)[:, None] == np.arange(7)"),
    made("(Tensor.arange(7) % 3 + Tensor.arange(7) // 2).contiguous()", "np.arange(7) % 3 + np.arange(7) // 2"),
    made("Tensor.arange(8).cumsum()", "np.arange(8).cumsum()"),
    made("Tensor.linspace(0, 1, 5)", "np.linspace(0, 1, 5)"),
    made("Tensor.linspace(-3, 7, 11)", "np.linspace(-3, 7, 11)"),
    made("Tensor.linspace(5, 5, 1)", "np.linspace(5, 5, 1)"),
    made("Tensor.linspace(0, 10, 6, dtype='int32')", "np.linspace(0, 10, 6).astype(int)"),
]
LIKES = [
    Row("x.%s.contiguous()" % call, numpy, ("3,4",), ("float32", "int32", "bfloat16", "bool"), ulp=0)
    for call, numpy in (
        ("zeros_like()", "np.zeros((3, 4))"), ("ones_like()", "np.ones((3, 4))"),
        ("full_like(1)", "np.ones((3, 4))"), ("const_like(1)", "np.ones((3, 4))"),
    )
] + [
    Row("x.zeros_like(dtype='int64').contiguous()", "np.zeros((3, 4))", ("3,4",)),
    Row("x.empty_like().shape", "[3, 4]", ("3,4",)),
    Row("x.rand_like()", "", ("3,4",), FLOATS, ulp=-1),
    Row("x.randn_like()", "", ("3,4",), ("float32", "float16", "bfloat16"), norm=16),
    # Made in float32, of constants that tinygrad's CPU device does not round to it.
    Row("x.randn_like()", "", ("3,4",), ("float64",), norm=2**30),
]  # fmt: skip
# The counters are integers: the same seed gives the same bits on every device.
RANDOM = [
    made("Tensor.rand(%s)" % shape, ulp=-1) for shape in ("7", "3, 4", "1000", "", "0", "33, 65", "4097")
] + [
    made("Tensor.rand(20, dtype='%s')" % dtype, ulp=-1) for dtype in FLOATS
] + [
    made("Tensor.manual_seed(%d); Tensor.rand(10)" % seed, ulp=-1) for seed in (0, 42, 2**31)
] + [
    made("a = Tensor.rand(5); b = Tensor.rand(5); Tensor.stack(a, b)", ulp=-1),
    made("a = Tensor.rand(5); a.realize(); Tensor.rand(5) + a", ulp=0),
    made("Tensor.randint(20)"),
    made("Tensor.randint(20, low=-5, high=5)"),
    made("Tensor.randint(9, low=0, high=200, dtype='uint8')"),
    made("Tensor.randint(9, low=0, high=100000, dtype='int64')"),
    made("Tensor.uniform(3, 4)", ulp=1),
    made("Tensor.uniform(9, low=-2, high=5)", norm=2),
    made("Tensor.uniform(9, low=-2, high=5, dtype='float16')", norm=2),
    made("Tensor.randn(3, 5)", norm=16),
    made("Tensor.randn(1000)", norm=16),
    made("Tensor.randn(9, dtype='float16')", norm=16),
    made("Tensor.normal(9, mean=3, std=2)", norm=16),
    made("Tensor.glorot_uniform(3, 4)", norm=2),
    made("Tensor.kaiming_uniform(3, 4)", norm=2),
    made("Tensor.kaiming_normal(3, 4)", norm=16),
    made("Tensor.scaled_uniform(3, 4)", norm=2),
    made("Tensor.randperm(10)"),
    made("Tensor.randperm(12).sort()[0]", "np.arange(12)"),
    made("Tensor.random_bits(Tensor([1, 2], dtype='uint32'), Tensor([0, 0], dtype='uint32'), 9)"),
    Row("x.multinomial(5, replacement=True)", "", ("4:pos", "2,4:pos"), FLOAT),
    Row("x.multinomial()", "", ("4:pos",), FLOAT),
    made("Tensor.rand(16, 4).mean(0)", norm=16),
    made("Tensor.rand(2, 3).permute(1, 0).contiguous()", ulp=-1),
]  # fmt: skip
ASKED = [
    Row(code, numpy, ("3,4",), ("float32", "int8"), ulp=-1)
    for code, numpy in (
        ("x.shape", "[3, 4]"), ("x.ndim", "2"), ("x.numel()", "12"), ("x.size()", "[3, 4]"), ("x.size(1)", "4"),
        ("np.array(x.tolist())", "x"),
        ("x[1, 2].item()", "x[1, 2]"), ("x.numpy()", "x"), ("np.asarray(x.data())", "x"),
        ("x.nbytes() // x.element_size()", "12"),
        ("x.is_floating_point()", "np.dtype(dtype).kind == 'f'"), ("x.max_numel()", "12"),
        ("x.max_shape", "[3, 4]"), ("len(x)", "3"),
        ("(x == x).all().item()", "True"), ("x.device == D", "True"),
        ("x.clone()", "x"), ("x.contiguous_backward()", "x"),
        ("str(x.dtype) != ''", "True"), ("x.realize() is x", "True"), ("x.ufix(2).float()", "2.0"),
        ("x.alu(tg.uop.ops.Ops.ADD, x)", "x + x"),
        ("x.callify(); x", "x"),
    )
] + [
    Row("x.is_param_(); x.square().sum().backward(); x.grad", "2 * x", ("3,4",), FLOATS, ulp=0),
    Row("x.is_param_(); (x * x).backward(y); x.grad", "2 * x * y", ("3,4; 3,4",), FLOAT, ulp=2),
    Row("x.is_param_(); x.square().sum().backward(); x.exp().sum().backward(); x.grad", "2 * x + np.exp(x)",
        ("3,4",), FLOAT),
    Row("x.square().sum().gradient(x)", "2 * x", ("3,4",), FLOAT, ulp=0),
    Row("x.call(y, fxn=x.as_param(0) * 2 + y.as_param(1))", "x * 2 + y", ("3,4; 3,4",), FLOAT + ("int32",), ulp=1),
    Row("Tensor.empty(4, dtype=x.dtype).custom_kernel(x, y, fxn=add_kernel)[0]", "x + y", ("4; 4",),
        FLOAT + ("int32",), ulp=0),
    Row("(x.contiguous_backward() * 3)", "x * 3", ("3,4",), FLOAT, "x", ulp=0),
]  # fmt: skip
# Formulas of quadratic size, written out; run only where all cases are, for their limits are of time.
LARGE = [
    made("Tensor.rand(2**23).realize().shape", "[2**23]", cpu=False, levels="T", seconds=1),
    made("Tensor.arange(2**20).sum(dtype='int64')", "2**19 * (2**20 - 1)", cpu=False, levels="T", seconds=1),
    made("Tensor.arange(2**20).sum()", "np.arange(2**20, dtype=np.int32).sum(dtype=np.int32)", cpu=False, levels="T",
        seconds=1),
    made("Tensor.ones(10**6).contiguous().cumsum()[-1]", "1e6", cpu=False, levels="T", seconds=1),
    Row("x.cumsum()[-3:]", "x.cumsum()[-3:]", ("1000000",), FLOAT, cpu=False, levels="T", norm=1e4, seconds=1),
    Row("x.cumsum(1)[:, -1]", "x.cumsum(1)[:, -1]", ("4,250000",), FLOAT, cpu=False, levels="T", norm=1e4, seconds=1),
    made("Tensor.arange(10**6)[Tensor.arange(10**6).flip(0)].sum(dtype='int64')", "10**6 * (10**6 - 1) // 2",
        cpu=False, levels="T", seconds=1),
    Row("(x.unsqueeze(0) * y.one_hot(1000)).sum(1)[:7]", "x[y][:7]", ("1000; 1000000:idx1000",), FLOAT, cpu=False,
        levels="T",
        ulp=0, seconds=1),
    Row("x[y].sum()", "x[y].sum()", ("1000000; 1000000:idx1000000",), FLOAT, cpu=False, levels="T", norm=1e4,
        seconds=1),
    Row("x[y][:5]", "x[y][:5]", ("1000000,2; 1000000:idx1000000",), FLOAT, cpu=False, levels="T", ulp=0, seconds=1),
    Row("x.gather(0, y)[-4:]", "x[y][-4:]", ("1000000; 1000000:idx1000000",), FLOAT, cpu=False, levels="T", ulp=0,
        seconds=1),
    made("(Tensor.arange(10**6) % 1000).one_hot(1000).sum(0)", "np.full(1000, 1000)", cpu=False, levels="T"),
    Row("x.sort()[0][::1024]", "np.sort(x)[::1024]", ("16384",), FLOAT, cpu=False, levels="T", ulp=0),
    Row("x.scatter(0, y, 1.0)[:9]", "x[y] = 1; x[:9]", ("20000; 1000:idx20000",), FLOAT, cpu=False, levels="T",
        ulp=0),
    Row("x[y] = 1; x[:9]", "x[y] = 1; x[:9]", ("20000; 500:idx20000",), FLOAT, cpu=False, levels="T", ulp=0),
    # Thousands of kernels, whatever the length: its time is that of compiling them.
    Row("x.hash()", "tree_digest(x)", ("10",), ("uint8",), cpu=False, levels="T"),
    made("Tensor.randperm(2048).sum()", "2048 * 2047 // 2", cpu=False, levels="T"),
    made("Tensor.eye(2048).sum()", "2048.0", cpu=False, levels="T", seconds=1),
    made("Tensor.ones(1024, 1024).tril().sum()", "1024 * 1025 / 2", cpu=False, levels="T", seconds=1),
]

TABLES = {"creation": CREATION, "ranges": RANGES, "likes": LIKES, "random": RANDOM, "asked": ASKED, "large": LARGE}
