"""StableHLO's ops, each with a primitive of jax's that lowers to it, Kiln's rule for that, and a case that tries it.

python tests/python/jax/stablehlo.py --write      # puts the table into docs/jax.md

Programs come to a compiler as StableHLO, and to kiln.jax before that, as primitives; the table joins the two. It has
every op that a case lowers to (numpy_cases.py, lax_cases.py, edge_cases.py), and says which of seven kinds of programs
need it. stablehlo_test.py holds it true, row by row.
"""

import pathlib
import re
import sys

from support_jax import jax, support

import edge_cases
import jax.numpy as jnp
import lax_cases
import models
import numpy_cases
import numpy as np
from jax import lax
from jax.extend import core
from kiln.jax.rules import RULES

PAGE = support.ROOT / "docs" / "jax.md"
TABLE = re.compile(r"(?<=<!-- stablehlo -->\n).*?(?=<!-- /stablehlo -->)", re.S)
OP = re.compile(r'^\s*(?:%[\w:#, %]+ = )?"?(?:stablehlo|chlo)\.(\w+)', re.M)
ROW = re.compile(r"^\| `(\w+)` \| ([\w, ]*) \| `(\w+)` \| `([\w.]+)` \| (\w+): `(.+)` \|$", re.M)
# By how they are told apart in the table; an earlier one is taken where several have a case.
CASES = {"lax": lax_cases.CASES, "numpy": [row for row in numpy_cases.CASES if row[0] not in numpy_cases.SLOW],
         "edges": edge_cases.CASES}  # fmt: skip
# What ends a region, and what is no operation: constants of a jaxpr need no rule.
NONE = {"return", "constant"}

KEY = jax.random.key_data(jax.random.key(1))
ROWS, FLAT, PLACES = np.ones((4, 5), np.float32), np.ones(9, np.float32), np.int32([3, 0, 3])
QUERY = np.ones((1, 4, 2, 8), np.float32)


def model(name):
    """A whole training step, and its arguments."""
    (step, begin), weights, make = models.MODELS[name]
    return step, (begin(weights), models.batches(make, 1)[0])


def sloped(function, *args):
    """A function and its gradient with respect to the first argument."""
    total = lambda *args: jnp.sum(function(*args))  # noqa: E731
    return jax.value_and_grad(total), args


def draws(key):
    first, second, third = jax.random.split(key, 3)
    yield jax.random.uniform(first, (3,)), jax.random.normal(second, (3,)), jax.random.randint(third, (3,), 0, 9)
    yield jax.random.bernoulli(first, 0.3, (3,)), jax.random.permutation(second, 9), jax.random.categorical(third, ROWS)
    yield jax.random.gumbel(first, (3,)), jax.random.truncated_normal(second, -1.0, 1.0, (3,))
    yield jax.random.choice(jax.random.fold_in(third, 7), 9, (5,)), jax.random.bits(first, (3,), jnp.uint8)


# What a frontend is for: functions, and their arguments.
SUBJECTS = {
    "MLPs": [model("mlp"), sloped(lambda x: jax.nn.gelu(x) + jax.nn.sigmoid(x) + jnp.log1p(jnp.exp(x)), ROWS)],
    "attention": [model("transformer"), sloped(lambda q: jax.nn.dot_product_attention(q, q, q, is_causal=True), QUERY)],
    "convolutions": [model("cnn"), sloped(lambda x: lax.reduce_window(
        x, 0.0, lax.add, (1, 1, 2, 2), (1, 1, 2, 2), "SAME"), np.ones((1, 2, 5, 5), np.float32))],
    "scans": [
        sloped(lambda x: lax.scan(lambda c, y: (jnp.tanh(c + y), c * y), jnp.zeros(5), x)[1], ROWS),
        (lambda x: lax.fori_loop(0, 5, lambda i, c: c * 0.5 + i, x), (FLAT,)),
        sloped(lambda x: jnp.cumsum(x) + jnp.cumprod(x) + lax.associative_scan(jnp.maximum, x), FLAT),
        (lambda i, x: lax.cond(i, jnp.sin, jnp.cos, x), (np.bool_(True), FLAT)),
    ],
    "sorts": [sloped(jnp.sort, FLAT), (lambda x: (jnp.argsort(x), jnp.median(x), lax.top_k(x, 2), jnp.argmax(x)), (FLAT,)),
              (lambda x, i: lax.sort((i, x), num_keys=2), (PLACES.astype(np.float32), PLACES))],
    "random": [(lambda key: list(draws(key)), (KEY,))],
    "gathers": [
        sloped(lambda x, i: x[i] + jnp.take_along_axis(x, i[:, None], 0), ROWS, PLACES),
        (lambda x, i: (x.at[i].set(1.0), x.at[i].add(1.0), x.at[i].max(2.0), x.at[i].mul(2.0)), (FLAT, PLACES)),
        sloped(lambda x, i: lax.dynamic_update_slice(x, lax.dynamic_slice(x, (i, 0), (2, 2)) * 2, (i, i)), ROWS, np.int32(1)),
    ],
}  # fmt: skip


