"""Random numbers of families that have parameters: truncated normal, gamma and what is made of it, poisson.

A program cannot try until a number is accepted. Where a method accepts some of its candidates, as many are drawn at
once as leave a chance below 2**-53 that none is good, which is less than that of a number being rounded the other way;
then the result is the family's middle. All is computed in float64, and rounded once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kiln import reduce
from kiln.composed.draws import beside, between, float_kind, normal, split, spread
from kiln.composed.exponential import expm1, log1p
from kiln.composed.factors import held
from kiln.composed.matrices import cholesky
from kiln.composed.special import erf
from kiln.dtypes import float32, float64, int64
from kiln.elementwise import add, astype, clip, equal, greater_equal, less, less_equal, maximum, multiply, where
from kiln.errors import DTypeError, ShapeError
from kiln.functions import detach, exp, floor, log, sqrt
from kiln.movement import broadcast_to, reshape
from kiln.reduce import matmul
from kiln.value import broadcast, shape_of

if TYPE_CHECKING:
    from kiln.tensor import Tensor

# Of Marsaglia and Tsang's candidates 95.1% are accepted or more, of Hörmann's poisson ones 75%, from a mean of 10 on.
_GAMMA_TRIES, _POISSON_TRIES = 13, 27
# Below this mean poisson numbers are counted: more than this many have a chance below 2**-53.
_COUNTED, _MOST_COUNTED = 10.0, 46
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)


# -- normal, between two bounds


def _log_below(x: "Tensor") -> "Tensor":
    """The logarithm of the part of a normal distribution that is below x, up to 0: far out by a continued fraction."""
    near = less(-3.0, x)
    far = -where(near, -3.0, x)
    rest = far
    for step in range(40, 0, -1):
        rest = far + step / rest
    tail = -0.5 * far * far - 0.5 * math.log(2 * math.pi) - log(rest)
    return where(near, log(0.5 + 0.5 * erf(where(near, x, 0.0) * math.sqrt(0.5))), tail)


def _place_of(part: "Tensor") -> "Tensor":
    """x of which `part` is the _log_below, up to log(1/2): Newton's steps, which come from below and do not pass it."""
    x = -sqrt(maximum(-2 * (part + math.log(2)), 0.0))
    for _ in range(6):
        below = _log_below(x)
        x = held(x + (part - below) * exp(below + 0.5 * x * x) * math.sqrt(2 * math.pi))
    return x


def truncated_normal(key: Any, /, lower: Any, upper: Any, shape: Any = None, dtype: Any = float32) -> "Tensor":
    """Of mean 0 and deviation 1 before it is cut: by the inverse of the distribution, in logarithms, so that bounds may
    be as far out as they like. NaN where lower is not below upper."""
    kind = float_kind("truncated_normal", dtype)
    sizes, low, high = spread("truncated_normal", key, shape, lower, upper)
    # The side that has more of it is the negative one: there a part can be small, and precise.
    turned = less(0.0, low + high)
    first, last = where(turned, -high, low), where(turned, -low, high)
    above = less(0.0, last)
    whole = _log_below(where(above, -last, last))
    whole = where(above, log1p(-exp(whole)), whole)  # of what is below `last`
    first_part = _log_below(first)
    u = between(key, sizes)
    part = whole + log(u + (1 - u) * exp(first_part - whole))
    beyond = less(-math.log(2), part)  # x is positive: as much is above it as is below -x
    x = _place_of(where(beyond, log(-expm1(where(beyond, part, -1.0))), part))
    x = clip(where(beyond, -x, x), first, last)
    x = astype(where(turned, -x, x), kind)
    x = clip(x, astype(low, kind), astype(high, kind))
    return where(less(low, high), x, math.nan)


# -- gamma, and what is made of it


def _log_gamma(key: Any, sizes: Any, a: "Tensor") -> "Tensor":
    """Logarithms of gamma numbers; a is of shape `sizes`. Marsaglia and Tsang's: a cube of a normal number's line.

    Which candidate is taken depends on a, so no gradient flows to it: it would be that of another family.
    """
    keys, a = split(key, 3), detach(a)
    tries = (_GAMMA_TRIES, *sizes)
    small = less(a, 1.0)  # then of a + 1, times u ** (1 / a)
    d = where(small, a + 1.0, a) - 1 / 3
    x = normal(keys[0], tries, float64)
    base = 1 + x / sqrt(9 * d)
    rises = less(0.0, base)
    v = where(rises, base, 1.0)
    v = v * v * v
    bound = 0.5 * x * x + d * (1 - v + log(v))
    good = rises & less(log(between(keys[1], tries)), bound)
    candidates = held(where(good, v, 0.0))  # of which 0 is none
    cube = a.graph.full(sizes, 1.0, float64)
    for step in reversed(range(_GAMMA_TRIES)):
        cube = where(equal(candidates[step], 0.0), cube, candidates[step])
    more = log(between(keys[2], sizes)) / where(small, a, 1.0)
    return where(less(a, 0.0), math.nan, log(d * cube) + where(small, more, 0.0))


def gamma(key: Any, /, a: Any, shape: Any = None, dtype: Any = float32) -> "Tensor":
    """Of shape a and scale 1. NaN for a below 0, and 0 for 0. Of 13 candidates each none is accepted with a chance below
    2**-56; then it is a - 1/3."""
    kind = float_kind("gamma", dtype)
    sizes, a = spread("gamma", key, shape, a)
    return astype(exp(_log_gamma(key, sizes, a)), kind)


