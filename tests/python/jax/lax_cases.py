"""Functions of jax.lax, jax.nn, jax.random and jax.scipy, gradients and maps: rows are (name, function, arguments)."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from numpy_cases import A, B, C3, I, K, N, ODD, P, Q, T, U, V, W, floats

KEY = np.uint32([3, 11])
X4, X3 = floats(2, 3, 8, 8), floats(2, 3, 10)


def conv(strides=(1, 1), padding="SAME", **named):
    numbers = named.pop("dimension_numbers", ("NCHW", "OIHW", "NCHW"))
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=numbers, **named)


def slopes(function, *which):
    """The gradient of the sum of a function's values, weighted so that no two weigh the same."""
    def weighed(*args):
        value = function(*args)
        return jnp.sum(value * (jnp.arange(value.size, dtype=jnp.float32).reshape(value.shape) % 7 - 3))

    return jax.grad(weighed, which or 0)


PLAIN = [
    *((name, getattr(lax, name), (A,))
      for name in (
          "abs neg exp exp2 sin cos tan tanh sinh cosh asinh atan erf erfc logistic cbrt expm1 sign floor ceil "
          "round is_finite square"
      ).split()),
    *((name, getattr(lax, name), (P,))
      for name in (
          "log log1p sqrt rsqrt lgamma digamma reciprocal bessel_i0e bessel_i1e"
      ).split()),
    *((name, getattr(lax, name), (U,)) for name in "asin acos atanh erf_inv".split()), ("acosh", lax.acosh, (P + 1,)),
    *((name, getattr(lax, name), (A, B))
      for name in (
          "add sub mul div rem max min atan2 nextafter lt le gt ge eq ne"
      ).split()),
    *((name + ":integers", getattr(lax, name), (I, K))
      for name in (
          "add sub mul div rem max min bitwise_and bitwise_or bitwise_xor"
      ).split()),
    *((name, getattr(lax, name), (I, np.abs(K)))
      for name in (
          "shift_left shift_right_logical shift_right_arithmetic"
      ).split()),
    *((name, getattr(lax, name), (I,)) for name in "population_count clz bitwise_not".split()),
    ("integer_pow", lambda x: lax.integer_pow(x, -3), (P,)), ("pow", lax.pow, (P, A)),
    ("pow:integer", lax.pow, (P, I)),
    ("erf_inv:far", lax.erf_inv, (np.float32([0, 1, -1, 0.999999, -0.9999, 1e-6]),)),
    ("round:even", lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), (ODD,)),
    ("round:away", lax.round, (ODD,)), ("clamp", lambda x: lax.clamp(-1.0, x, 1.0), (A,)),
    ("select", lax.select, (T, A, B)), ("select_n", lambda i, *x: lax.select_n(i % 3, *x), (np.abs(I), A, B, A + B)),
    ("convert_element_type", lambda x: lax.convert_element_type(x, jnp.int8), (A,)),
    ("convert_element_type:float16", lambda x: lax.convert_element_type(x, jnp.float16), (A,)),
    ("bitcast_convert_type", lambda x: lax.bitcast_convert_type(x, jnp.int32), (A,)),
    ("bitcast_convert_type:narrow", lambda x: lax.bitcast_convert_type(x, jnp.uint8), (A,)),
    ("bitcast_convert_type:wide",
     lambda x: lax.bitcast_convert_type(x.reshape(2, 10, 2).astype(jnp.int16), jnp.int32),
     (np.concatenate([I, I]),)),
    ("reduce_precision", lambda x: lax.reduce_precision(x, 8, 7), (A,)), ("stop_gradient", lax.stop_gradient, (A,)),
    ("optimization_barrier", lax.optimization_barrier, (A,)),
    ("reshape", lambda x: lax.reshape(x, (10, 2), (1, 0)), (A,)),
    ("broadcast", lambda x: lax.broadcast(x, (2,)), (A,)),
    ("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (7, 2), (0,)), (V,)),
    ("transpose", lambda x: lax.transpose(x, (1, 2, 0)), (C3,)), ("rev", lambda x: lax.rev(x, (0, 2)), (C3,)),
    ("slice", lambda x: lax.slice(x, (1, 0), (4, 5), (2, 3)), (A,)),
    ("slice_in_dim", lambda x: lax.slice_in_dim(x, 1, 3), (A,)),
    ("index_in_dim", lambda x: lax.index_in_dim(x, 1), (A,)),
    ("pad", lambda x: lax.pad(x, 1.5, ((1, 2, 1), (-1, 3, 2))), (A,)),
    ("pad:value", lambda x: lax.pad(x, x[0, 0], ((1, 2, 0), (0, -2, 0))), (A,)),
    ("concatenate", lambda *x: lax.concatenate(x, 1), (A, B)),
    ("iota", lambda x: lax.broadcasted_iota(jnp.int32, (4, 5), 1) * x, (I,)),
    ("dynamic_slice", lambda x, i: lax.dynamic_slice(x, (i, i + 2), (2, 3)), (A, np.int32(1))),
    ("dynamic_slice:outside", lambda x, i: lax.dynamic_slice(x, (i, -i), (2, 3)), (A, np.int32(99))),
    ("dynamic_update_slice", lambda x, y, i: lax.dynamic_update_slice(x, y, (i, i)), (A, B[:2, :2], np.int32(1))),
    ("dynamic_index_in_dim", lambda x, i: lax.dynamic_index_in_dim(x, i), (A, np.int32(2))),
    ("dynamic_update_index_in_dim", lambda x, y, i: lax.dynamic_update_index_in_dim(x, y, i, 0),
     (A, V[:5], np.int32(2))),
    ("expand_dims", lambda x: lax.expand_dims(x, (0, 2)), (A,)),
    ("squeeze", lambda x: lax.squeeze(x[None], (0,)), (A,)), ("split", lambda x: lax.split(x, (1, 3)), (A,)),
    ("reduce:sum", lambda x: lax.reduce(x, 0.0, lax.add, (0,)), (A,)),
    ("reduce:own", lambda x: lax.reduce(x, np.int32(0), lambda a, b: a * b + a + b, (1,)), (I,)),
    ("reduce_max", lambda x: lax.reduce_max(x, (0,)), (A,)), ("reduce_and", lambda x: lax.reduce_and(x, (0,)), (T,)),
    ("reduce_xor", lambda x: lax.reduce_xor(x, (1,)), (I,)), ("reduce_or", lambda x: lax.reduce_or(x, (1,)), (I,)),
    ("argmax", lambda x: lax.argmax(x, 1, jnp.int32), (A,)), ("argmin", lambda x: lax.argmin(x, 0, jnp.int32), (A,)),
    ("cumsum", lambda x: lax.cumsum(x, 1, reverse=True), (A,)), ("cumprod", lambda x: lax.cumprod(x, 0), (A,)),
    ("cummax", lambda x: lax.cummax(x, 1), (A,)), ("cummin", lambda x: lax.cummin(x, 1, reverse=True), (I,)),
    ("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), (A,)),
    ("associative_scan", lambda x: lax.associative_scan(jnp.add, x), (V,)),
    ("top_k", lambda x: lax.top_k(x, 3), (A,)), ("top_k:integers", lambda x: lax.top_k(x, 2), (I,)),
    ("sort:several", lambda x, y: lax.sort((x, y), num_keys=1), (I, A)),
    ("sort:keys", lambda x, y: lax.sort((x, y), num_keys=2), (I % 2, A)),
    ("sort_key_val", lambda x, y: lax.sort_key_val(x, y), (V, W)),
    ("approx_max_k", lambda x: lax.approx_max_k(x, 3), (V,)),
    ("linalg.triangular_solve", lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
     (Q + 5 * np.eye(5, dtype=np.float32), A.T.copy())),
    ("linalg.triangular_solve:right",
     lambda a, b: lax.linalg.triangular_solve(a, b, transpose_a=True, unit_diagonal=True),
     (0.3 * Q, A)),
    ("linalg.lu", lax.linalg.lu, (Q,)),
    ("grad:cholesky", slopes(lambda x: lax.linalg.cholesky(x @ x.T + jnp.eye(3))), (Q[:3, :3].copy(),)),
    ("grad:solve", slopes(jnp.linalg.solve), (Q[:3, :3].copy(), V[:3])), ("dot", lax.dot, (A, Q)),
    ("dot_general", lambda x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))), (C3, floats(2, 4, 5))),
    ("dot_general:narrow",
     lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32),
     (I.astype(np.int8), I.T.astype(np.int8))),
    ("dot_general:bfloat16", lambda x, y: (x.astype(jnp.bfloat16) @ y.astype(jnp.bfloat16)).astype(jnp.float32),
     (np.float32(I), np.float32(K.T))),
    ("batch_matmul", lax.batch_matmul, (C3, floats(2, 4, 3))),
]  # fmt: skip