def ops(function, args):
    """The ops that a function lowers to."""
    return set(OP.findall(jax.jit(function).lower(*args).as_text())) - NONE


def within(jaxpr):
    """Its equations, and those of jaxprs within them."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for one in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(one, "jaxpr", one)
                if hasattr(inner, "eqns"):
                    yield from within(inner)


def equations(case):
    return list(within(jax.make_jaxpr(case[1])(*case[2]).jaxpr))


def ops_of(equation):
    """The ops that one equation lowers to by itself."""
    ins = list(dict.fromkeys(one for one in equation.invars if not isinstance(one, core.Literal)))

    def alone(*values):
        known = dict(zip(ins, values))
        operands = [one.val if isinstance(one, core.Literal) else known[one] for one in equation.invars]
        return equation.primitive.bind(*operands, **equation.params)

    return ops(alone, [jax.ShapeDtypeStruct(one.aval.shape, one.aval.dtype) for one in ins])


def rule_name(primitive):
    """The rule's file and function."""
    rule = RULES[primitive].rule
    file = rule.__code__.co_filename
    return "%s.%s" % (pathlib.PurePath(file).stem, rule.__name__) if rule.__name__.isidentifier() else pathlib.PurePath(file).name


def needed():
    """By op, the kinds of programs that have it."""
    found = {}
    for subject, programs in SUBJECTS.items():
        for op in set().union(*(ops(*program) for program in programs)):
            found.setdefault(op, []).append(subject)
    return found


def joined(refused):
    """By op, (primitive, case) of the primitive that lowers to the fewest ops with it, in the shortest case that has it.

    `refused` are the names of cases that do not pass. A call of another jaxpr has no ops of its own."""
    best, seen = {}, {}
    for group, cases in CASES.items():
        for case in cases:
            if case[0] in refused:
                continue
            inside = equations(case)
            for equation in inside:
                name = equation.primitive.name
                kind = (name, str(equation.params)[:400], *(str(one.aval) for one in equation.invars))
                if name not in RULES or "call_jaxpr" in equation.params or kind in seen and seen[kind] <= len(inside):
                    continue
                seen[kind] = len(inside)
                made = ops_of(equation)
                for op in made:
                    row = (len(made), len(inside)), name, "%s: `%s`" % (group, case[0])
                    if op not in best or row[0] < best[op][0]:
                        best[op] = row
    return {op: row[1:] for op, row in best.items()}


def table(refused):
    wanted, rows = needed(), joined(refused)
    lines = ["| op | in | primitive | rule | case |", "|---|---|---|---|---|"]
    lines += ["| `%s` | %s | `%s` | `%s` | %s |" % (op, ", ".join(wanted.get(op, ())), rows[op][0], rule_name(rows[op][0]), rows[op][1])
              for op in sorted(rows)]  # fmt: skip
    return "\n".join(lines) + "\n"


def shown():
    """The page's rows: op, the kinds of programs, primitive, rule, list of cases, case."""
    return ROW.findall(TABLE.search(PAGE.read_text()).group())


if __name__ == "__main__":
    import cases_test

    made = table(set(" ".join(cases_test.REFUSED.values()).split()))
    print(made)
    if "--write" in sys.argv[1:]:
        PAGE.write_text(TABLE.sub(lambda _: made, PAGE.read_text()))
