"""tanh and erf, for which the IR has no op: compositions good to about 2 ulp.

Near 0 each is x times a polynomial of x², as precise relative to the result as x is;
farther out each is 1 less something small. Narrow floats are computed in float32.
compiler/rules/transcendental/minimax.py derives the coefficients; client/cpp/special.cc has the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Sequence

from kiln.dtypes import float64
from kiln.elementwise import less, multiply, negative, where
from kiln.functions import absolute, exp2, in_float32, reciprocal

if TYPE_CHECKING:
    from kiln.tensor import Tensor

# fmt: off
_TANH_FLOAT32 = (
    -0.3333331753469029, 0.133325852063248, -0.05385220420494075, 0.021071213730085563, -0.006273541466677037,
)
_TANH_FLOAT64 = (
    -0.333333333333333, 0.133333333333266, -0.05396825396374811, 0.021869488385488176, -0.008863232595253215,
    0.003592091966247799, -0.0014555424215313675, 0.0005884426958060281, -0.00023337689516913425,
    8.330958975904401e-05, -1.9490353095389327e-05,
)
_ERF_FLOAT32 = (
    0.12837916566530447, -0.3761262565286826, 0.11283583771468242, -0.02685376427916376, 0.005188247277653851,
    -0.0008009541126502159, 7.851822154557995e-05,
)
_ERF_FLOAT64 = (
    0.1283791670955126, -0.3761263890318375, 0.1128379167095485, -0.026866170645071814, 0.0052239776247722195,
    -0.0008548326978313522, 0.00012055331022998062, -1.492559320360092e-05, 1.6460968332316642e-06,
    -1.6349980891971107e-07, 1.4657599340386919e-08, -1.1364638752156007e-09, 5.943606045088278e-11,
)
_ERFC_FLOAT32 = (
    0.0005103128496557474, 1.6259750127792358, 0.9207650423049927, 0.14865148067474365, -0.03145841136574745,
    0.004240953829139471, -0.000267726369202137,
)
_ERFC_FLOAT64 = (
    7.412888700813831e-07, 1.6278995543018882, 0.9184832548766664, 0.14816799412562318, -0.027393788323649713,
    -0.0005968306225971501, 0.0027686818008475613, -0.0011154463242802983, 0.0001971183597911178,
    2.8111934463476958e-05, -3.248740920564385e-05, 1.2370320556781831e-05, -3.0495488127597714e-06,
    5.329105007673825e-07, -6.623384304070686e-08, 5.60907257681101e-09, -2.913063942186465e-10,
    7.014565285283314e-12,
)
# fmt: on

_TANH_NEAR = 0.55
_TWO_LOG2_E = 2.8853900817779268


def _polynomial(x: "Tensor", coefficients: Sequence[float]) -> "Tensor":
    """c[0] + x * (c[1] + x * (c[2] + …))"""
    total = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        total = total * x + coefficient
    return total


def _odd(x: "Tensor", is_near: "Tensor", near: "Tensor", far: "Tensor") -> "Tensor":
    """`far` for x > 0, and its mirror image."""
    return where(is_near, near, where(less(x, 0), negative(far), far))


@in_float32
def tanh(x: "Tensor") -> "Tensor":
    square = multiply(x, x)
    series = _polynomial(square, _TANH_FLOAT64 if x.dtype is float64 else _TANH_FLOAT32)
    a = absolute(x)
    far = 1 - 2 * reciprocal(1 + exp2(a * _TWO_LOG2_E))
    return _odd(x, less(a, _TANH_NEAR), x * (1 + square * series), far)


@in_float32
def erf(x: "Tensor") -> "Tensor":
    wide = x.dtype is float64
    series = _polynomial(multiply(x, x), _ERF_FLOAT64 if wide else _ERF_FLOAT32)
    a = absolute(x)
    most = 6 if wide else 4
    within = where(a > most, most, a)  # NaN passes
    rest = _polynomial(within, _ERFC_FLOAT64 if wide else _ERFC_FLOAT32)
    return _odd(x, less(a, 1), x + x * series, 1 - exp2(negative(rest)))
