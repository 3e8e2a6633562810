"""The rows of numpy_cases.py, lax_cases.py and edge_cases.py, by jax and by kiln.jax: none is wrong, few refused."""

import sys
import unittest

from support_jax import JaxTest, jax

if jax is not None:
    import compare
    import edge_cases
    import lax_cases
    import numpy_cases

# What needs primitives that have no rule.
REFUSED = {
    "numpy": "gcd:integers lcm:integers fft.fft",
    "lax": "scatter_apply scipy.special.gammainc scipy.special.zeta random.gamma random.poisson",
    "edges": "",
}


class Cases(JaxTest):
    def check(self, name, cases):
        rows = compare.outcomes(cases)
        print("%s: %s" % (name, compare.counted(rows)), file=sys.stderr)
        self.assertEqual([row for row in rows if row[1] == "wrong"], [])
        self.assertEqual({row[0] for row in rows if row[1] == "refused"}, set(REFUSED[name].split()))

    def test_functions_of_jax_numpy(self):
        self.check("numpy", [case for case in numpy_cases.CASES if case[0] not in numpy_cases.SLOW])

    def test_functions_of_lax_nn_and_random(self):
        self.check("lax", lax_cases.CASES)

    def test_what_lies_at_the_limits(self):
        self.check("edges", edge_cases.CASES)
        with jax.enable_x64(True):
            wide = [compare.outcome(*case[1:]) for case in edge_cases.WIDE]
        self.assertEqual(wide, [("passed", "")] * len(wide))


if __name__ == "__main__":
    unittest.main()
