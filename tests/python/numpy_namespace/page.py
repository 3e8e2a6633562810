"""The table of docs/python_arrays.md: which of the standard's functions there are, and where they run.

Run it to write the table anew: python tests/python/numpy_namespace/page.py
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support

import kiln.numpy

PAGE = support.ROOT / "docs" / "python_arrays.md"
BEGIN, END = "<!-- table -->\n", "<!-- end -->\n"

# The standard's functions, version 2024.12, by the pages that it has of them.
STANDARD = {
    "constants": "e inf nan newaxis pi",
    "creation": (
        "arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril "
        "triu zeros zeros_like"
    ),
    "dtypes": "astype can_cast finfo iinfo isdtype result_type",
    "element by element": (
        "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or "
        "bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor "
        "floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 "
        "logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply negative nextafter "
        "not_equal positive pow real reciprocal remainder round sign signbit sin sinh square sqrt subtract tan "
        "tanh trunc"
    ),
    "indexing": "take take_along_axis",
    "inspection": "__array_namespace_info__",
    "products": "matmul matrix_transpose tensordot vecdot",
    "moving": (
        "broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze "
        "stack tile unstack"
    ),
    "searching": "argmax argmin count_nonzero nonzero searchsorted where",
    "sets": "unique_all unique_counts unique_inverse unique_values",
    "sorting": "argsort sort",
    "statistics": "cumulative_prod cumulative_sum max mean min prod std sum var",
    "other": "all any diff",
    "linalg": (
        "cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank "
        "matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm"
    ),
    "fft": "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift",
}
# Functions that read only some of their arguments, or only for some of them.
PARTLY = {"repeat": "`repeats` that is an array is read", "matrix_norm": 'of the orders 2, -2 and "nuc" here'}


def table():
    rows = ["| | on the device | here | not there |", "|---|---|---|---|"]
    for subject, names in STANDARD.items():
        space = getattr(kiln.numpy, subject, None) if subject in ("linalg", "fft") else kiln.numpy
        there, here, missing = [], [], []
        for name in names.split():
            found = getattr(space, name, rows)
            shown = "`%s`" % name + (" (%s)" % PARTLY[name] if name in PARTLY else "")
            if found is rows:
                missing.append(shown)
            else:
                is_here = getattr(found, "__module__", "") == "kiln.numpy.host" and name not in PARTLY
                (here if is_here else there).append(shown)
        rows.append("| %s | %s | %s | %s |" % (subject, " ".join(there), " ".join(here), " ".join(missing)))
    return "\n".join(rows) + "\n"


def shown():
    """What the page has."""
    return PAGE.read_text().split(BEGIN)[1].split(END)[0]


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text().replace(BEGIN + shown() + END, BEGIN + table() + END))
