"""A sample of the operator suite at each level, and that the suite forgets no method and notices a fault."""

import dataclasses
import pathlib
import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest("tinygrad 0.14 wants Python 3.11")

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent.parent.parent / "client" / "python"))

import numpy as np
import tinygrad

import compare
import methods
import rows
import run_ops
import tables

SAMPLE = 120


def outcome(values, dtype="dtypes.float"):
    return rows.Outcome("", [dtype], [np.asarray(values)], 0, {})


def case(**row):
    return rows.Case("kind", rows.Row("x", **row), "4", "float32", False)


class Levels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        options = run_ops.parser().parse_args(["--sample", str(SAMPLE)])
        cls.judged = run_ops.run(options)

    def check(self, level):
        outcomes, wrong = self.judged[level]
        # Some rows are not for every level.
        self.assertGreaterEqual(len(outcomes), SAMPLE * 9 // 10)
        lines = ["%s\n    graph %s: %s" % (name, outcomes[name].key, what) for name, what in wrong.items()]
        self.assertFalse(lines, "%d of %d cases:\n%s" % (len(lines), len(outcomes), "\n".join(lines)))

    def test_tensor_graphs(self):
        self.check("T")
        self.assertEqual([name for name, outcome in self.judged["T"][0].items() if outcome.fallbacks], [])

    def test_kernels_that_tinygrad_split(self):
        self.check("K")

    def test_linear_kernels(self):
        self.check("L")


class Tables(unittest.TestCase):
    def test_every_public_method_has_a_row_or_a_reason(self):
        forgotten, obsolete = methods.missing(tinygrad.Tensor, {case.row for case in tables.every_case()})
        self.assertEqual((forgotten, obsolete), ([], []))

    def test_the_suite_has_its_size_and_no_case_twice(self):
        self.assertGreaterEqual(len(tables.by_name()), 1500)

    def test_a_sample_reaches_every_kind(self):
        cases = list(tables.every_case())
        sample = tables.sample(cases, SAMPLE)
        self.assertEqual({case.kind for case in sample}, {case.kind for case in cases} - {"large"})
        self.assertEqual(sample, tables.sample(cases, SAMPLE))


class Judgement(unittest.TestCase):
    def differ(self, got, want, dtype="dtypes.float", **row):
        return compare.differ(case(**row), outcome(got, dtype), outcome(want, dtype), typed=True)

    def test_units_of_the_last_place(self):
        one = np.float32(1)
        near, far = one + np.float32(2**-23), one + np.float32(2**-20)
        self.assertEqual(self.differ([near], [one], ulp=1), "")
        self.assertIn("ulp off", self.differ([far], [one], ulp=2))
        self.assertIn("not", self.differ([near], [one], ulp=0))

    def test_nan_and_infinity_have_their_places(self):
        self.assertEqual(self.differ([np.nan, np.inf], [np.nan, np.inf]), "")
        self.assertIn("NaN", self.differ([np.nan, 1.0], [1.0, 1.0]))
        self.assertIn("infinity", self.differ([np.inf, 1.0], [-np.inf, 1.0]))
        self.assertIn("infinity", self.differ([np.inf], [3.0]))

    def test_the_sign_of_zero_counts_where_bits_do(self):
        self.assertEqual(self.differ([-0.0], [0.0], ulp=0), "")
        self.assertIn("zero", self.differ([-0.0], [0.0], ulp=-1))

    def test_integers_and_bools_have_no_bounds(self):
        self.assertEqual(self.differ(np.array([1, 2]), np.array([1, 2]), "dtypes.int"), "")
        self.assertIn("not", self.differ(np.array([1, 2]), np.array([1, 3]), "dtypes.int"))
        self.assertIn("not", self.differ(np.array([True]), np.array([False]), "dtypes.bool"))

    def test_shapes_dtypes_and_the_number_of_results(self):
        self.assertIn("shape", self.differ([1.0], [1.0, 1.0]))
        self.assertIn("dtype", compare.differ(case(), outcome([1.0]), outcome([1.0], "dtypes.half"), typed=True))
        none = dataclasses.replace(outcome([1.0]), results=[])
        self.assertIn("results", compare.differ(case(), none, outcome([1.0]), typed=True))

    def test_a_fallback_is_no_pass_at_level_t(self):
        fell = dataclasses.replace(outcome([1.0]), fallbacks={"reason": 1})
        self.assertIn("fell back", run_ops.judge("T", case(), fell, {}, {}))
        self.assertEqual(run_ops.judge("K", case(), fell, {}, {}), "")


if __name__ == "__main__":
    unittest.main()
