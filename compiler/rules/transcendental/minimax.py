#!/usr/bin/env python3
"""Derives the polynomials of compiler/rules (exp2.cc, log2.cc, sin.cc, pow.cc), of
compiler/target/llvm/values/vector_math.cc and of client/cpp/special.cc.

  python3 compiler/rules/transcendental/minimax.py [NAME…]

Each row of TABLE approximates a function on an interval by a polynomial whose
greatest weighted error is least (Remez' exchange algorithm, 60 decimal digits).
The weight makes the error relative to what the rule finally returns. Printed:
the coefficients, constant first, rounded to the dtype they are used in, and the
greatest error before and after that rounding, as a power of two.
"""

import decimal
import math
import sys
from decimal import Decimal as D

decimal.getcontext().prec = 80


def pi():
    """Machin: 16 atan(1/5) - 4 atan(1/239)."""

    def atan_inverse(n):
        total, term, k = D(0), D(1) / n, 0
        while abs(term) > D(10) ** -85:
            total += term / (2 * k + 1) * (-1) ** k
            term /= n * n
            k += 1
        return total

    return 16 * atan_inverse(5) - 4 * atan_inverse(239)


LN2 = D(2).ln()
PI = pi()


def series(first, ratio):
    """first + first * ratio(1) + first * ratio(1) * ratio(2) + …"""
    total, term, k = D(0), first, 1
    while abs(term) > D(10) ** -78:
        total += term
        term *= ratio(k)
        k += 1
    return total


def exp2_slope(x):
    """(2^x - 1) / x"""
    return series(LN2, lambda k: x * LN2 / (k + 1))


def log2_slope(x):
    """log2(1 + x) / x"""
    return (1 + x).ln() / (x * LN2) if abs(x) > D(10) ** -25 else (1 - x / 2) / LN2


LOG2E_FLOAT32 = D("1.44269502162933349609375")  # log2(e), rounded to 24 bits


def log2_slope_rest(x):
    """log2(1 + x) / x - log2(e), the latter as float32 has it"""
    return log2_slope(x) - LOG2E_FLOAT32


def atanh_tail(z):
    """(atanh(s) / s - 1 - z / 3) / z^2 of z = s^2"""
    return D(1) / 5 + sum(z**k / (2 * k + 5) for k in range(1, 60))


def sin_tail(z):
    """(sin(x) / x - 1) / x^2 of z = x^2"""
    return series(D(-1) / 6, lambda k: -z / ((2 * k + 2) * (2 * k + 3)))


def cos_tail(z):
    """(cos(x) - 1) / x^2 of z = x^2"""
    return series(D(-1) / 2, lambda k: -z / ((2 * k + 1) * (2 * k + 2)))


def cos_tail4(z):
    """(cos(x) - 1 + x^2 / 2) / x^4 of z = x^2"""
    return series(D(1) / 24, lambda k: -z / ((2 * k + 3) * (2 * k + 4)))


def tanh_tail(z):
    """(tanh(x) / x - 1) / x^2 of z = x^2"""
    if z < D(10) ** -12:
        return D(-1) / 3 + z * 2 / 15 - z * z * 17 / 315
    x = z.sqrt()
    e = (2 * x).exp()
    return ((e - 1) / (e + 1) / x - 1) / z


def erf_slope(z):
    """erf(x) / x of z = x^2"""
    return series(D(1), lambda k: -z * (2 * k - 1) / (k * (2 * k + 1))) * 2 / PI.sqrt()


def erfc(x):
    return 1 - x * erf_slope(x * x)


ROOT = D("0.5").sqrt()
QUARTER = (PI / 4) ** 2 * D("1.0001")
HALF_TURN = (PI / 2) ** 2 * D("1.0001")
HALF = D("0.5001")


class Row:
    def __init__(self, f, low, high, degree, weight, bits):
        self.f, self.low, self.high, self.degree = f, D(low), D(high), degree
        self.weight, self.bits = weight, bits


def exp2_row(degree, bits):
    return Row(exp2_slope, -HALF, HALF, degree, lambda x: abs(x) / (x * LN2).exp(), bits)


def log2_row(f, degree, bits):
    return Row(f, ROOT - 1, 2 * ROOT - 1, degree, lambda x: 1 / log2_slope(x), bits)


def log2_vector_row(degree, bits):
    """Of the significands that AVX-512's VGETMANT gives: from 3/4 on."""
    return Row(log2_slope_rest, D("-0.25"), D("0.5"), degree, lambda x: 1 / log2_slope(x), bits)


def sin_row(degree, bits, high=QUARTER):
    return Row(sin_tail, 0, high, degree, lambda z: z / (1 + z * sin_tail(z)), bits)


def cos_row(degree, bits):
    return Row(cos_tail4, 0, QUARTER, degree, lambda z: z * z / (1 + z * cos_tail(z)), bits)