def beta(key: Any, /, a: Any, b: Any, shape: Any = None, dtype: Any = float32) -> "Tensor":
    """Of parameters a and b: the part that a gamma number of a has of it and one of b."""
    kind = float_kind("beta", dtype)
    sizes, a, b = spread("beta", key, shape, a, b)
    keys = split(key)
    difference = _log_gamma(keys[1], sizes, b) - _log_gamma(keys[0], sizes, a)
    return astype(1 / (1 + exp(difference)), kind)


def dirichlet(key: Any, /, alpha: Any, shape: Any = None, dtype: Any = float32) -> "Tensor":
    """Parts of a whole, along the last axis: gamma numbers of alpha, over their sum."""
    kind = float_kind("dirichlet", dtype)
    x = beside("dirichlet", key, alpha)
    if not x.ndim or x.shape[-1] == 0:
        raise ShapeError("dirichlet: alpha of %s" % (x.shape,), remedy="(…, k), of one element or more")
    sizes, a = spread("dirichlet", key, x.shape if shape is None else (*shape_of(shape), x.shape[-1]), x)
    logs = held(_log_gamma(key, sizes, a))
    parts = held(exp(logs - reduce.max(logs, -1, keepdims=True)))
    return astype(parts / reduce.sum(parts, -1, keepdims=True), kind)


# -- poisson


def _log_factorial(k: "Tensor") -> "Tensor":
    """By Stirling's series, of 8 more where k is small."""
    small = less(k, 8.0)
    z = where(small, k + 9.0, k + 1.0)
    inverse = 1 / z
    square = inverse * inverse
    series = square * 0.0
    for term in reversed(_STIRLING):
        series = series * square + term
    value = (z - 0.5) * log(z) - z + 0.5 * math.log(2 * math.pi) + series * inverse
    product = where(small, k + 1.0, 1.0)
    for step in range(2, 9):
        product = product * where(small, k + step, 1.0)
    return value - log(product)


def poisson(key: Any, /, lam: Any, shape: Any = None, dtype: Any = int64) -> "Tensor":
    """Of mean lam, 0 to 2**52 or so. Below 10 the steps of a process are counted that it takes to pass it, of 46; else
    by Hörmann's transformed rejection, of 27 candidates, of which none is accepted with a chance below 2**-53."""
    sizes, lam = spread("poisson", key, shape, lam)
    keys = split(key, 3)
    few = less(lam, _COUNTED)
    waits = held(-log(between(keys[0], (_MOST_COUNTED, *sizes))))
    passed = waits[0]
    counted = astype(less_equal(passed, lam), int64)
    for step in range(1, _MOST_COUNTED):
        passed = passed + waits[step]
        counted = counted + astype(less_equal(passed, lam), int64)
    return astype(where(few, counted, _many(keys, sizes, where(few, _COUNTED, lam))), dtype)


def _many(keys: "Tensor", sizes: Any, lam: "Tensor") -> "Tensor":
    """Of a mean of 10 or more: a ratio of two even numbers, moved to where the family is, and tried."""
    tries = (_POISSON_TRIES, *sizes)
    b = 0.931 + 2.53 * sqrt(lam)
    a = 0.02483 * b - 0.059
    scale = 1.1239 + 1.1328 / (b - 3.4)
    u = between(keys[1], tries) - 0.5
    v = between(keys[2], tries)
    side = 0.5 - where(less(u, 0.0), -u, u)
    k = floor((2 * a / side + b) * u + lam + 0.43)
    sound = greater_equal(k, 0.0)
    k = where(sound, k, 0.0)
    wanted = k * log(lam) - lam - _log_factorial(k)
    good = sound & less_equal(log(v * scale / (a / (side * side) + b)), wanted)
    candidates = held(where(good, k, -1.0))
    found = floor(lam)
    for step in reversed(range(_POISSON_TRIES)):
        found = where(less(candidates[step], 0.0), found, candidates[step])
    return astype(found, int64)


# -- several that go together


def multivariate_normal(key: Any, /, mean: Any, cov: Any, shape: Any = None, dtype: Any = float32) -> "Tensor":
    """Of a mean, (…, n), and a covariance, (…, n, n): normal numbers times its cholesky factor. NaN from the first
    variable on at which the covariance is not positive definite."""
    kind = float_kind("multivariate_normal", dtype)
    wide = float64 if kind is float64 else float32
    center, spreads = (beside("multivariate_normal", key, x) for x in (mean, cov))
    if not center.ndim or spreads.ndim < 2 or spreads.shape[-2:] != (center.shape[-1],) * 2:
        raise ShapeError("multivariate_normal: a mean of %s and a covariance of %s" % (center.shape, spreads.shape),
                         remedy="(…, n) and (…, n, n)")  # fmt: skip
    if not (center.dtype.is_float or center.dtype.is_integer):
        raise DTypeError("multivariate_normal: a mean of %s" % center.dtype.name)
    together = broadcast("multivariate_normal", center.shape[:-1], spreads.shape[:-2])
    sizes = (*(together if shape is None else shape_of(shape)), center.shape[-1])
    factor = cholesky(astype(spreads, wide))
    drawn = normal(key, (*sizes, 1), wide)
    moved = reshape(matmul(factor, drawn), sizes)
    return astype(add(broadcast_to(astype(center, wide), sizes), moved), kind)
