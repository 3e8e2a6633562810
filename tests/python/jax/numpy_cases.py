"""Functions of jax.numpy, each with arguments: a row is (name, function, arguments).

A name that is no attribute of jax.numpy says so after a colon: "sum:axis" is another case of jnp.sum.
"""

import jax.numpy as jnp
import numpy as np

R = np.random.default_rng(7)


def floats(*shape, scale=2.0):
    return (R.standard_normal(shape) * scale).astype(np.float32)


def ints(*shape, low=-9, high=10):
    return R.integers(low, high, shape).astype(np.int32)


A, B, V, W = floats(4, 5), floats(4, 5), floats(7), floats(7)
P, U = np.abs(floats(4, 5)) + 0.25, R.uniform(-0.95, 0.95, (4, 5)).astype(np.float32)
I, J, N = ints(4, 5), ints(4, 5), ints(7, low=0, high=7)
K = np.where(J == 0, 3, J).astype(np.int32)
T, S, Q = A > 0, B > 0, floats(5, 5)
C3, ODD = floats(2, 3, 4), np.float32([0.5, -0.5, 1.5, -1.5, 2.5, 0.0, -0.0, np.nan, np.inf, -np.inf])

UNARY_OF_FLOATS = (
    "abs absolute fabs negative positive sign square sqrt:P cbrt exp exp2 expm1 log:P log2:P log10:P log1p:P "
    "sin cos tan arcsin:U arccos:U arctan sinh cosh tanh arcsinh arccosh:P1 arctanh:U asin:U acos:U atan asinh "
    "acosh:P1 atanh:U reciprocal:P floor ceil trunc rint round around isnan isinf isfinite isneginf isposinf "
    "signbit sinc i0 nan_to_num deg2rad rad2deg degrees radians real imag conj conjugate angle spacing "
    "iscomplex isreal"
).split()
BINARY_OF_FLOATS = (
    "add subtract multiply divide true_divide floor_divide mod remainder fmod maximum minimum fmax fmin hypot "
    "arctan2 atan2 logaddexp logaddexp2 copysign nextafter heaviside greater greater_equal less less_equal "
    "equal not_equal float_power:P power:P pow:P isclose"
).split()
BINARY_OF_INTEGERS = (
    "add subtract multiply floor_divide:K mod:K remainder:K fmod:K maximum minimum bitwise_and bitwise_or "
    "bitwise_xor gcd lcm greater less equal not_equal"
).split()
REDUCTIONS = (
    "sum prod max min mean var std any all argmax argmin amax amin ptp median nansum nanprod nanmax nanmin "
    "nanmean nanvar nanstd nanmedian nanargmax nanargmin count_nonzero cumsum cumprod nancumsum nancumprod "
    "average"
).split()
ARGUMENTS = {"P": P, "U": U, "P1": P + 1}


def _rows():
    for word in UNARY_OF_FLOATS:
        name, _, of = word.partition(":")
        yield name, getattr(jnp, name), (ARGUMENTS[of] if of else A,)
    for word in BINARY_OF_FLOATS:
        name, _, of = word.partition(":")
        yield name, getattr(jnp, name), (P, A) if of else (A, B)
    for word in BINARY_OF_INTEGERS:
        name, _, of = word.partition(":")
        yield name + ":integers", getattr(jnp, name), (I, K if of else J)
    for name in REDUCTIONS:
        function = getattr(jnp, name)
        yield name, function, (A,)
        yield name + ":axis", lambda x, function=function: function(x, axis=1), (A,)


