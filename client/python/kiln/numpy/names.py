"""Which function of the builder each name of the namespace is: one row a module, and numpy's other names of some."""

from __future__ import annotations

from typing import Any, Dict

from kiln import elementwise, functions, movement, reduce
from kiln.composed import (
    chosen,
    contraction,
    division,
    exponential,
    joining,
    ordering,
    rearranging,
    samples,
    signs,
    special,
    statistics,
    trigonometric,
    windows,
)
from kiln.functional.eager import dispatched

TABLE = (
    (elementwise, "add subtract multiply divide equal not_equal less less_equal greater greater_equal maximum minimum "
                  "negative logical_and logical_or logical_not bitwise_and bitwise_or bitwise_xor"),
    (functions, "exp exp2 log log2 sin cos sqrt square reciprocal sign"),
    (special, "tanh erf"),
    (division, "floor_divide remainder fmod divmod pow round floor ceil trunc"),
    (signs, "abs signbit copysign nextafter isnan isinf isfinite positive real imag conj logical_xor heaviside"),
    (exponential, "log10 log1p expm1 logaddexp logaddexp2 sinh cosh asinh acosh atanh hypot"),
    (trigonometric, "tan asin acos atan atan2 degrees radians"),
    (chosen, "clip where take take_along_axis select isclose allclose"),
    (reduce, "max min any all argmax argmin matmul dot"),
    (statistics, "sum prod mean var std ptp count_nonzero average nansum nanmean nanmax nanmin cumulative_sum cumulative_prod "
                 "cumsum cumprod diff"),
    (ordering, "sort argsort top_k searchsorted median"),
    (movement, "broadcast_to"),
    (rearranging, "concat stack unstack broadcast_arrays expand_dims moveaxis permute_dims matrix_transpose squeeze ravel "
                  "swapaxes roll tile split array_split tril triu meshgrid pad rot90"),
    (contraction, "einsum tensordot vecdot inner outer kron"),
    (windows, "conv max_pool avg_pool"),
    (joining, "vstack hstack dstack column_stack append atleast_1d atleast_2d atleast_3d diagonal trace diag diagflat gradient"),
    (samples, "quantile percentile histogram histogram_bin_edges digitize isin interp trapezoid cov corrcoef convolve correlate "
              "vdot nan_to_num"),
)  # fmt: skip

# The same functions by numpy's older names, or the standard's.
ALSO = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2",
    "atanh": "arctanh", "pow": "power", "abs": "absolute", "concat": "concatenate", "remainder": "mod", "round": "around",
    "conj": "conjugate", "trunc": "fix", "radians": "deg2rad", "degrees": "rad2deg", "max": "amax", "min": "amin",
}  # fmt: skip

# Under names that differ from the builder's own.
RENAMED = {
    "bitwise_invert": elementwise.invert, "invert": elementwise.invert, "bitwise_not": elementwise.invert,
    "bitwise_left_shift": elementwise.left_shift, "left_shift": elementwise.left_shift,
    "bitwise_right_shift": elementwise.right_shift, "right_shift": elementwise.right_shift,
    "reshape": rearranging.reshape_, "flip": rearranging.flip_, "transpose": movement.transpose,
}  # fmt: skip


def functions_of_fft() -> Dict[str, Any]:
    """What numpy.fft's functions of these names are; kiln.numpy has no fft, which would have to be the whole of it."""
    return {name: dispatched(getattr(rearranging, name)) for name in ("fftshift", "ifftshift")}


def functions_by_name() -> Dict[str, Any]:
    found = {name: dispatched(getattr(module, name)) for module, names in TABLE for name in names.split()}
    found.update({name: dispatched(raw) for name, raw in RENAMED.items()})
    found.update({other: found[name] for name, other in ALSO.items()})
    return found