WINDOWS = [
    ("conv_general_dilated", conv(), (X4, floats(4, 3, 3, 3))),
    ("conv_general_dilated:strides", conv((2, 3), ((1, 2), (0, 1))), (X4, floats(4, 3, 3, 2))),
    ("conv_general_dilated:dilated", conv(padding=((2, 2), (1, 1)), lhs_dilation=(2, 1), rhs_dilation=(1, 2)),
     (X4, floats(4, 3, 3, 3))),
    ("conv_general_dilated:grouped", conv(feature_group_count=3), (X4, floats(6, 1, 3, 3))),
    ("conv_general_dilated:batches", conv(batch_group_count=2), (X4, floats(4, 3, 3, 3))),
    ("conv_general_dilated:nhwc", conv(dimension_numbers=("NHWC", "HWIO", "NHWC")),
     (floats(2, 6, 6, 3), floats(3, 3, 3, 4))),
    ("conv", lambda x, w: lax.conv(x, w, (1,), "VALID"), (X3, floats(4, 3, 3))),
    ("conv_transpose",
     lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")),
     (X4, floats(4, 3, 3, 3))),
    ("conv_general_dilated:negative", conv(padding=((-1, 2), (0, -1))), (X4, floats(4, 3, 3, 3))),
    ("grad:conv", slopes(conv((2, 1)), 0, 1), (X4, floats(4, 3, 3, 3))),
    ("grad:conv_grouped", slopes(conv(feature_group_count=3), 0, 1), (X4, floats(6, 1, 3, 3))),
    ("reduce_window:max", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 3), (1, 1, 2, 2), "SAME"),
     (X4,)),
    ("reduce_window:sum", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 1, 3, 3), (1, 1, 1, 1), "VALID"),
     (X4,)),
    ("reduce_window:min", lambda x: lax.reduce_window(x, jnp.inf, lax.min, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
     (X4,)),
    ("reduce_window:mul", lambda x: lax.reduce_window(x, 1.0, lax.mul, (2,), (1,), "SAME"), (V,)),
    ("reduce_window:dilated",
     lambda x: lax.reduce_window(x, 0.0, lax.add, (3,), (1,), "VALID", window_dilation=(2,), base_dilation=(2,)),
     (V,)),
    ("grad:max_pool", slopes(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")),
     (X4,)),
    ("grad:max_pool_over",
     slopes(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "SAME")),
     (X4,)),
    ("grad:avg_pool", slopes(lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")),
     (X4,)),
]  # fmt: skip

INDEXING = [
    ("index:rows", lambda x, i: x[i], (A, N % 4)), ("index:pairs", lambda x, i, j: x[i, j], (A, N % 4, N % 5)),
    ("index:column", lambda x, i: x[:, i], (A, N % 5)), ("index:mixed", lambda x, i: x[i, 1:3], (C3[0], N % 3)),
    ("index:negative", lambda x, i: x[i], (V, -N - 1)),
    ("at.get:fill", lambda x, i: x.at[i].get(mode="fill", fill_value=-1.0), (V, N * 2)),
    ("at.get:clip", lambda x, i: x.at[i].get(mode="clip"), (V, N * 2)),
    ("at.set", lambda x, i: x.at[i].set(7.0), (V, N)),
    ("at.set:last", lambda x, i, y: x.at[i].set(y), (V, np.int32([0, 0, 1, 5, 5, 5, 9]), W)),
    ("at.set:slice", lambda x, y: x.at[1:3, 2:].set(y), (A, B[:2, :3])),
    ("at.add", lambda x, i, y: x.at[i].add(y), (V, N, W)),
    ("at.add:rows", lambda x, i, y: x.at[i].add(y), (A, np.int32([1, 1, 3, 7]), B)),
    ("at.add:column", lambda x, i, y: x.at[:, i].add(y), (A, np.int32([1, 1, 3, 0]), B[:, :4])),
    ("at.add:pairs", lambda x, i, j: x.at[i, j].add(1.5), (A, N % 4, N % 5)),
    ("at.subtract", lambda x, i, y: x.at[i].subtract(y), (V, N, W)),
    ("at.multiply", lambda x, i, y: x.at[i].multiply(y), (V, N, W)),
    ("at.max", lambda x, i, y: x.at[i].max(y), (V, N, W)), ("at.min", lambda x, i, y: x.at[i].min(y), (V, N, W)),
    ("grad:take", slopes(lambda x, i: x[i]), (A, np.int32([1, 1, 3]))),
    ("grad:take_along", slopes(lambda x, i: jnp.take_along_axis(x, i, 1)), (A, np.abs(I) % 5)),
    ("vmap:index", jax.vmap(lambda x, i: x[i]), (A, N[:4] % 5)),
    ("vmap:at", jax.vmap(lambda x, i: x.at[i].add(2.0)), (A, N[:4] % 5)),
    ("vmap:dynamic_slice", jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,))), (A, N[:4])),
    ("vmap:dynamic_update", jax.vmap(lambda x, i: lax.dynamic_update_slice(x, jnp.ones(2), (i,))), (A, N[:4])),
    ("grad:dynamic_slice", slopes(lambda x, i: lax.dynamic_slice(x, (i, i), (2, 2))), (A, np.int32(1))),
    ("segment_sum", lambda x, i: jax.ops.segment_sum(x, i, 7), (V, N)),
    ("segment_max", lambda x, i: jax.ops.segment_max(x, i, 7), (V, N)),
    ("one_hot", lambda i: jax.nn.one_hot(i, 7), (N,)),
    ("gather:window",
     lambda x, i: lax.gather(x, i[:, None], lax.GatherDimensionNumbers((1, 2), (), (0,)), (2, 3), mode="clip"),
     (A, np.int32([0, 1, 9]))),
    ("scatter_apply", lambda x, i: x.at[i].apply(jnp.sin), (V, np.int32([1, 3]))),
]  # fmt: skip