# Shapes, parts and orders.
MOVING = [
    ("reshape", lambda x: jnp.reshape(x, (2, 10)), (A,)), ("ravel", jnp.ravel, (A,)),
    ("transpose", jnp.transpose, (C3,)), ("matrix_transpose", jnp.matrix_transpose, (C3,)),
    ("permute_dims", lambda x: jnp.permute_dims(x, (2, 0, 1)), (C3,)),
    ("swapaxes", lambda x: jnp.swapaxes(x, 0, 2), (C3,)), ("moveaxis", lambda x: jnp.moveaxis(x, 0, 2), (C3,)),
    ("rollaxis", lambda x: jnp.rollaxis(x, 2), (C3,)), ("expand_dims", lambda x: jnp.expand_dims(x, 1), (A,)),
    ("squeeze", lambda x: jnp.squeeze(x[None]), (A,)), ("broadcast_to", lambda x: jnp.broadcast_to(x, (3, 7)), (V,)),
    ("broadcast_arrays", lambda x, y: jnp.broadcast_arrays(x[:, None], y), (V, V)),
    ("concatenate", lambda *x: jnp.concatenate(x), (A, B)), ("concat", lambda *x: jnp.concat(x, axis=1), (A, B)),
    ("stack", lambda *x: jnp.stack(x, 1), (A, B)), ("vstack", lambda *x: jnp.vstack(x), (A, B)),
    ("hstack", lambda *x: jnp.hstack(x), (A, B)), ("dstack", lambda *x: jnp.dstack(x), (A, B)),
    ("column_stack", lambda *x: jnp.column_stack(x), (V, W)), ("append", jnp.append, (V, W)),
    ("block", lambda x, y: jnp.block([[x, y], [y, x]]), (A, B)), ("split", lambda x: jnp.split(x, 2), (A,)),
    ("array_split", lambda x: jnp.array_split(x, 3, axis=1), (A,)),
    ("hsplit", lambda x: jnp.hsplit(x, 2), (floats(3, 4),)), ("vsplit", lambda x: jnp.vsplit(x, 2), (A,)),
    ("dsplit", lambda x: jnp.dsplit(x, 2), (C3,)), ("unstack", jnp.unstack, (A,)),
    ("tile", lambda x: jnp.tile(x, (2, 3)), (A,)), ("repeat", lambda x: jnp.repeat(x, 3, axis=1), (A,)),
    ("flip", jnp.flip, (A,)), ("fliplr", jnp.fliplr, (A,)), ("flipud", jnp.flipud, (A,)), ("rot90", jnp.rot90, (A,)),
    ("roll", lambda x: jnp.roll(x, 2, axis=1), (A,)), ("pad", lambda x: jnp.pad(x, 2), (A,)),
    ("pad:reflect", lambda x: jnp.pad(x, 2, mode="reflect"), (A,)),
    ("pad:edge", lambda x: jnp.pad(x, 2, mode="edge"), (A,)),
    ("pad:wrap", lambda x: jnp.pad(x, 1, mode="wrap"), (A,)), ("atleast_1d", jnp.atleast_1d, (V[0],)),
    ("atleast_2d", jnp.atleast_2d, (V,)), ("atleast_3d", jnp.atleast_3d, (A,)), ("diag", jnp.diag, (V,)),
    ("diag:matrix", jnp.diag, (Q,)), ("diagflat", jnp.diagflat, (A,)), ("diagonal", jnp.diagonal, (Q,)),
    ("fill_diagonal", lambda x: jnp.fill_diagonal(x, 3.0, inplace=False), (Q,)), ("trace", jnp.trace, (Q,)),
    ("tril", jnp.tril, (Q,)), ("triu", jnp.triu, (Q,)), ("delete", lambda x: jnp.delete(x, 2), (V,)),
    ("insert", lambda x: jnp.insert(x, 2, 9.0), (V,)), ("resize", lambda x: jnp.resize(x, (3, 4)), (V,)),
    ("astype", lambda x: jnp.astype(x, jnp.int32), (A,)), ("asarray", lambda x: jnp.asarray(x, jnp.bfloat16), (A,)),
    ("array", jnp.array, (A,)), ("copy", jnp.copy, (A,)), ("size", lambda x: x * jnp.size(x), (V,)),
    ("shape", lambda x: x * jnp.shape(x)[0], (V,)), ("ndim", lambda x: x * jnp.ndim(x), (V,)),
]  # fmt: skip

