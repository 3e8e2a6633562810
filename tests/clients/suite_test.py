"""The suite itself: what it says of an adapter that ends, or says nothing, and that lives of the fuzz repeat themselves."""

import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import fuzz
import suite


def program(text):
    return [sys.executable, "-c", text]


class Adapters(unittest.TestCase):
    def adapter(self, text):
        made = suite.Adapter(program(text))
        self.addCleanup(made.close)
        return made

    def test_one_that_ends_is_said_to_have_ended_each_time(self):
        """What has closed its output need not be gone yet: it may still wait for threads of its own."""
        adapter = self.adapter("import os, sys, time; os.close(1); sys.stdin.read()")
        for name in ("run", "reset", "reset"):
            with self.assertRaises(suite.Failed) as raised:
                adapter.ask({"do": name})
            self.assertEqual(str(raised.exception), "the adapter ended at %s" % name)

    def test_one_that_says_nothing_is_ended(self):
        adapter = self.adapter("import sys; sys.stdin.readline(); sys.stdin.readline()")
        with mock.patch.object(suite, "ANSWER_SECONDS", 0.2), self.assertRaisesRegex(suite.Failed, "no answer within 0 s to run"):
            adapter.ask({"do": "run"})
        self.assertTrue(adapter.ended)


class Lives(unittest.TestCase):
    def told(self, seed, order):
        """What comes of some messages that come in this order: of which call, and the how manyth of it."""
        rule, calls, made = fuzz.Mutates(seed), {1: {"number": 1}, 2: {"number": 2}}, {}
        for number in order:
            call = calls[number]
            found = list(rule.answer("BufferService.Read", bytes(range(100)), call))
            made[number, call["messages"]] = found
        return made

    def test_the_same_messages_are_changed_in_whatever_order_they_come(self):
        changed = 0
        for seed in range(1, 40):
            one, other = self.told(seed, [1, 1, 1, 2, 2, 2]), self.told(seed, [2, 1, 2, 1, 1, 2])
            self.assertEqual(one, other)
            changed += sum(messages != [bytes(range(100))] for messages in one.values())
        self.assertTrue(10 < changed < 60, "%d of 234 messages" % changed)  # one in eight


if __name__ == "__main__":
    unittest.main()
