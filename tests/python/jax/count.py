"""Counts what of jax passes on a Kiln server, and writes it into docs/jax.md.

KILN_KILND=… python tests/python/jax/count.py [--write]
"""

import datetime
import re
import sys

from support_jax import jax, support

import compare
import kiln
import lax_cases
import numpy_cases
from kiln.jax.rules import RULES

PAGE = support.ROOT / "docs" / "jax.md"
TABLE = re.compile(r"(?<=<!-- count -->\n).*?(?=<!-- /count -->)", re.S)


def functions(rows):
    """By function, the worst of its cases: passed, refused, wrong."""
    found = {"passed": [], "refused": [], "wrong": []}
    for name, how in compare.worst(rows).items():
        found[how].append(name)
    return found


def table(parts):
    lines = [
        "%s, jax %s, `python tests/python/jax/count.py --write`:"
        % (datetime.date.today().isoformat(), jax.__version__),
        "",
    ]
    lines += ["| functions of | passed | refused | wrong | refused are |", "|---|---|---|---|---|"]
    for name, rows in parts:
        found = functions(rows)
        lines.append("| %s | %d | %d | %d | %s |" % (name, *(len(found[how]) for how in ("passed", "refused", "wrong")),
                                                     ", ".join("`%s`" % one for one in found["refused"])))  # fmt: skip
    lines += ["", "%d names of primitives have a rule." % len(RULES), ""]
    return "\n".join(lines)


def main():
    server = support.Server("--cpu_devices=4")
    try:
        kiln.connect(server.address)
        groups = [("`jax.numpy`", numpy_cases.CASES), ("`jax.lax`, with windows, indexing and control flow", [
            *lax_cases.PLAIN, *lax_cases.WINDOWS, *lax_cases.INDEXING, *lax_cases.CONTROL]),
            ("`jax.nn`, `jax.scipy`, `jax.image`", lax_cases.NETS), ("`jax.random`", lax_cases.RANDOM)]  # fmt: skip
        parts = []
        for name, cases in groups:
            rows = compare.outcomes(cases)
            parts.append((name, rows))
            print("%s: %s" % (name, compare.counted(rows)))
            for row in rows:
                if row[1] == "wrong":
                    print("  wrong: %s: %s" % (row[0], row[2]))
        if "--write" in sys.argv[1:]:
            PAGE.write_text(TABLE.sub(lambda _: table(parts), PAGE.read_text()))
        return 1 if any(row[1] == "wrong" for _, rows in parts for row in rows) else 0
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
