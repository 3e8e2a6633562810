"""The table of StableHLO's ops in docs/jax.md: each row is true, and no op is missing that the programs need."""

import unittest

from support_jax import jax

if jax is not None:
    import cases_test
    import stablehlo


@unittest.skipIf(jax is None, "jax 0.9 and 0.10 want Python 3.11")
class StableHlo(unittest.TestCase):
    def test_each_row_is_true(self):
        refused = set(" ".join(cases_test.REFUSED.values()).split())
        for op, _, primitive, rule, group, case in stablehlo.shown():
            with self.subTest(op):
                self.assertNotIn(case, refused)
                self.assertEqual(stablehlo.rule_name(primitive), rule)
                made = [one for row in stablehlo.CASES[group] if row[0] == case for one in stablehlo.equations(row)
                        if one.primitive.name == primitive]  # fmt: skip
                self.assertTrue(any(op in stablehlo.ops_of(one) for one in made), (primitive, case))

    def test_what_programs_need_is_there(self):
        rows = {op: subjects.split(", ") for op, subjects, *_ in stablehlo.shown()}
        needed = stablehlo.needed()
        self.assertEqual({op: subjects for op, subjects in rows.items() if subjects != [""]}, needed)
        self.assertGreaterEqual(len(needed), 43)
        self.assertEqual({subject for subjects in needed.values() for subject in subjects}, set(stablehlo.SUBJECTS))


if __name__ == "__main__":
    unittest.main()
