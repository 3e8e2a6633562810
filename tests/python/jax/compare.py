"""Runs cases both ways, by jax on this machine's CPU and by kiln.jax on a server, and compares."""

import concurrent.futures

import jax
import numpy as np

import kiln
import kiln.jax

TOLERANCE = 1e-5


def difference(ours, theirs):
    """What differs between two results, or None: integers are equal, floats within 1e-5, of the greatest above 1."""
    left, form = jax.tree_util.tree_flatten(ours)
    right, expected = jax.tree_util.tree_flatten(theirs)
    if form != expected:
        return "a %s for a %s" % (form, expected)
    for a, b in zip(left, right):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype != b.dtype or a.shape != b.shape:
            return "%s %s for %s %s" % (a.dtype, a.shape, b.dtype, b.shape)
        if not jax.dtypes.issubdtype(b.dtype, np.floating):
            if not np.array_equal(a, b):
                return "%s for %s" % (a.ravel()[:8], b.ravel()[:8])
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        finite = np.isfinite(b)
        if not np.array_equal(np.isfinite(a), finite) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            return "%s for %s" % (a.ravel()[:8], b.ravel()[:8])
        room = TOLERANCE * max(1.0, float(np.abs(b[finite]).max(initial=0.0)))
        if np.abs(a[finite] - b[finite]).max(initial=0.0) > room:
            return "%s for %s, %.1e apart" % (a.ravel()[:8], b.ravel()[:8], np.abs(a[finite] - b[finite]).max())
    return None


def outcome(function, arguments):
    """("passed", ""), ("refused", why) or ("wrong", what)."""
    try:
        ours = kiln.jax.jit(function)(*arguments)
    except kiln.Unimplemented as error:
        return "refused", error.message
    apart = difference(ours, jax.jit(function)(*arguments))
    return ("wrong", apart) if apart else ("passed", "")


def outcomes(cases):
    """(name, outcome, why) of each case, in their order; two at a time, since both sides compile."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda case: outcome(*case[1:]), cases)
        return [(case[0], *row) for case, row in zip(cases, found)]


def worst(rows):
    """By function, how the worst of its cases ended."""
    found, order = {}, ("passed", "refused", "wrong")
    for name, how, _ in rows:
        name = name.partition(":")[0]
        found[name] = max(found.get(name, how), how, key=order.index)
    return found


def counted(rows):
    """ "n passed, m refused, k wrong", of cases and of functions."""
    said = []
    for what, found in (("cases", [row[1] for row in rows]), ("functions", list(worst(rows).values()))):
        said.append(
            "of %d %s " % (len(found), what)
            + ", ".join("%d %s" % (found.count(how), how) for how in ("passed", "refused", "wrong"))
        )
    return "; ".join(said)