MAKING = [
    ("zeros", lambda x: jnp.zeros((2, 3)) + x, (V[0],)), ("ones", lambda x: jnp.ones(3) * x, (V[0],)),
    ("full", lambda x: jnp.full((2, 2), x), (V[0],)), ("zeros_like", jnp.zeros_like, (A,)),
    ("ones_like", jnp.ones_like, (A,)), ("full_like", lambda x: jnp.full_like(x, 7), (A,)),
    ("empty", lambda x: jnp.empty(3) * 0 + x, (V[0],)), ("empty_like", lambda x: jnp.empty_like(x) * 0, (V,)),
    ("arange", lambda x: jnp.arange(7) * x, (V,)), ("linspace", lambda x: jnp.linspace(x, 2.0, 9), (V[0],)),
    ("logspace", lambda x: jnp.logspace(0.0, 2.0, 7) * x, (V,)),
    ("geomspace", lambda x: jnp.geomspace(1.0, 8.0, 7) * x, (V,)), ("eye", lambda x: jnp.eye(4, 5) * x, (A,)),
    ("identity", lambda x: jnp.identity(5) * x, (Q,)), ("tri", lambda x: jnp.tri(5) * x, (Q,)),
    ("meshgrid", jnp.meshgrid, (V, W)), ("indices", lambda x: jnp.indices((4, 5)) * x, (I,)),
    ("vander", lambda x: jnp.vander(x, 3), (V,)), ("hanning", lambda x: jnp.hanning(7) * x, (V,)),
    ("hamming", lambda x: jnp.hamming(7) * x, (V,)), ("blackman", lambda x: jnp.blackman(7) * x, (V,)),
    ("bartlett", lambda x: jnp.bartlett(7) * x, (V,)), ("kaiser", lambda x: jnp.kaiser(7, 2.0) * x, (V,)),
    ("tril_indices", lambda x: x[jnp.tril_indices(5)], (Q,)),
    ("triu_indices", lambda x: x[jnp.triu_indices(5)], (Q,)),
    ("diag_indices", lambda x: x[jnp.diag_indices(5)], (Q,)),
    ("ix_", lambda x: x[jnp.ix_(np.array([0, 2]), np.array([1, 3]))], (Q,)),
    ("fromfunction", lambda x: jnp.fromfunction(lambda i, j: i - 2 * j, (4, 5)) * x, (A,)),
    ("mgrid", lambda x: jnp.mgrid[0:4, 0:5] * x, (I,)), ("ogrid", lambda x: jnp.ogrid[0:4, 0:5][0] * x, (I,)),
    ("r_", lambda x: jnp.r_[x, 1.0, 2.0], (V,)), ("c_", lambda x: jnp.c_[x, x], (V,)),
    ("array:constant", lambda x: x + jnp.array([1, 2, 3, 4, 5]), (I,)),
]  # fmt: skip

CHOOSING = [
    ("where", jnp.where, (T, A, B)), ("select", lambda x: jnp.select([x > 1, x > 0], [x, -x], 0.0), (A,)),
    ("clip", lambda x: jnp.clip(x, -1, 1), (A,)),
    ("choose", lambda i, x, y: jnp.choose(i % 2, [x, y], mode="clip"), (np.abs(I), A, B)),
    ("take", lambda x, i: jnp.take(x, i, axis=0), (W, N)),
    ("take:mode", lambda x, i: jnp.take(x, i, mode="wrap"), (A, I)),
    ("take:fill", lambda x, i: jnp.take(x, i, mode="fill", axis=0), (V, N + 3)),
    ("take_along_axis", lambda x, i: jnp.take_along_axis(x, i % 4, axis=0), (A, np.abs(I))),
    ("compress", lambda x: jnp.compress(np.array([True, False, True]), x, axis=1, size=2), (A,)),
    ("extract", lambda x: jnp.extract(np.array(T), x, size=9), (A,)),
    ("put", lambda x: jnp.put(x, np.array([1, 3]), 9.0, inplace=False), (V,)),
    ("put_along_axis", lambda x, i: jnp.put_along_axis(x, i, 1.5, 1, inplace=False), (A, np.abs(I[:, :1]) % 5)),
    ("place", lambda x: jnp.place(x, np.array(T), np.float32([1, 2]), inplace=False), (A,)),
    ("piecewise", lambda x: jnp.piecewise(x, [x < 0, x >= 0], [lambda x: -x, lambda x: x * 2]), (A,)),
    ("apply_along_axis", lambda x: jnp.apply_along_axis(jnp.sum, 0, x), (A,)),
    ("apply_over_axes", lambda x: jnp.apply_over_axes(jnp.sum, x, [0]), (A,)),
    ("vectorize", lambda x, y: jnp.vectorize(lambda a, b: a * b + 1)(x, y), (A, B)),
    ("nonzero", lambda x: jnp.nonzero(x, size=9, fill_value=0), (I,)),
    ("flatnonzero", lambda x: jnp.flatnonzero(x, size=5), (I,)),
    ("argwhere", lambda x: jnp.argwhere(x, size=5), (I,)), ("logical_and", jnp.logical_and, (T, S)),
    ("logical_or", jnp.logical_or, (T, S)), ("logical_xor", jnp.logical_xor, (T, S)),
    ("logical_not", jnp.logical_not, (T,)), ("bitwise_not", jnp.bitwise_not, (I,)), ("invert", jnp.invert, (I,)),
    ("bitwise_invert", jnp.bitwise_invert, (I,)), ("left_shift", jnp.left_shift, (I, N[:5])),
    ("right_shift", jnp.right_shift, (I, N[:5])), ("bitwise_left_shift", jnp.bitwise_left_shift, (I, N[:5])),
    ("bitwise_right_shift", jnp.bitwise_right_shift, (I, N[:5])), ("bitwise_count", jnp.bitwise_count, (I,)),
    ("array_equal", jnp.array_equal, (A, A)), ("array_equiv", jnp.array_equiv, (A, B)),
    ("allclose", jnp.allclose, (A, A)), ("isin", jnp.isin, (I, J[0])), ("divmod", jnp.divmod, (I, K)),
    ("divmod:floats", jnp.divmod, (A, B)), ("modf", jnp.modf, (A,)), ("frexp", jnp.frexp, (A,)),
    ("ldexp", jnp.ldexp, (A, I)), ("floor:odd", jnp.floor, (ODD,)), ("round:odd", jnp.round, (ODD,)),
    ("sign:odd", jnp.sign, (ODD,)), ("max:nan", jnp.max, (ODD,)), ("clip:odd", lambda x: jnp.clip(x, 0, 1), (ODD,)),
    ("power:integers", jnp.power, (I, np.abs(J) % 4)), ("packbits", jnp.packbits, (T,)),
    ("unpackbits", jnp.unpackbits, (np.uint8([3, 200]),)), ("unwrap", jnp.unwrap, (V,)),
    ("ediff1d", jnp.ediff1d, (V,)), ("diff", jnp.diff, (A,)), ("gradient", jnp.gradient, (V,)),
    ("trapezoid", jnp.trapezoid, (V,)), ("interp", jnp.interp, (V, np.sort(W), V)),
    ("cross", jnp.cross, (floats(4, 3), floats(4, 3))), ("maximum:bool", jnp.maximum, (T, S)),
]  # fmt: skip

