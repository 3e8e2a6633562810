"""Elements by index: getitem in all its forms, gather, scatter, sorting, masks, one-hot."""

from rows import FLOAT, FLOATS, INTS, Row

FEW = ("float32", "int32", "bool")
MORE = ("float32", "float16", "bfloat16", "float64", "int8", "int32", "uint64")
SORTED = FLOATS + ("int8", "int32", "int64", "uint8", "uint32", "bool")

GETITEM = [
    Row("x[%s]" % item, "x[%s]" % item, ("5,4,3",), FEW, "x", ulp=-1)
    for item in (
        "1", "-1", "1:3", "::2", "::-1", "..., 1", ":, 1:3", "None, 1", "4:1:-2", "0, 1, 2", "1:1", ":, -2:",
        "2:, ..., ::2",
        "(1, slice(None), 2)",
    )
] + [
    Row("x[y]", "x[y]", ("6,3; 4:idx6", "6; 2,3:idx6", "6,2; 4:sidx6"), MORE, "x", ulp=-1),
    Row("x[:, y]", "x[:, y]", ("3,6; 4:idx6",), FEW, "x", ulp=-1),
    Row("x[y, z]", "x[y, z]", ("5,6; 4:idx5; 4:idx6", "5,6; 2,1:idx5; 1,3:idx6"), FEW, "x", ulp=-1),
    Row("x[y, :, z]", "x[y, :, z]", ("5,3,6; 4:idx5; 4:idx6",), FEW, "x", ulp=-1),
    Row("x[:, y, z]", "x[:, y, z]", ("3,5,6; 4:idx5; 4:idx6",), FEW, "x", ulp=-1),
    Row("x[y, None, 1:3]", "x[y, None, 1:3]", ("5,4; 3:idx5",), FEW, "x", ulp=-1),
    Row("x[[0, 2, 1]]", "x[[0, 2, 1]]", ("5,4",), FEW, "x", ulp=-1),
    Row("x[1][y]", "x[1][y]", ("3,6; 4:idx6",), FLOAT, "x", ulp=-1),
    Row("x[y][z]", "x[y][z]", ("6,3; 5:idx6; 4:idx5",), FLOAT, "x", ulp=-1),
    Row("x[y.cast('int64')]", "x[y]", ("6; 4:idx6",), FEW, "x", ulp=-1),
    Row("x[y.cast('uint8')]", "x[y]", ("6; 4:idx6",), FLOAT, "x", ulp=-1),
    Row("(x[y] * x[z]).sum(1)", "(x[y] * x[z]).sum(1)", ("6,3; 4:idx6; 4:idx6",), FLOAT, "x"),
    Row("x[y].sum(0)", "x[y].sum(0)", ("200,8; 300:idx200",), FLOAT, "x"),
]
GATHER = [
    Row("x.gather(0, y)", "np.take_along_axis(x, y, 0)", ("5,3; 4,3:idx5",), MORE, "x", ulp=-1),
    Row("x.gather(1, y)", "np.take_along_axis(x, y, 1)", ("3,5; 3,7:idx5",), MORE, "x", ulp=-1),
    Row("x.gather(-1, y)", "np.take_along_axis(x, y, -1)", ("2,3,5; 2,3,2:idx5",), FEW, "x", ulp=-1),
    Row("x.gather(1, y)", "x[:2][np.arange(2)[:, None], y]", ("4,5; 2,3:idx5",), FLOAT, "x", ulp=-1),
    Row("x.scatter(0, y, z)", "", ("5,3; 1,3:idx5; 1,3", "5,3; 4,3:idx5; 4,3"), MORE, "", ulp=-1),
    Row("x.scatter(1, y, z)", "np.put_along_axis(x, y, z, 1); x", ("3,5; 3,1:idx5; 3,1",), MORE, "x z", ulp=-1),
    Row("x.scatter(0, y, 2)", "np.put_along_axis(x, y, 2, 0); x", ("5,3; 2,3:idx5",), FLOAT, "x"),
    Row("x.scatter(1, y, 2, reduce='multiply')", "", ("3,5; 3,4:idx5",), ("float32", "int32", "float64")),
    Row("x.scatter(0, y, 3, reduce='add')", "", ("5,3; 2,3:idx5",), FLOAT),
] + [
    Row("x.scatter_reduce(%d, y, z, reduce='%s'%s)" % (dim, how, rest), "", ("4,5; 4,5:idx4; 4,5",),
        ("float32", "int32"), "x z" if how in ("sum",) else "")
    for how in ("sum", "prod", "mean", "amax", "amin") for dim, rest in ((0, ""), (1, ", include_self=False"))
]  # fmt: skip
SORTING = [
    Row("x.sort()", "[np.sort(x, -1), np.argsort(x, -1, kind='stable')]",
        ("3,5:perm", "7:perm", "1:perm", "2,16:perm"), SORTED[:-1], ulp=-1),
    Row("x.sort(0, descending=True)", "", ("5,3:perm", "6,2:ties"), SORTED, ulp=-1),
    Row("x.sort()[0]", "np.sort(x)", ("3,6",), FLOATS, "x", ulp=-1),
    Row("x.sort()[0]", "np.sort(x)", ("130",), FLOAT, ulp=-1),
    Row("x.argsort()", "np.argsort(x, kind='stable')", ("9:perm", "9:ties"), SORTED),
    Row("x.argsort(0, True)", "", ("5,3:perm",), FLOAT + ("int32",)),
    Row("x.topk(3)", "[-np.sort(-x)[..., :3], np.argsort(-x, kind='stable')[..., :3]]", ("3,7:perm", "9:perm"),
        FLOATS + ("int32", "int64"), ulp=-1),
    Row("x.topk(2, dim=0, largest=False)", "", ("6,3:perm",), FLOATS + ("int32",), ulp=-1),
    Row("x.topk(3)[0]", "", ("2,9:perm",), FLOATS, "x"),
]
MASKS = [
    Row("x.one_hot(5)", "np.eye(5, dtype=int)[x]", ("4:idx5", "2,3:idx5"), ("int32",)),
    Row("x.cast('int64').one_hot(4)", "np.eye(4, dtype=int)[x]", ("6:idx4",), ("int32",)),
    Row("x.masked_select(x > 0)", "x[x > 0]", ("12", "3,4"), ("float32", "int32"), ulp=-1),
    Row("x.masked_select(y, size=8, fill_value=3)", "", ("12; 12:bool",), ("float32", "int32"), ulp=-1),
    Row("x.nonzero()", "np.argwhere(x)", ("12:ties", "3,4:ties"), ("float32", "int32", "bool")),
    Row("x.nonzero(size=5, fill_value=-1)", "", ("12:ties",), ("int32",)),
    Row("x.max_pool2d(return_indices=True)", "", ("1,2,4,6:perm",), FLOATS, ulp=-1),
    Row("p = x.max_pool2d(return_indices=True); p[0].max_unpool2d(p[1])", "", ("1,2,4,6:perm",), FLOATS, ulp=-1),
    Row("p = x.max_pool2d(return_indices=True); p[0].max_unpool2d(p[1], output_size=(1, 2, 5, 7))", "",
        ("1,2,5,7:perm",), FLOAT, ulp=-1),
]

TABLES = {"getitem": GETITEM, "gather": GATHER, "sorting": SORTING, "masks": MASKS}