CONTROL = [
    ("scan", lambda x: lax.scan(lambda c, y: (c * 0.5 + y.sum(), c), 0.0, x), (A,)),
    ("scan:reverse", lambda x: lax.scan(lambda c, y: (c + y, c * y), jnp.zeros(5), x, reverse=True), (A,)),
    ("grad:scan", slopes(lambda x: lax.scan(lambda c, y: (jnp.tanh(c + y), c), jnp.zeros(5), x)[0]), (A,)),
    ("fori_loop", lambda x: lax.fori_loop(0, 5, lambda i, c: c * 0.5 + i, x), (V,)),
    ("while_loop", lambda x: lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] * 1.5), (0, x))[1],
     (V,)),
    ("map", lambda x: lax.map(lambda y: y.sum() * 2, x), (A,)),
    ("cond", lambda x: lax.cond(x[0, 0] > 0, lambda x: x * 2, lambda x: x - 1, x), (A,)),
    ("cond:operand", lambda i, x: lax.cond(i, jnp.sin, jnp.cos, x), (np.bool_(True), A)),
    ("switch", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x), (np.int32(2), A)),
    ("grad:cond", slopes(lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x)), (A,)),
    ("checkpoint", slopes(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))), (A,)),
    ("custom_jvp", slopes(jax.nn.relu), (A,)), ("hessian", jax.hessian(lambda x: jnp.sum(jnp.tanh(x) ** 3)), (V,)),
    ("jacfwd", jax.jacfwd(lambda x: jnp.cumsum(x) * x), (V,)),
    ("jacrev", jax.jacrev(lambda x: jnp.sort(x) * x), (V,)),
    ("jvp", lambda x, y: jax.jvp(jnp.sinc, (x,), (y,)), (V, W)),
    ("vmap:grad", jax.vmap(jax.grad(lambda x: jnp.sum(jnp.log1p(x * x)))), (A,)),
    ("vmap:psum", jax.vmap(lambda x: lax.psum(x, "i") + lax.pmax(x, "i"), axis_name="i"), (A,)),
    ("linear_transpose", lambda x: jax.linear_transpose(lambda y: y * 3 + jnp.roll(y, 1), x)(x)[0], (V,)),
    ("grad:sort", slopes(jnp.sort), (V,)), ("grad:cumsum", slopes(jnp.cumsum), (V,)),
    ("grad:cumprod", slopes(jnp.cumprod), (V,)), ("grad:max", slopes(lambda x: jnp.max(x, 1)), (A,)),
    ("grad:prod", slopes(lambda x: jnp.prod(x, 1)), (A,)),
    ("grad:logsumexp", slopes(lambda x: jax.nn.logsumexp(x, 1)), (A,)),
]  # fmt: skip