SORTING = [
    ("sort", jnp.sort, (A,)), ("sort:axis", lambda x: jnp.sort(x, axis=0), (I,)), ("sort:odd", jnp.sort, (ODD,)),
    ("sort:descending", lambda x: jnp.sort(x, descending=True), (I,)), ("argsort", jnp.argsort, (I,)),
    ("lexsort", lambda x, y: jnp.lexsort((x, y)), (N, N[::-1].copy())), ("sort:bool", jnp.sort, (T,)),
    ("partition", lambda x: jnp.partition(x, 3), (V,)), ("argpartition", lambda x: jnp.argpartition(x, 3)[3], (V,)),
    ("searchsorted", lambda x, y: jnp.searchsorted(jnp.sort(x), y), (V, W)),
    ("digitize", lambda x, y: jnp.digitize(x, jnp.sort(y)), (V, W)),
    ("percentile", lambda x: jnp.percentile(x, 30.0), (A,)),
    ("quantile", lambda x: jnp.quantile(x, 0.3, axis=0), (A,)),
    ("nanpercentile", lambda x: jnp.nanpercentile(x, 30.0), (A,)),
    ("nanquantile", lambda x: jnp.nanquantile(x, 0.3), (A,)),
    ("unique", lambda x: jnp.unique(x, size=9, fill_value=0), (I,)),
    ("unique_values", lambda x: jnp.unique_values(x, size=5), (N,)),
    ("unique_counts", lambda x: jnp.unique_counts(x, size=5), (N,)),
    ("union1d", lambda x, y: jnp.union1d(x, y, size=10), (N, N)),
    ("setdiff1d", lambda x, y: jnp.setdiff1d(x, y, size=4, fill_value=-1), (N, N[:2])),
    ("intersect1d", lambda x, y: jnp.intersect1d(x, y, size=4), (N, N)),
    ("bincount", lambda x: jnp.bincount(x, length=8), (N,)),
    ("bincount:weights", lambda x, w: jnp.bincount(x, w, length=8), (N, W)),
    ("histogram", lambda x: jnp.histogram(x, bins=5), (A,)),
    ("histogram_bin_edges", lambda x: jnp.histogram_bin_edges(x, bins=5), (A,)),
    ("histogram2d", lambda x, y: jnp.histogram2d(x, y, bins=3), (V, W)), ("cumulative_sum", jnp.cumulative_sum, (V,)),
    ("cumulative_prod", jnp.cumulative_prod, (V,)), ("setxor1d", lambda x, y: jnp.setxor1d(x, y, size=4), (N, N[:3])),
]  # fmt: skip