def erfc_row(high, degree, bits):
    """-log2(erfc(x)) from 1 on; the error is that of erf."""
    return Row(lambda x: -erfc(x).ln() / LN2, 1, high, degree, lambda x: erfc(x) * LN2, bits)


def erf_row(degree, bits):
    return Row(lambda z: erf_slope(z) - 1, 0, D("1.0001"), degree, lambda z: 1 / erf_slope(z), bits)


def tanh_row(degree, bits):
    return Row(tanh_tail, 0, D("0.3026"), degree, lambda z: z / (1 + z * tanh_tail(z)), bits)


TABLE = {
    "exp2 float32": exp2_row(5, 24),
    "exp2 float64": exp2_row(10, 53),
    "log2 float32": log2_row(log2_slope_rest, 9, 24),
    "log2 vector float32": log2_vector_row(9, 24),
    "log2 for pow float32": log2_row(log2_slope, 12, 53),
    "sin vector float32": sin_row(3, 24, HALF_TURN),
    "sin float32": sin_row(2, 24),
    "cos float32": cos_row(2, 24),
    "sin float64": sin_row(5, 53),
    "cos float64": cos_row(5, 53),
    "atanh float64": Row(atanh_tail, 0, D("0.0295"), 6, lambda z: z * z, 53),
    "tanh float32": tanh_row(4, 53),
    "tanh float64": tanh_row(10, 53),
    "erf float32": erf_row(6, 53),
    "erf float64": erf_row(12, 53),
    "erfc float32": erfc_row(4, 6, 24),
    "erfc float64": erfc_row(6, 17, 53),
}


def solve(matrix, right):
    """Gaussian elimination with the greatest pivot."""
    n = len(right)
    rows = [list(row) + [r] for row, r in zip(matrix, right)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(i + 1, n):
            factor = rows[k][i] / rows[i][i]
            for j in range(i, n + 1):
                rows[k][j] -= factor * rows[i][j]
    out = [D(0)] * n
    for i in reversed(range(n)):
        out[i] = (rows[i][n] - sum(rows[i][j] * out[j] for j in range(i + 1, n))) / rows[i][i]
    return out


def horner(coefficients, x):
    total = D(0)
    for c in reversed(list(coefficients)):
        total = total * x + c
    return total


def error(row, coefficients, x):
    return (horner(coefficients, x) - row.f(x)) * row.weight(x)


def remez(row, fixed=()):
    """The coefficients behind `fixed`, which stay; and the greatest error."""
    n = row.degree + 2 - len(fixed)
    middle, half = (row.low + row.high) / 2, (row.high - row.low) / 2
    points = [middle - half * D(math.cos(math.pi * (k + 0.5) / n)) for k in range(n)]
    grid = [row.low + (row.high - row.low) * k / 1000 for k in range(1001)]
    for _ in range(20):
        matrix, right = [], []
        for k, x in enumerate(points):
            w = row.weight(x)
            if abs(w) < D(10) ** -30 or x == 0:
                x += half / 1000
                w = row.weight(x)
            matrix.append([x**j for j in range(len(fixed), row.degree + 1)] + [(-1) ** k / w])
            right.append(row.f(x) - horner(fixed, x))
        solution = solve(matrix, right)
        coefficients, level = list(fixed) + solution[:-1], abs(solution[-1])
        errors = [error(row, coefficients, x) for x in grid]
        # The greatest error of each run of one sign.
        extremes = []
        for x, e in zip(grid, errors):
            if e == 0:
                continue
            if extremes and (e > 0) == (extremes[-1][1] > 0):
                if abs(e) > abs(extremes[-1][1]):
                    extremes[-1] = (x, e)
            else:
                extremes.append((x, e))
        while len(extremes) > n:
            extremes.pop(0 if abs(extremes[0][1]) < abs(extremes[-1][1]) else -1)
        worst = max(abs(e) for e in errors)
        if len(extremes) < n or worst < level * D("1.001"):
            break
        points = [x for x, _ in extremes]
    return coefficients, worst


def rounded(value, bits):
    """To `bits` significant bits, as an exact float64."""
    mantissa, exponent = math.frexp(value)  # a double: enough for 24 bits
    if bits >= 53:
        return float(value)
    return math.ldexp(round(math.ldexp(mantissa, bits)), exponent - bits)


def power(value):
    return f"2^{float(abs(value).ln() / LN2):.1f}"


def main():
    wanted = sys.argv[1:] or TABLE
    for name in wanted:
        row = TABLE[name]
        coefficients, worst = remez(row)
        # Round the constant first and let the others make up for it.
        first = D(rounded(coefficients[0], row.bits))
        used = [D(rounded(c, row.bits)) for c in remez(row, [first])[0]]
        after = max(abs(error(row, used, row.low + (row.high - row.low) * k / 500)) for k in range(501))
        print(f"{name}: error {power(worst)}, rounded {power(after)}")
        print("  " + ", ".join(float(c).hex() for c in used))


if __name__ == "__main__":
    main()
