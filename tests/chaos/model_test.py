"""The model of tests/chaos/model.py: it excuses what it should, and sees what is wrong."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import model
import numpy as np

OLD, NEW = np.arange(8, dtype=np.int32), np.arange(8, dtype=np.int32) + 100


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Buffers(unittest.TestCase):
    def test_what_was_answered_stays(self):
        held = model.Held(7, OLD)
        held.check(OLD)
        held.wrote(NEW)
        held.check(NEW)
        with self.assertRaisesRegex(model.Wrong, r"buffer 7 has \[0 1 2 3\] at \[0\], not \[100 101 102 103\]"):
            held.check(OLD)

    def test_what_was_not_answered_has_happened_or_not(self):
        held = model.Held(7, OLD)
        held.doubt(NEW)
        self.assertTrue(held.doubtful)
        held.check(OLD)
        held.check(NEW)
        held.check(OLD)  # it was only on its way
        half = np.concatenate([NEW[:4], OLD[4:]])
        self.assertFalse(held.explains(half))
        held.doubt(NEW, mixed=True)
        held.check(half)
        half[2] = 5
        with self.assertRaises(model.Wrong):
            held.check(half)

    def test_another_length_is_wrong(self):
        held = model.Held(7, OLD)
        with self.assertRaises(model.Wrong):
            held.check(OLD[:4])
        held.doubt(NEW, mixed=True)
        with self.assertRaises(model.Wrong):
            held.check(OLD[:4])


class Books(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.book = model.Book(self.clock)

    def at(self, now):
        self.clock.now = now

    def test_a_fault_excuses_until_the_next_good_call(self):
        self.assertIsNone(self.book.excuse("a", "UNAVAILABLE", 0))
        self.at(1)
        cut = self.book.begin("cut")
        self.at(2)
        self.assertIs(self.book.excuse("a", "UNAVAILABLE", 0), cut)
        self.assertIsNone(self.book.excuse("a", "COMPILER_FAULT", 0))
        self.book.heal(cut)
        self.at(9)
        self.assertIs(self.book.excuse("a", "UNAVAILABLE", 1.5), cut)  # none has been good since
        self.assertIsNone(self.book.excuse("a", "UNAVAILABLE", 2.5))
        self.assertEqual(cut.failed, {"UNAVAILABLE": 2})

    def test_of_its_tenants_alone(self):
        rotated = self.book.begin("rotate_token", ["a"])
        self.assertIs(self.book.excuse("a", "NOT_AUTHENTICATED", 0), rotated)
        self.assertIsNone(self.book.excuse("b", "NOT_AUTHENTICATED", 0))

    def test_what_allows_nothing_excuses_nothing(self):
        self.book.begin("bad_tenants")
        for code in (*model.LOST, *model.FORGOTTEN, "NOT_AUTHENTICATED", "DEADLINE_PASSED", "INTERNAL_FAULT"):
            self.assertIsNone(self.book.excuse("a", code, 0))

    def test_nothing_excuses_a_fault_of_the_server(self):
        for fault in model.ALLOWED:
            self.book.begin(fault)
        for code in ("INTERNAL_FAULT", "DEADLINE_PASSED", "DEADLINE_EXCEEDED", "OUT_OF_MEMORY", "NOT_ALLOWED", "NEED_GRAPH"):
            self.assertIsNone(self.book.excuse("a", code, 0), code)

    def test_all_have_to_recover(self):
        self.at(1)
        cut = self.book.begin("cut")
        self.at(3)
        self.book.heal(cut)
        self.at(5)
        self.assertFalse(self.book.recovered(cut, [4, 2]))
        self.assertTrue(self.book.recovered(cut, [4, 3.5]))
        self.assertEqual(cut.recovered, 2)
        self.assertEqual(self.book.table(), [model.Row("cut", 1, {}, 2)])


class Limits(unittest.TestCase):
    def test_one_too_many(self):
        quotas = model.Quotas()
        quotas.saw("a", "handles", 10, 10)
        with self.assertRaisesRegex(model.Wrong, "tenant a has 11 of handles, and may have 10"):
            quotas.saw("a", "handles", 10, 11)

    def test_a_lowered_limit_takes_nothing_back(self):
        quotas = model.Quotas()
        quotas.saw("a", "handles", 10, 4)
        quotas.saw("a", "handles", 5, 9)  # they were made before it was lowered
        quotas.saw("a", "handles", 5, 8)
        with self.assertRaises(model.Wrong):
            quotas.saw("a", "handles", 5, 9)

    def test_no_limit_is_none(self):
        quotas = model.Quotas()
        for used in (1, 1 << 40, 3):
            quotas.saw("a", "handles", 0, used)


if __name__ == "__main__":
    unittest.main()