PRODUCTS = [
    ("matmul", jnp.matmul, (A, B.T.copy())), ("matmul:batched", jnp.matmul, (C3, floats(2, 4, 3))),
    ("dot", jnp.dot, (A, Q)), ("vdot", jnp.vdot, (V, W)), ("vecdot", jnp.vecdot, (A, B)),
    ("matvec", jnp.matvec, (A, V[:5])), ("vecmat", jnp.vecmat, (V[:4], A)), ("inner", jnp.inner, (A, B)),
    ("outer", jnp.outer, (V, W)), ("kron", jnp.kron, (A, floats(2, 2))),
    ("tensordot", lambda x, y: jnp.tensordot(x, y, 1), (C3, floats(4, 2))),
    ("einsum", lambda x, y: jnp.einsum("bij,bjk->bik", x, y), (C3, floats(2, 4, 5))),
    ("einsum:three", lambda x, y, z: jnp.einsum("ij,kj,k->i", x, y, z), (A, B, V[:4])),
    ("einsum:diagonal", lambda x: jnp.einsum("ii->i", x), (Q,)), ("convolve", jnp.convolve, (V, W[:3])),
    ("correlate", jnp.correlate, (V, W[:3])), ("polyval", jnp.polyval, (V[:4], W)),
    ("polyadd", jnp.polyadd, (V, W[:3])), ("polysub", jnp.polysub, (V, W[:3])), ("polymul", jnp.polymul, (V, W[:3])),
    ("polyder", jnp.polyder, (V,)), ("polyint", jnp.polyint, (V,)), ("poly", jnp.poly, (V[:3],)),
    ("cov", jnp.cov, (A,)), ("corrcoef", jnp.corrcoef, (A,)), ("linalg.norm", jnp.linalg.norm, (A,)),
    ("linalg.matrix_norm", jnp.linalg.matrix_norm, (A,)), ("linalg.vector_norm", jnp.linalg.vector_norm, (V,)),
    ("linalg.matrix_power", lambda x: jnp.linalg.matrix_power(x, 3), (Q,)),
    ("linalg.multi_dot", lambda *x: jnp.linalg.multi_dot(x), (A, Q, Q)), ("linalg.outer", jnp.linalg.outer, (V, W)),
    ("linalg.trace", jnp.linalg.trace, (Q,)), ("linalg.diagonal", jnp.linalg.diagonal, (Q,)),
    ("linalg.cross", jnp.linalg.cross, (floats(4, 3), floats(4, 3))), ("linalg.vecdot", jnp.linalg.vecdot, (A, B)),
    ("linalg.tensordot", jnp.linalg.tensordot, (Q, Q)), ("linalg.det", jnp.linalg.det, (Q[:3, :3].copy(),)),
    ("linalg.inv", jnp.linalg.inv, (Q,)), ("linalg.solve", jnp.linalg.solve, (Q, V[:5])),
    ("linalg.cholesky", lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(5)), (Q,)),
    ("linalg.qr", jnp.linalg.qr, (Q,)), ("linalg.qr:tall", jnp.linalg.qr, (Q[:, :3].copy(),)),
    ("linalg.det:5", jnp.linalg.det, (Q,)), ("linalg.solve:rows", jnp.linalg.solve, (Q, A.T.copy())),
    ("linalg.inv:batched", jnp.linalg.inv, (floats(2, 3, 3),)),
    ("linalg.cholesky:indefinite", jnp.linalg.cholesky, (-np.eye(3, dtype=np.float32),)),
    ("linalg.pinv", jnp.linalg.pinv, (Q,)), ("linalg.lstsq", jnp.linalg.lstsq, (Q, V[:5])),
    ("linalg.eigvalsh", jnp.linalg.eigvalsh, (Q,)), ("linalg.matrix_rank", jnp.linalg.matrix_rank, (Q,)),
    ("linalg.eigh", jnp.linalg.eigh, (Q,)), ("linalg.svd", jnp.linalg.svd, (Q,)), ("fft.fft", jnp.fft.fft, (V,)),
    ("roots", lambda x: jnp.roots(x, strip_zeros=False), (V[:3],)), ("linalg.slogdet", jnp.linalg.slogdet, (Q,)),
]  # fmt: skip

CASES = [*_rows(), *MOVING, *MAKING, *CHOOSING, *SORTING, *PRODUCTS]
# Those that take jax itself a second and more to compile: only tests/python/jax/count.py runs them.
SLOW = set(
    (
        "intersect1d setxor1d union1d setdiff1d unique unique_counts unique_values histogram histogram2d insert "
        "tril_indices triu_indices interp put place nonzero argwhere extract polymul roots linalg.inv "
        "linalg.solve linalg.slogdet linalg.svd linalg.eigh linalg.pinv linalg.lstsq linalg.eigvalsh "
        "linalg.matrix_rank linalg.qr:tall linalg.det:5 linalg.solve:rows linalg.inv:batched "
        "linalg.cholesky:indefinite nanpercentile nanquantile"
    ).split()
)
