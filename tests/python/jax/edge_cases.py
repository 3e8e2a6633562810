"""Where functions have their limits: what does not fit, lies outside, or nearly divides by 0. Rows: lax_cases.py."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

V, ROW = np.float32([1, 1]), np.arange(300, dtype=np.float32)
BEYOND = np.float32([-1, 300, 1e10, -1e10, np.nan, np.inf, -np.inf, -0.5, 127.9, -128.9, 65535.5, -40000])
ANGLES = np.float32([1.5707, 1.5707964, -1.5707, 1.57, 0, -0.0, 3.1415927, 4.712389, 0.3])


def padded(*config):
    """By a known number and by one that is not."""
    return lambda x: (lax.pad(x, 5.0, config), lax.pad(x, x[0] + 6, config))


CASES = [
    *(("astype:%s" % kind, lambda x, kind=kind: x.astype(kind), (BEYOND,))
      for kind in "int8 uint8 int16 uint16".split()),
    ("astype:bfloat16", lambda x: x.astype(jnp.bfloat16).astype(jnp.int8), (np.float32([200, -200, 3]),)),
    *(("pad:%s" % (row,), padded(row), (V,)) for row in ((2, -3, 0), (-3, 5, 0), (-1, 2, 1), (-1, -1, 3), (1, -2, 0))),
    ("pad:two axes", lambda x: lax.pad(x, 5.0, [(2, -3, 0), (-1, 2, 0)]), (ROW[:6].reshape(2, 3),)),
    ("cos", jnp.cos, (ANGLES,)), ("cos:near", lambda x: jnp.cos(x) * 1e4, (ANGLES[:4],)),
    ("tan", jnp.tan, (ANGLES[[0, 2, 3, 4, 5, 6, 8]],)), ("tan:near", jnp.tan, (ANGLES[1:2],)),
    ("dynamic_slice:int8", lambda x, i: lax.dynamic_slice(x, (i,), (3,)), (ROW, np.int8(120))),
    ("dynamic_slice:uint8", lambda x, i: lax.dynamic_slice(x, (i,), (3,)), (ROW, np.uint8(250))),
    ("dynamic_update_slice:int8", lambda x, i: lax.dynamic_update_slice(x, x[:2] - 9, (i,)), (ROW, np.int8(-3))),
    ("rem", lax.rem, (np.float32([1e20, -1e20, 3e38, 7.5, -7.5, 5, np.inf, np.nan, 1]),
                      np.float32([2.5, 2.5, 1e10, -2, 2, 0, 2, 1, np.inf]))),
    ("mod", jnp.mod, (np.float32([1e20, -1e20, -7.5]), np.float32([2.5, 2.5, np.inf]))),
    ("arccosh", jnp.arccosh, (np.float32([-3e9, -2, 0.5, 1, 1.5, 3e9, np.inf]),)),
    ("i0e", jax.scipy.special.i0e, (np.float32([1500, 3000, -1e6, 1e20]),)),
    ("i0e:scaled", lambda x: jax.scipy.special.i0e(x) * jnp.sqrt(x), (np.float32([900, 1500, 3000, 1e6, 1e20]),)),
    ("i1e:scaled", lambda x: jax.scipy.special.i1e(x) * jnp.sqrt(abs(x)), (np.float32([900, 1500, 3000, -1e6, 1e20]),)),
    ("reduce:add", lambda x: lax.reduce(x, np.float32(10), lax.add, (0,)), (ROW[:7],)),
    ("reduce:mul", lambda x: lax.reduce(x, np.float32(3), lax.mul, (0,)), (ROW[1:6],)),
    ("reduce:max", lambda x: lax.reduce(x, np.float32(4), lax.max, (1,)), (ROW[:9].reshape(3, 3),)),
    ("reduce:none", lambda x: lax.reduce(x, np.float32(4), lax.add, (0,)), (np.zeros((0, 2), np.float32),)),
    ("reduce:computed", lambda x: lax.reduce(x, x[1, 1] + 1, lax.add, (0,)), (ROW[:9].reshape(3, 3),)),
    *(("reduce_window:%s" % op.__name__, lambda x, op=op: lax.reduce_window(x, np.float32(2.5), op, (3,), (2,), "SAME"),
       (ROW[:8],)) for op in (lax.add, lax.mul, lax.max)),
    ("reduce_window:computed", lambda x: lax.reduce_window(x, x[1] + 1, lax.add, (3,), (2,), "SAME"), (ROW[:8],)),
]  # fmt: skip

# With 64 bits.
WIDE = [
    ("dynamic_slice:uint64", lambda x, i: lax.dynamic_slice(x, (i,), (1,)), (ROW, np.uint64(2**64 - 1))),
    ("index:uint64", lambda x, i: x[i], (ROW, np.uint64([2**64 - 1, 3]))),
    ("index:clip", lambda x, i: x.at[i].get(mode="clip"), (ROW, np.uint64([2**64 - 1, 3]))),
    ("rem:float64", lax.rem, (np.float64([1e20, -5.3, 1e15]), np.float64([2.5, 0.7, 0.1]))),
    ("i0e:float64", lambda x: jax.scipy.special.i0e(x) * jnp.sqrt(x), (np.float64([900, 1001, 1e5]),)),
    ("cos:float64", jnp.cos, (np.float64([1.5707963, 1.57079632679489656, 3]),)),
]
