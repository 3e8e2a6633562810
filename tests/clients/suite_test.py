"""The suite itself: what it says of an adapter that ends, or says nothing, and that lives of the fuzz repeat themselves."""

import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import cases
import faults
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


class Conformance(unittest.TestCase):
    """Of anybody's adapter (conformance.py)."""

    def said(self, client, *words):
        done = subprocess.run([sys.executable, str(HERE / "conformance.py"), *words, *(["--client", client] if client else [])],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)  # fmt: skip
        return done.returncode, done.stdout.splitlines(), done.stderr

    def test_a_client_that_does_as_the_cases_say(self):
        status, lines, _ = self.said("python", "--only", "run.by_value", "--only", "lies.FlipsResults")
        self.assertEqual([line.split() for line in lines[:-1]],
                         [[name, mock.ANY, "s", "ok"] for name in ("run.by_value", "lies.FlipsResults")])  # fmt: skip
        self.assertEqual((status, lines[-1]), (0, "2 passed, 0 failed"))

    def test_others_hear_what_was_wrong(self):
        answers = {
            "import sys\nfor _ in sys.stdin: print('{}', flush=True)": "no results",
            "import sys\nfor _ in sys.stdin: print('hello', flush=True)": "no JSON object",
            "import sys\nfor _ in sys.stdin: print(3, flush=True)": "no JSON object",
            "import sys\nfor _ in sys.stdin: print('{\"error\": \"text\"}', flush=True)": "no JSON object",
            "pass": "the adapter ended at reset",
        }
        for text, wrong in answers.items():
            with self.subTest(text), tempfile.TemporaryDirectory() as folder:
                adapter, found = pathlib.Path(folder) / "adapter.py", pathlib.Path(folder) / "found.json"
                adapter.write_text(text)
                client = shlex.join([sys.executable, str(adapter)])
                status, lines, _ = self.said(client, "--only", "run.by_value", "--json", str(found))
                self.assertIn(wrong, lines[0])
                self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed"))
                self.assertIn(wrong, json.loads(found.read_text())["run.by_value"])
                status, lines, _ = self.said(client, "--only", "lies.FlipsResults")
                self.assertIn(wrong, lines[0], "it has noticed nothing")
                self.assertEqual(status, 1)

    def test_it_says_what_it_needs(self):
        for client, words, wanted in ((None, [], "--client is missing"), ("python", ["--only", "nothing"], "no row has such a name")):
            status, _, errors = self.said(client, *words)
            self.assertEqual(status, 2)
            self.assertIn(wanted, errors)
        status, lines, _ = self.said(None, "--list")
        self.assertEqual((status, len(lines)), (0, len(cases.cases()) + len(faults.MUTANTS)))


if __name__ == "__main__":
    unittest.main()
