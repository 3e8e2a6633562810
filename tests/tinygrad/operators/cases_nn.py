"""Convolutions, pools, attention, interpolation: what neural networks are made of."""

from rows import FLOAT, FLOATS, Row

HALF = ("float32", "float16")
IMAGE = "2,4,7,6; 6,4,3,3"

CONVOLUTION = [
    Row("x.conv2d(y)", "conv(x, y)", (IMAGE, "1,1,3,3; 1,1,3,3", "1,3,5,5; 2,3,1,1", "1,2,6,5; 3,2,2,4"), FLOATS,
        "x y"),
    Row("x.conv2d(y, z)", "conv(x, y) + z[:, None, None]", (IMAGE + "; 6",), HALF, "x y z"),
    Row("x.conv2d(y, stride=2)", "conv(x, y, stride=2)", (IMAGE,), HALF, "x y"),
    Row("x.conv2d(y, stride=(1, 2), padding=1)", "conv(x, y, stride=(1, 2), padding=(1, 1))", (IMAGE,), HALF, "x y"),
    Row("x.conv2d(y, padding=(1, 2))", "conv(x, y, padding=(1, 2))", (IMAGE,), HALF, "x y"),
    Row("x.conv2d(y, padding=(1, 0, 2, 1))", "", (IMAGE,), FLOAT, "x y"),
    Row("x.conv2d(y, dilation=2)", "conv(x, y, dilation=2)", (IMAGE,), HALF, "x y"),
    Row("x.conv2d(y, dilation=(2, 1), stride=2, padding=2)", "conv(x, y, stride=2, padding=(2, 2), dilation=(2, 1))",
        (IMAGE,), FLOAT, "x y"),
    Row("x.conv2d(y, groups=2)", "conv(x, y, groups=2)", ("2,4,5,5; 6,2,3,3", "1,2,5,5; 2,1,3,3"), HALF, "x y"),
    Row("x.conv2d(y, groups=4, padding=1)", "conv(x, y, groups=4, padding=(1, 1))", ("2,4,5,5; 4,1,3,3",), HALF,
        "x y"),
    # Products are float16, sums float32; the C of tinygrad's CPU device rounds no product.
    Row("x.conv2d(y, dtype='float32')", "", (IMAGE,), ("float16",), norm=2**14),
    Row("x.conv2d(y)", "conv(x, y)", ("2,3,9; 4,3,3",), FLOATS, "x y"),
    Row("x.conv2d(y, stride=2, padding=1)", "conv(x, y, stride=2, padding=(1,))", ("2,3,9; 4,3,3",), FLOAT, "x y"),
    Row("x.conv2d(y)", "conv(x, y)", ("1,2,4,5,4; 3,2,2,3,2",), HALF, "x y"),
    Row("x.conv2d(y, stride=2, padding=1, dilation=1)", "conv(x, y, stride=2, padding=(1, 1, 1))",
        ("1,2,4,5,4; 3,2,2,3,2",), FLOAT, "x y"),
    Row("x.conv2d(y)", "", ("2,3,5,5; 4,3,3,3",), ("int32",)),
    # No product wraps: that of two int8 is int8 by the IR, and int in C.
    Row("x.conv2d(y)", "conv(x, y)", ("2,3,5,5:idx10; 4,3,3,3:idx10",), ("int8",), ulp=0),
    Row("x.conv2d(y, padding=1).relu().conv2d(z, padding=1)", "", ("1,2,5,5; 3,2,3,3; 2,3,3,3",), FLOAT, "x y z",
        norm=256),
    Row("x.image_conv2d(y)", "conv(x, y)", ("1,4,5,5; 4,4,3,3",), FLOAT),
    Row("with_wino(lambda: x.conv2d(y, padding=1))", "conv(x, y, padding=(1, 1))", ("1,2,8,8; 3,2,3,3",), FLOAT,
        norm=1024),
]
TRANSPOSED = [
    Row("x.conv_transpose2d(y)", "", ("2,4,5,4; 4,3,3,3", "1,2,6; 2,3,3", "1,2,3,3,3; 2,2,2,2,2"), HALF, "x y"),
    Row("x.conv_transpose2d(y, z)", "", ("2,4,5,4; 4,3,3,3; 3",), FLOAT, "x y z"),
    Row("x.conv_transpose2d(y, stride=2)", "", ("2,4,5,4; 4,3,3,3",), FLOAT, "x y"),
    Row("x.conv_transpose2d(y, stride=2, padding=1, output_padding=1)", "", ("2,4,5,4; 4,3,3,3",), FLOAT, "x y"),
    Row("x.conv_transpose2d(y, dilation=2)", "", ("2,4,5,4; 4,3,3,3",), FLOAT, "x y"),
    Row("x.conv_transpose2d(y, groups=2)", "", ("2,4,5,4; 4,3,3,3",), FLOAT, "x y"),
]
POOLS = [
    Row("x.max_pool2d()", "pool(x, np.max, (2, 2))", ("2,3,6,6", "1,1,5,7"), FLOATS + ("int32", "uint8"), "x", ulp=0),
    Row("x.max_pool2d(3, stride=1)", "pool(x, np.max, (3, 3), (1, 1))", ("1,2,6,6",), HALF, "x", ulp=0),
    Row("x.max_pool2d((3, 2), stride=(2, 1), padding=1)", "", ("1,2,6,6",), FLOATS, "x", ulp=0),
    Row("x.max_pool2d(2, dilation=2)", "", ("1,2,7,6",), FLOAT, "x", ulp=0),
    Row("x.max_pool2d(3, ceil_mode=True)", "", ("1,2,7,8",), FLOAT, "x", ulp=0),
    Row("x.max_pool2d((3,))", "", ("1,2,9",), FLOAT, "x", ulp=0),
    Row("x.max_pool2d((2, 2, 2))", "", ("1,2,4,4,4",), FLOAT, "x", ulp=0),
    Row("x.avg_pool2d()", "pool(x, np.mean, (2, 2))", ("2,3,6,6", "1,1,5,7"), FLOATS, "x"),
    Row("x.avg_pool2d(3, stride=1, padding=1)", "", ("1,2,6,6",), HALF, "x"),
    Row("x.avg_pool2d(3, stride=2, padding=1, count_include_pad=False)", "", ("1,2,6,7",), FLOAT, "x"),
    Row("x.avg_pool2d(3, ceil_mode=True)", "", ("1,2,7,8",), FLOAT, "x"),
    Row("x.avg_pool2d((2, 3), dilation=2)", "", ("1,2,7,8",), FLOAT, "x"),
    Row("x.avg_pool2d((2,))", "", ("1,2,9",), FLOAT, "x"),
]
Q = "2,5,8; 2,5,8; 2,5,8"
ATTENTION = [
    Row("x.scaled_dot_product_attention(y, z)", "attention(x, y, z)", (Q, "2,2,5,4; 2,2,7,4; 2,2,7,4"), FLOATS,
        "x y z"),
    Row("x.scaled_dot_product_attention(y, z, is_causal=True)", "attention(x, y, z, np.tril(np.ones((5, 5))) > 0)",
        (Q,), HALF, "x y z"),
    Row("x.scaled_dot_product_attention(y, z, attn_mask=w)", "attention(x, y, z, w)", (Q + "; 5,5:bool",), HALF,
        "x y z"),
    Row("x.scaled_dot_product_attention(y, z, attn_mask=w)", "", (Q + "; 5,5",), FLOAT, "x y z"),
    Row("x.scaled_dot_product_attention(y, z, enable_gqa=True)", "", ("1,4,5,8; 1,2,5,8; 1,2,5,8",), HALF, "x y z"),
    Row("with_training(lambda: x.scaled_dot_product_attention(y, z, dropout_p=0.3))", "", (Q,), FLOAT),
]
INTERPOLATION = [
    Row("x.interpolate((%s), mode='%s'%s)" % (size, mode, corners), "", ("1,2,4,5",),
        HALF if mode == "linear" else ("float32", "uint8"), "x", norm=128)
    for size in ("8, 10", "3, 7", "2, 2")
    for mode, corners in (("linear", ""), ("linear", ", align_corners=True"), ("nearest", ""), ("nearest-exact", ""))
] + [
    Row("x.interpolate((9,), mode='linear')", "", ("2,3,5",), FLOAT, "x", norm=128),
]
LAYERS = [
    Row("x.linear(y)", "x @ y", ("3,4; 4,5",), FLOATS, "x y"),
    Row("x.linear(y, z)", "x @ y + z", ("2,3,4; 4,5; 5",), FLOATS, "x y z"),
    Row("x.linear(y, z)", "x * y + z", ("3,4; 4; 4",), FLOAT, "x y z"),
    Row("x.linear(y, dtype='float32')", "x @ y", ("3,4; 4,5",), ("float16",)),
    Row("x.sequential([lambda t: t + 1, Tensor.relu])", "np.maximum(x + 1, 0)", ("3,4",), FLOAT, "x", ulp=1),
    Row("tg.nn.LayerNorm(4)(x)", "", ("3,4",), FLOAT, "x"),
    Row("tg.nn.LayerNorm2d(3)(x)", "", ("2,3,4,4",), FLOAT, "x"),
    Row("tg.nn.GroupNorm(2, 4)(x)", "", ("2,4,3,3",), FLOAT, "x"),
    Row("tg.nn.InstanceNorm(3)(x)", "", ("2,3,4,4",), FLOAT, "x"),
    Row("tg.nn.RMSNorm(4)(x)", "x / np.sqrt((x*x).mean(-1, keepdims=True) + 1e-6)", ("3,4",), FLOAT, "x"),
    Row("tg.nn.BatchNorm(3)(x)", "", ("2,3,4,4",), FLOAT, "x"),
    Row("with_training(lambda: tg.nn.BatchNorm(3)(x))", "", ("4,3,4,4",), FLOAT, "x"),
    Row("tg.nn.Embedding(7, 4)(x)", "", ("2,3:idx7",), FLOAT),
    Row("tg.nn.LSTMCell(4, 3)(x)", "", ("2,4",), FLOAT, "x"),
    Row("tg.nn.Linear(4, 3)(x)", "", ("2,4",), FLOAT, "x"),
    Row("tg.nn.Conv1d(2, 3, 3)(x)", "", ("1,2,7",), FLOAT, "x"),
    Row("tg.nn.ConvTranspose2d(2, 3, 3, stride=2)(x)", "", ("1,2,4,4",), FLOAT, "x"),
    Row("x.dropout(0.5)", "x", ("3,4",), FLOAT, ulp=-1),
    Row("with_training(lambda: x.dropout(0.4))", "", ("5,7",), FLOATS, ulp=1),
    Row("with_training(lambda: x.dropout(1.0))", "x * 0", ("5,7",), FLOAT, ulp=0),
    Row("x.newton_schulz(2, (2.0, -1.5, 0.5))", "", ("3,4",), FLOAT, norm=256),
]

TABLES = {
    "convolution": CONVOLUTION, "transposed convolution": TRANSPOSED, "pools": POOLS,
    "attention": ATTENTION, "interpolation": INTERPOLATION, "layers": LAYERS,
}  # fmt: skip
