"""Products of matrices, einsum, decompositions, multiple devices and symbolic sizes."""

from rows import FLOAT, FLOATS, Row

FIT = ("float32", "int32", "float16")
# i is bound to 3, between 1 and 6.
BOUND = "i = Variable('i', 1, 6).bind(3); "

PRODUCTS = [
    Row("x.matmul(y)", "x @ y",
        ("3,4; 4,5", "4; 4,5", "3,4; 4", "4; 4", "2,3,4; 2,4,5", "2,1,3,4; 3,4,2", "1,1; 1,1", "3,0; 0,2"),
        FLOATS, "x y"),
    Row("x @ y", "", ("3,4; 4,5", "17,33; 33,9"), ("int8", "uint8", "int32", "int64", "bool")),
    Row("x @ y", "x @ y", ("64,48; 48,40", "1,130; 130,1"), FLOATS, "x y"),
    Row("x.dot(y)", "x @ y", ("3,4; 4,5", "7; 7"), FLOATS, "x y"),
    Row("x.dot(y, dtype='float32')", "x @ y", ("3,4; 4,5",), ("float32",)),
    # Products are rounded before the sum is float32.
    Row("x.dot(y, dtype='float32')", "x @ y", ("3,4; 4,5",), ("float16",), norm=2**14, cpu=False),
    Row("x.dot(y, dtype='float32')", "x @ y", ("3,4; 4,5",), ("bfloat16",), norm=2**17, cpu=False),
    Row("x.matmul(y, reverse=True)", "y @ x", ("4,5; 3,4",), FLOAT, "x y"),
    Row("x.__rmatmul__(y)", "y @ x", ("4,5; 3,4",), FLOAT, "x y"),
    Row("x.image_dot(y)", "x @ y", ("4,4; 4,8",), FLOAT),
    Row("(x @ y).relu() @ z", "np.maximum(x @ y, 0) @ z", ("5,6; 6,7; 7,3",), FLOATS, "x y z"),
    Row("x @ y + z", "x @ y + z", ("5,6; 6,7; 7",), FLOATS, "x y z"),
    Row("x.T @ x", "x.T @ x", ("5,6",), FLOATS, "x"),
    Row("x @= y; x", "x @ y", ("3,3; 3,3",), FLOAT),
]
EINSUM = [
    Row("Tensor.einsum('%s', x, y)" % form, "np.einsum('%s', x, y)" % form, (on,), FIT, "x y")
    for form, on in (
        ("ij,jk->ik", "3,4; 4,5"), ("ij,ij->", "3,4; 3,4"), ("i,j->ij", "3; 4"), ("bij,bjk->bik", "2,3,4; 2,4,5"),
        ("ij,jk", "3,4; 4,5"), ("...ij,...jk->...ik", "2,3,4; 2,4,5"),
        ("bhqd,bhkd->bhqk", "1,2,3,4; 1,2,5,4"), ("ij,j->i", "3,4; 4"),
    )
] + [
    Row("Tensor.einsum('%s', x)" % form, "np.einsum('%s', x)" % form, (on,), FIT, "x")
    for form, on in (
        ("ij->ji", "3,4"), ("ij->", "3,4"), ("ij->j", "3,4"), ("ii->i", "4,4"), ("ii->", "4,4"), ("ijk->ki", "2,3,4"),
    )
] + [
    Row("Tensor.einsum('ij,jk,kl->il', x, y, z)", "x @ y @ z", ("2,3; 3,4; 4,2",), FLOAT, "x y z"),
]  # fmt: skip
DECOMPOSITIONS = [
    Row("x.qr()", "", ("3,3", "4,3", "2,3,3"), FLOAT, norm=512),
    Row("q = x.qr(); q[0] @ q[1]", "x", ("4,3", "4,4"), FLOAT, norm=128),
    Row("s = x.svd(); (s[0][:, :3] * s[1]) @ s[2]", "x", ("4,3", "3,3"), FLOAT, norm=2048),
    Row("x.svd()[1]", "np.linalg.svd(np.asarray(x, float))[1]", ("4,3", "3,5"), FLOAT, norm=2048),
    Row("s = x.svd(full_matrices=False); (s[0] * s[1].unsqueeze(-2)) @ s[2]", "x", ("4,3",), FLOAT, norm=2048),
    # tinygrad's own scheduler takes a minute over these.
    Row("x.keccak()", "digest(x, 'sha3_256')", ("40",), ("uint8",), cpu=False, levels="T"),
    Row("x.keccak('shake_128')", "digest(x, 'shake_128')", ("2,7",), ("uint8",), cpu=False, levels="T"),
    Row("x.keccak('sha3_224')", "digest(x, 'sha3_224')", ("2,200",), ("uint8",), cpu=False, levels="T"),
]
DEVICES = [
    Row("(x.shard((D, D + ':1'), 0) * 2 + 1).to(D)", "x * 2 + 1", ("4,6",), FLOAT + ("int32",), ulp=1),
    Row("x.shard((D, D + ':1'), 1).sum(0).to(D)", "x.sum(0)", ("4,6",), FLOAT),
    Row("x.shard((D, D + ':1'), 0).sum(0).to(D)", "x.sum(0)", ("4,6",), FLOAT),
    Row("x.shard((D, D + ':1'), 0).max().to(D)", "x.max()", ("4,6",), FLOAT, ulp=0),
    Row("(x.shard((D, D + ':1')) @ y.shard((D, D + ':1'), 1)).to(D)", "x @ y", ("3,4; 4,6",), FLOAT),
    Row("(x.shard((D, D + ':1'), 1) @ y.shard((D, D + ':1'), 0)).to(D)", "x @ y", ("3,4; 4,6",), FLOAT),
    Row("(x.shard((D, D + ':1'), 0) @ y.shard((D, D + ':1'))).relu().to(D)", "np.maximum(x @ y, 0)", ("4,3; 3,6",),
        FLOAT),
    Row("x.shard((D, D + ':1'), 0).permute(1, 0).to(D)", "x.T", ("4,3",), FLOAT, ulp=-1),
    Row("a = x.shard((D, D + ':1'), 0); (a + y.shard_like(a)).to(D)", "x + y", ("4,3; 4,3",), FLOAT, ulp=0),
    Row("x.shard_((D, D + ':1'), 0); (x * 3).to(D)", "x * 3", ("4,3",), FLOAT, ulp=0),
    Row("x.shard((D, D + ':1'), 0).softmax().to(D)", "softmax(x)", ("4,3",), FLOAT),
    Row("x.shard((D, D + ':1', D + ':2', D + ':3'), 0).sum().to(D)", "x.sum()", ("8,3",), FLOAT),
    Row("x.shard((D, D + ':1'), 0).numpy()", "x", ("4,3",), FLOAT, ulp=-1),
    Row("(x.to(D + ':1') + 1).to(D)", "x + 1", ("4,3",), FLOAT, ulp=0),
    Row("x.to_(D + ':1'); x.realize(); (x * 2).to(D)", "x * 2", ("4,3",), FLOAT, ulp=0),
    Row("x.to('CPU') + 1", "x + 1", ("4,3",), FLOAT, ulp=0),
    Row("x.clone(device=D + ':1').to(D)", "x", ("4,3",), FLOAT, ulp=-1),
]
# Only in tensor graphs: kernels and programs with variables are answered with UNSUPPORTED_OP.
SYMBOLIC = [
    Row(BOUND + code, reference, (on,), FIT[:2], norm=64)
    for code, reference, on in (
        ("x[:i].sum()", "x[:3].sum()", "6,4"), ("x[:i].sum(0)", "x[:3].sum(0)", "6,4"),
        ("(x[:i] + 1).sum()", "(x[:3] + 1).sum()", "6"),
        ("x[:, :i].sum(1)", "x[:, :3].sum(1)", "2,6"), ("x[:i].max()", "x[:3].max()", "6,4"), ("x[i]", "x[3]", "6,4"),
        ("x[i].sum()", "x[3].sum()", "6,4"), ("(x[:i] * y[:i]).sum()", "(x[:3] * y[:3]).sum()", "6,2; 6,2"),
        ("(x[:, :i] @ y[:i])", "x[:, :3] @ y[:3]", "4,6; 6,5"),
        ("x[:i].pad_to(6, 4).shrink_to(6, 4)", "np.pad(x[:3], ((0, 3), (0, 0)))", "6,4"),
        ("x[:i].mean(0)", "x[:3].mean(0)", "6,4"), ("x[i:i+2]", "x[3:5]", "6,4"),
        ("x[:i].permute(1, 0).sum(1)", "x[:3].sum(0)", "6,4"),
        ("(x + i)", "x + 3", "6"), ("(x * i).sum()", "(x * 3).sum()", "6"),
        ("x[:i].reshape(i * 4).sum()", "x[:3].sum()", "6,4"),
        ("x[:i].flatten().sum()", "x[:3].sum()", "6,4"), ("x[:i].cat(y).sum(0)", "x[:3].sum(0) + y.sum(0)", "6,4; 2,4"),
        ("x[1:i].sum(0)", "x[1:3].sum(0)", "6,4"), ("Tensor.ones(6, 2)[:i].sum()", "6.0", "1"),
    )
] + [
    Row(BOUND + "x[:i].softmax(0).sum(0)", "np.ones(4)", ("6,4",), FLOAT),
    Row(BOUND + "x[i:i+1].assign(y).realize(); x", "x[3:4] = y; x", ("6,4; 1,4",), FLOAT, ulp=-1),
]  # fmt: skip

TABLES = {
    "products": PRODUCTS, "einsum": EINSUM, "decompositions": DECOMPOSITIONS, "devices": DEVICES, "symbolic": SYMBOLIC,
}  # fmt: skip