NETS = [
    *((name, getattr(jax.nn, name), (A,))
      for name in (
          "relu relu6 sigmoid softplus soft_sign silu swish log_sigmoid leaky_relu hard_sigmoid hard_silu "
          "hard_swish hard_tanh elu celu selu gelu softmax log_softmax logsumexp standardize squareplus mish "
          "identity sparse_plus sparse_sigmoid tanh"
      ).split()),
    *(("grad:" + name, slopes(getattr(jax.nn, name)), (A,))
      for name in (
          "sigmoid softplus silu gelu elu softmax log_softmax mish standardize"
      ).split()),
    ("gelu:exact", lambda x: jax.nn.gelu(x, approximate=False), (A,)), ("glu", jax.nn.glu, (floats(3, 6),)),
    ("dot_product_attention", jax.nn.dot_product_attention,
     (floats(2, 4, 2, 8), floats(2, 4, 2, 8), floats(2, 4, 2, 8))),
    ("dot_product_attention:causal", lambda *x: jax.nn.dot_product_attention(*x, is_causal=True),
     (floats(2, 4, 2, 8), floats(2, 4, 2, 8), floats(2, 4, 2, 8))),
    ("initializers.glorot_uniform", lambda k: jax.nn.initializers.glorot_uniform()(k, (4, 6)), (KEY,)),
    ("initializers.he_normal", lambda k: jax.nn.initializers.he_normal()(k, (4, 6)), (KEY,)),
    *(("scipy.special." + name, getattr(jax.scipy.special, name), (A,))
      for name in (
          "erf erfc expit log_ndtr ndtr log_softmax entr i0e i1e"
      ).split()),
    *(("scipy.special." + name, getattr(jax.scipy.special, name), (P,)) for name in "gammaln digamma i0 i1".split()),
    *(("scipy.special." + name, getattr(jax.scipy.special, name), (np.abs(U),))
      for name in (
          "logit ndtri erfinv"
      ).split()),
    *(("scipy.special." + name, getattr(jax.scipy.special, name), (P, P.T.reshape(4, 5).copy()))
      for name in (
          "xlogy xlog1py betaln rel_entr kl_div gammainc zeta"
      ).split()),
    ("scipy.stats.norm.logpdf", jax.scipy.stats.norm.logpdf, (A,)),
    ("scipy.stats.norm.cdf", jax.scipy.stats.norm.cdf, (A,)),
    ("scipy.signal.convolve", lambda x, y: jax.scipy.signal.convolve(x, y, method="direct"), (V, W)),
    ("scipy.ndimage.map_coordinates", lambda x, i: jax.scipy.ndimage.map_coordinates(x, [i, i], 1),
     (A, np.abs(U[0]))),
    ("image.resize", lambda x: jax.image.resize(x, (8, 10), "linear"), (A,)),
]  # fmt: skip

