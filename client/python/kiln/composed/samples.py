"""What is told of samples: quantiles, histograms, covariance; and functions of tables, such as interp.

What has a number of its own that a program must know before it runs, as of bins, has it as an argument.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Tuple

import numpy as np

from kiln import reduce
from kiln.composed.chosen import take_along_axis
from kiln.composed.division import floor, ceil, round as rounded
from kiln.composed.operands import one
from kiln.composed.ordering import searchsorted, sort
from kiln.composed.rearranging import concat, flip_ as flip
from kiln.composed.signs import isfinite
from kiln.composed.windows import windows
from kiln.dims import Dim
from kiln.dtypes import bool_, float64, int64
from kiln.elementwise import astype, clip, common, equal, greater, isnan, less, lift, meet, where
from kiln.errors import InvalidArgument, ShapeError
from kiln.functions import detach, sqrt
from kiln.indexing import take
from kiln.movement import broadcast_to, moveaxis, pad, reshape, shrink
from kiln.promotion import float_of, promote
from kiln.value import Value, axes_of, axis_of, count, emit

if TYPE_CHECKING:
    from kiln.tensor import Tensor

# Elements that each is compared with at once; more are sorted, and searched in.
_FEW = 64
# The greatest number of what numpy's finfo does not know.
_GREATEST = {"bfloat16": 255 * 2.0**120}


def _held(x: "Tensor") -> "Tensor":
    """Held in memory: else each of many would compute it again."""
    return emit("CONTIGUOUS", (x,), x.dtype, x.shape)


# -- quantiles


def quantile(x: "Tensor", q: Any, /, axis: Any = None, *, keepdims: bool = False, method: str = "linear") -> "Tensor":
    """Below which a part q of the elements is, 0 to 1; q's axes are in front. NaN, where one is among the elements.

    Between two elements it is on the line through them; method "lower", "higher", "nearest" or "midpoint" chooses.
    """
    x = one("quantile", x)
    if method not in ("linear", "lower", "higher", "nearest", "midpoint"):
        raise InvalidArgument("quantile: no method %r" % (method,), code="BAD_ARGUMENT",
                              remedy="linear, lower, higher, nearest, midpoint")  # fmt: skip
    if not isinstance(q, Value) and not np.all((np.asarray(q) >= 0) & (np.asarray(q) <= 1)):
        raise InvalidArgument("quantile: %s is no part of a whole" % (q,), code="BAD_ARGUMENT",
                              remedy="0 to 1; of percentile 0 to 100")  # fmt: skip
    part = q if isinstance(q, Value) else x.graph.constant(np.asarray(q, np.float64))
    axes = axes_of("quantile", axis, x.ndim)
    others = [at for at in range(x.ndim) if at not in axes]
    size: Any = count([x.shape[at] for at in axes])
    if isinstance(size, Dim) or size == 0:
        raise ShapeError("quantile: of %s elements" % size, code="BAD_ARGUMENT")
    if method not in ("lower", "higher", "nearest") or x.dtype is bool_:
        x = astype(x, float_of(x.dtype))
    rows = reshape(x.transpose([*others, *axes]), (*(x.shape[at] for at in others), size))
    last = len(others)
    lead = rows.shape[:-1]
    ordered = _held(sort(rows, last))
    place = reshape(astype(part, float64), (part.size,)) * float(size - 1)
    below = floor(place)
    if method == "nearest":
        below = rounded(place)  # half to the even one
    elif method == "higher":
        below = ceil(place)
    found = take(ordered, astype(below, int64), last)
    if method in ("linear", "midpoint"):
        kind = found.dtype if not part.ndim and not isinstance(q, Value) else promote(found.dtype, part.dtype)
        above = take(ordered, astype(ceil(place), int64), last)
        step = astype(where(equal(above, found), x.graph.scalar(0, found.dtype), above - found), kind)  # of two infinities
        found, above = astype(found, kind), astype(above, kind)
        share = astype(place - below if method == "linear" else where(less(below, place), 0.5, 0.0), kind)
        found = where(less(share, 0.5), found + step * share, above - step * (1.0 - share))
    if found.dtype.is_float:
        found = where(reshape(reduce.any(isnan(rows), last), (*lead, 1)), math.nan, found)
    kept = tuple(1 if at in axes else extent for at, extent in enumerate(x.shape)) if keepdims else lead
    return reshape(moveaxis(found, last, 0), (*part.shape, *kept))


def percentile(x: "Tensor", q: Any, /, axis: Any = None, *, keepdims: bool = False, method: str = "linear") -> "Tensor":
    """As quantile, of q per cent."""
    if not isinstance(q, Value) and not np.all((np.asarray(q) >= 0) & (np.asarray(q) <= 100)):
        raise InvalidArgument("percentile: %s per cent are no part of a whole" % (q,), code="BAD_ARGUMENT",
                              remedy="0 to 100")  # fmt: skip
    part = astype(q, float64) / 100.0 if isinstance(q, Value) else np.true_divide(np.asarray(q, np.float64), 100)
    return quantile(x, part, axis, keepdims=keepdims, method=method)


# -- counting


def counted(places: "Tensor", size: int) -> "Tensor":
    """How often each of 0 to size - 1 is among the places; others count nowhere."""
    return reduce.reduce("ADD", astype(_where_counted(places, size), int64), (0,), False)


def counted_by_weight(places: "Tensor", weights: Any, size: int) -> "Tensor":
    """What they weigh together, in float64."""
    places, share = lift("bincount", places, weights)
    if share.shape != places.shape:
        raise ShapeError("weights of %s for %s" % (share.shape, places.shape))
    share = reshape(astype(share, float64), (share.size, 1))
    return reduce.reduce("ADD", where(_where_counted(places, size), share, 0.0), (0,), False)


def _where_counted(places: "Tensor", size: int) -> "Tensor":
    flat = _held(astype(reshape(places, (places.size, 1)), int64))
    return equal(flat, reshape(places.graph.arange(size, int64), (1, size)))


def histogram_bin_edges(a: "Tensor", /, bins: Any = 10, range: Any = None) -> "Tensor":
    """The bounds of so many bins of one width, from the least element to the greatest, or over a range (from, to)."""
    a = one("histogram_bin_edges", a)
    kind = float_of(a.dtype)
    if isinstance(bins, (Value, np.ndarray, list, tuple)):
        edges = bins if isinstance(bins, Value) else a.graph.constant(np.asarray(bins))
        if edges.ndim != 1:
            raise ShapeError("histogram: bounds of bins with shape %s" % (edges.shape,))
        return edges
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or bins < 1:
        raise InvalidArgument("histogram: bins is a number, 1 or more, or bounds, not %r" % (bins,), code="BAD_ARGUMENT")
    if range is not None:
        begin, end = map(float, range)
        if not (math.isfinite(begin) and math.isfinite(end) and begin <= end):
            raise InvalidArgument("histogram: no range %r" % (range,), code="BAD_ARGUMENT")
        begin, end = (begin - 0.5, end + 0.5) if begin == end else (begin, end)
        return a.graph.constant(np.linspace(begin, end, int(bins) + 1, dtype=kind.numpy))
    flat = astype(reshape(a, (a.size,)), kind)
    low, high = (reduce.min(flat), reduce.max(flat)) if a.size else (a.graph.scalar(0, kind), a.graph.scalar(1, kind))
    flat_range = equal(low, high)
    low, high = where(flat_range, low - 0.5, low), where(flat_range, high + 0.5, high)
    number = a.graph.arange(int(bins) + 1, int64)
    between = _held(astype(number, kind) * ((high - low) / float(bins))) + low  # two roundings, as numpy's
    return _held(where(equal(number, int(bins)), high, between))


def histogram(
    a: "Tensor", /, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> "Tuple[Tensor, Tensor]":
    """(how many elements, or what weight of them, each bin has, the bins' bounds); with density the whole is 1.

    A bin has its lower bound, and the last one both.
    """
    a = one("histogram", a)
    edges = histogram_bin_edges(a, bins, range)
    size: Any = edges.shape[0] - 1
    x, bounds = meet("histogram", reshape(a, (a.size,)), edges)
    bounds = _held(bounds)
    place = searchsorted(bounds, x, side="right") - 1
    place = where(equal(x, shrink(bounds, [(size, size + 1)])), size - 1, place)
    if weights is None:
        found = counted(place, size)
    else:
        _, share = lift("histogram", a, weights)
        found = counted_by_weight(place, reshape(share, (share.size,)), size)
    if density:
        widths = astype(shrink(bounds, [(1, size + 1)]) - shrink(bounds, [(0, size)]), float64)
        found = astype(found, float64) / widths / astype(reduce.sum(found), float64)
    return found, edges


def digitize(x: "Tensor", bins: "Tensor", /, right: bool = False) -> "Tensor":
    """Between which of the bounds each element is; bounds rise, or fall. With right=True a bin has its upper bound."""
    x, edges = lift("digitize", x, bins)
    side = "left" if right else "right"
    size: Any = edges.shape[0]
    rising = searchsorted(edges, x, side=side)
    if size < 2:
        return rising
    falls = less(shrink(edges, [(size - 1, size)]), shrink(edges, [(0, 1)]))
    falling = size - searchsorted(flip(edges), x, side=side)
    return where(broadcast_to(reshape(falls, (1,) * x.ndim), x.shape), falling, rising)


def isin(
    element: "Tensor", test_elements: "Tensor", /, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> "Tensor":
    """Whether each element is among the others. `assume_unique` and `kind` change nothing."""
    x, others = meet("isin", element, test_elements)
    size: Any = others.size
    others = reshape(others, (size,))
    if size == 0:
        found = x.graph.full(x.shape, False, bool_)
    elif size <= _FEW:
        found = reduce.any(equal(reshape(x, (*x.shape, 1)), others), -1)
    else:
        ordered = _held(sort(others))
        place = searchsorted(ordered, x)
        found = equal(take(ordered, where(less(place, size), place, size - 1), 0), x)
    return equal(found, False) if invert else found


# -- tables


def interp(x: "Tensor", xp: "Tensor", fp: "Tensor", /, left: Any = None, right: Any = None) -> "Tensor":
    """On the lines between points (xp, fp), where xp rises; beyond them `left` and `right`, or the ends. Always float64."""
    lifted = lift("interp", x, xp, fp)
    graph = next(one_.graph for one_ in lifted if isinstance(one_, Value))
    x, at, values = (one_ if isinstance(one_, Value) else graph.constant(np.float64(one_)) for one_ in lifted)
    if at.ndim != 1 or at.shape != values.shape or not at.shape[0]:
        raise ShapeError("interp: points of %s and %s" % (at.shape, values.shape), remedy="two rows of one size")
    x, at, values = (astype(one_, float64) for one_ in (x, at, values))
    size: Any = at.shape[0]
    first, last = reshape(shrink(values, [(0, 1)]), ()), reshape(shrink(values, [(size - 1, size)]), ())
    if size > 1:
        place = _held(clip(searchsorted(detach(at), detach(x), side="right") - 1, 0, size - 2))
        x0, y0, x1, y1 = take(at, place, 0), take(values, place, 0), take(at, place + 1, 0), take(values, place + 1, 0)
        found = (y1 - y0) / (x1 - x0) * (x - x0) + y0
    else:
        found = broadcast_to(last, x.shape)
    low, high = reshape(shrink(at, [(0, 1)]), ()), reshape(shrink(at, [(size - 1, size)]), ())
    found = where(equal(x, high), last, found)
    found = where(greater(x, high), last if right is None else float(right), found)
    found = where(less(x, low), first if left is None else float(left), found)
    return where(isnan(x), x, found)


def trapezoid(y: "Tensor", /, x: Any = None, dx: float = 1.0, axis: int = -1) -> "Tensor":
    """The area under lines through the elements along an axis, at the places x, or dx apart."""
    y = one("trapezoid", y)
    y = y if y.dtype.is_float else astype(y, float64)
    at = axis_of("trapezoid", axis, y.ndim)
    rows = moveaxis(y, at, y.ndim - 1)
    size: Any = rows.shape[-1]
    steps: Any = dx
    if x is not None:
        places = one("trapezoid", x if isinstance(x, Value) else y.graph.constant(x))
        places = places if places.ndim == 1 else moveaxis(places, at, y.ndim - 1)
        steps = places[..., 1:] - places[..., : max(size - 1, 0)]
    return reduce.sum((rows[..., 1:] + rows[..., : max(size - 1, 0)]) * steps / 2.0, -1)


# -- sums of products


def cov(m: "Tensor", /, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None) -> "Tensor":
    """How variables vary together: of rows, each a variable, or of columns with rowvar=False. Always float64."""
    rows = _variables("cov", m, rowvar)
    if y is not None:
        rows = concat([rows, _variables("cov", y if isinstance(y, Value) else rows.graph.constant(y), rowvar)], 0)
    size: Any = rows.shape[1]
    less_by = (0 if bias else 1) if ddof is None else ddof
    rows = _held(rows - reduce.mean(rows, 1, keepdims=True))
    products = reduce.matmul(rows, rows.T)
    found = products / float(size - less_by) if size > less_by else products * math.nan
    return reshape(found, ()) if found.size == 1 else found


def _variables(name: str, x: Any, rowvar: bool) -> "Tensor":
    x = one(name, x)
    if x.ndim > 2:
        raise ShapeError("%s: of a tensor of rank %d" % (name, x.ndim), code="BAD_ARGUMENT")
    x = astype(x, float64)
    if x.ndim < 2:
        return reshape(x, (1, x.size))
    return x if rowvar else x.T


def corrcoef(x: "Tensor", /, y: Any = None, rowvar: bool = True) -> "Tensor":
    """cov, over the square roots of both variables' variances: -1 to 1."""
    c = cov(x, y, rowvar)
    if not c.ndim:
        return c / c
    size = c.shape[0]
    numbers = c.graph.arange(size, int64)
    eye = equal(reshape(numbers, (size, 1)), reshape(numbers, (1, size)))
    spread = sqrt(reduce.sum(where(eye, c, 0.0), 1))
    return clip(c / reshape(spread, (size, 1)) / reshape(spread, (1, size)), -1.0, 1.0)


def convolve(a: "Tensor", v: "Tensor", /, mode: str = "full") -> "Tensor":
    """Sums of products of a with v turned round, at all places where they meet.

    "same": at as many as the longer has elements; "valid": where the shorter is all within it.
    """
    return _convolved("convolve", a, v, mode, lambda size: (size - 1) // 2)


def correlate(a: "Tensor", v: "Tensor", /, mode: str = "valid") -> "Tensor":
    """The same with v as it is."""
    x, y = lift("correlate", a, v)
    longer = y.ndim == 1 and x.ndim == 1 and y.size > x.size  # type: ignore[operator]
    return _convolved("correlate", x, flip(y), mode, (lambda size: size // 2) if longer else (lambda size: (size - 1) // 2))


def _convolved(name: str, a: Any, v: Any, mode: str, begin: Any) -> "Tensor":
    if mode not in ("full", "same", "valid"):
        raise InvalidArgument("%s: a mode is full, same or valid, not %r" % (name, mode), code="BAD_ARGUMENT")
    values = lift(name, a, v)
    kind = common(values)
    x, y = (astype(value, kind) for value in values)
    if x.ndim > 1 or y.ndim > 1 or not x.size or not y.size:
        raise ShapeError("%s: of %s and %s" % (name, x.shape, y.shape), remedy="each of one axis, and not empty")
    x, y = reshape(x, (x.size,)), reshape(y, (y.size,))
    if y.size > x.size:  # type: ignore[operator]
        x, y = y, x
    size, short = x.shape[0], y.shape[0]
    first = {"full": 0, "same": begin(short), "valid": short - 1}[mode]  # of the places where they meet at all
    long: Any = {"full": size + short - 1, "same": size, "valid": size - short + 1}[mode]  # type: ignore[operator]
    around = pad(x, [(short - 1, short - 1)])
    part = shrink(around, [(first, first + long + short - 1)])
    return reduce.reduce("ADD", windows(part, 0, short) * flip(y), (1,), False)


def vdot(a: "Tensor", b: "Tensor", /) -> "Tensor":
    """The sum of products of all elements of both."""
    x, y = lift("vdot", a, b)
    return reduce.matmul(reshape(x, (x.size,)), reshape(y, (y.size,)))


def nan_to_num(x: "Tensor", /, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> "Tensor":
    """x with a number for NaN, and for infinities the greatest and the least that there are, or what is given."""
    x = one("nan_to_num", x)
    if not x.dtype.is_float:
        return x
    greatest = _GREATEST.get(x.dtype.name) or float(np.finfo(x.dtype.numpy).max)
    high, low = greatest if posinf is None else posinf, -greatest if neginf is None else neginf
    bound = where(greater(x, 0.0), x.graph.scalar(high, x.dtype), x.graph.scalar(low, x.dtype))
    return where(isnan(x), nan, where(isfinite(x), x, bound))
