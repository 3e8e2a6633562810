"""Judges one outcome: what of it lies outside the bounds that the IR's definition sets.

Integers and bools are equal bit for bit. Floats: NaN where NaN is due, the same
infinities, and a distance of at most the row's `ulp` (units of the last place
of the reference) or `norm` (epsilons of the result's dtype, times the largest
finite element of the reference). ulp 0 is equality, in which -0 equals 0;
ulp -1 is equality of bits.
"""

import ml_dtypes
import numpy as np

import values

FULL = {"float": "float32", "double": "float64", "half": "float16", "weakfloat": "float32", "weakint": "int32"}


def dtype_name(dtype):
    name = dtype.removeprefix("dtypes.")
    return FULL.get(name, name)


def floats_differ(got, want, dtype, ulp, norm):
    """What is wrong with `got`, or nothing."""
    got, want = np.asarray(got), np.asarray(want)
    wide = np.longdouble if dtype == "float64" else np.float64
    narrow = values.numpy_dtype(dtype)
    with np.errstate(all="ignore"):
        got_wide, rounded = got.astype(wide), want.astype(wide).astype(narrow).astype(wide)
        want_wide = want.astype(wide)
        if (np.isnan(got_wide) != np.isnan(want_wide)).any():
            return "NaN in other places: %s, not %s" % sample(got, want, np.isnan(got_wide) != np.isnan(want_wide))
        infinite = np.isinf(rounded) | np.isinf(got_wide)
        if ulp is not None and ulp < 0:
            wrong = (np.signbit(got_wide) != np.signbit(rounded)) & (got_wide == 0) & (rounded == 0)
            if wrong.any():
                return "the sign of zero: %s, not %s" % sample(got, want, wrong)
        # A result one step below the largest may round to infinity.
        top = float(ml_dtypes.finfo(narrow).max)
        slack = (norm if ulp is None else max(ulp, 0)) * values.EPSILON[dtype]
        near_top = (np.abs(np.abs(want_wide) / top - 1) < slack) & (np.signbit(got_wide) == np.signbit(want_wide))
        wrong = infinite & (got_wide != rounded) & ~near_top
        if wrong.any():
            return "infinity: %s, not %s" % sample(got, want, wrong)
        finite = np.isfinite(rounded) & np.isfinite(got_wide)
        distance = np.where(finite, np.abs(got_wide - want_wide), 0)
        if ulp is not None:
            exponent = np.floor(np.log2(np.maximum(np.abs(want_wide), float(ml_dtypes.finfo(narrow).smallest_normal))))
            unit = np.exp2(exponent) * values.EPSILON[dtype]
            # Beside numpy, whose value has more digits, half a place is rounding; beside tinygrad nothing is.
            same = got.dtype == want.dtype and ulp <= 0
            allowed = unit * (0 if same else max(ulp, 0) + 0.5 + 2.0**-9)
        else:
            scale = np.max(np.where(finite, np.abs(want_wide), 0), initial=0)
            unit = max(scale, float(ml_dtypes.finfo(narrow).smallest_normal)) * values.EPSILON[dtype]
            allowed = unit * norm
        wrong = finite & (distance > allowed)
        if wrong.any():
            unit_name, most = "ulp" if ulp is not None else "epsilons", np.max(np.where(finite, distance / unit, 0))
            return "%.3g %s off: %s, not %s" % (most, unit_name, *sample(got, want, wrong))
    return ""


def sample(got, want, wrong):
    """The first few elements of both where something is wrong."""
    where = np.flatnonzero(np.broadcast_to(wrong, got.shape))[:3]
    show = lambda values: "[%s]@%s" % (", ".join(str(v) for v in np.ravel(values)[where]), list(where))
    return show(got), show(np.broadcast_to(want, got.shape))


def differ(case, outcome, reference, typed):
    """What is wrong with an outcome beside a reference, or nothing; `typed`: the reference has tinygrad's dtypes."""
    if len(outcome.results) != len(reference.results):
        return "%d results, not %d" % (len(outcome.results), len(reference.results))
    for number, (got, want) in enumerate(zip(outcome.results, reference.results)):
        which = "result %d: " % number if number else ""
        if typed and outcome.dtypes[number] != reference.dtypes[number]:
            return "%sdtype %s, not %s" % (which, outcome.dtypes[number], reference.dtypes[number])
        if got.shape != want.shape:
            return "%sshape %s, not %s" % (which, got.shape, want.shape)
        dtype = dtype_name(outcome.dtypes[number])
        if values.is_float(dtype):
            ulp, norm = case.row.ulp, case.row.norm
            if case.gradient:
                ulp, norm = None, max(norm, 256)
            found = floats_differ(got, want, dtype, ulp, norm)
            if found:
                return which + found
        elif got.dtype.kind in "iub":
            want = want.astype(got.dtype) if want.dtype != got.dtype else want
            if not np.array_equal(got, want):
                return which + "%s, not %s" % sample(got, want, got != want)
        elif got.tolist() != want.tolist():
            return which + "%s, not %s" % (got, want)
    return ""