RANDOM = [
    ("random.bits", lambda k: jax.random.bits(k, (7,)), (KEY,)),
    ("random.bits:narrow", lambda k: jax.random.bits(k, (7,), jnp.uint8), (KEY,)),
    ("random.uniform", lambda k: jax.random.uniform(k, (3, 5)), (KEY,)),
    ("random.normal", lambda k: jax.random.normal(k, (9,)), (KEY,)),
    ("random.randint", lambda k: jax.random.randint(k, (9,), -5, 90), (KEY,)),
    ("random.bernoulli", lambda k: jax.random.bernoulli(k, 0.3, (9,)), (KEY,)),
    ("random.split", lambda k: jax.random.split(k, 3), (KEY,)),
    ("random.fold_in", lambda k, n: jax.random.fold_in(k, n), (KEY, np.int32(7))),
    ("random.key", lambda n: jax.random.key_data(jax.random.key(n)), (np.int32(42),)),
    ("random.PRNGKey", jax.random.PRNGKey, (np.int32(42),)),
    ("random.key:constant", lambda x: x + jax.random.normal(jax.random.key(5), (7,)), (V,)),
    ("random.permutation", lambda k: jax.random.permutation(k, 9), (KEY,)),
    ("random.choice", lambda k: jax.random.choice(k, 9, (5,)), (KEY,)),
    ("random.categorical", lambda k, x: jax.random.categorical(k, x), (KEY, A)),
    ("random.gumbel", lambda k: jax.random.gumbel(k, (9,)), (KEY,)),
    ("random.exponential", lambda k: jax.random.exponential(k, (9,)), (KEY,)),
    ("random.laplace", lambda k: jax.random.laplace(k, (9,)), (KEY,)),
    ("random.logistic", lambda k: jax.random.logistic(k, (9,)), (KEY,)),
    ("random.truncated_normal", lambda k: jax.random.truncated_normal(k, -1.0, 1.0, (9,)), (KEY,)),
    ("random.cauchy", lambda k: jax.random.cauchy(k, (9,)), (KEY,)),
    ("random.rademacher", lambda k: jax.random.rademacher(k, (9,)), (KEY,)),
    ("random.permutation:rows", lambda k, x: jax.random.permutation(k, x, axis=0), (KEY, A)),
    ("random.gamma", lambda k: jax.random.gamma(k, 2.0, (3,)), (KEY,)),
    ("random.poisson", lambda k: jax.random.poisson(k, 2.0, (3,)), (jax.random.key(1),)),
    ("random.uniform:vmap", jax.vmap(lambda k: jax.random.uniform(k, (2,))), (np.stack([KEY, KEY + 1]),)),
    ("random.key:split", lambda k: [jax.random.uniform(one) for one in jax.random.split(k)], (jax.random.key(9),)),
    ("random.bernoulli:dropout", lambda k, x: jnp.where(jax.random.bernoulli(k, 0.5, x.shape), x * 2, 0),
     (KEY, A)),
    ("random.orthogonal", lambda k: jax.random.orthogonal(k, 3), (KEY,)),
    ("random.triangular", lambda k: jax.random.triangular(k, 0.0, 0.5, 1.0, (5,)), (KEY,)),
    ("random.weibull_min", lambda k: jax.random.weibull_min(k, 1.0, 2.0, (5,)), (KEY,)),
]  # fmt: skip

CASES = [*PLAIN, *WINDOWS, *INDEXING, *CONTROL, *NETS, *RANDOM]
