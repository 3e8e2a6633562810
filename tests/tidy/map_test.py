"""ARCHITECTURE.md is short and drawn, and every decision has its four parts in its folder's README.md."""

import re
import unittest

import tidy_test as tidy

MOST_WORDS = 1200
MOST_WORDS_OF_A_DECISION = 120
PARTS = ("Answer", "Reason", "Rejected")

DRAWING = re.compile(r"^```mermaid\n(.*?)^```$", re.S | re.M)
# What GitHub's Mermaid certainly draws, and all that we need of it.
NODE = r'\w+(?:\["[^"\[\]]+"\]|\{"[^"{}]+"\})?'
FLOWCHART = re.compile(r"    %s(?: -->(?:\|[\w ,]+\|)? %s)?" % (NODE, NODE))
SEQUENCE = re.compile(r"    +(?:participant \w+ as [\w ]+|\w+--?>>\w+: [^;#]+|Note (?:over|right of) \w+: [^;#]+|"
                      r"(?:opt|alt|loop|else) [^;#]+|end)")  # fmt: skip


def decisions():
    """(page, heading, body) of every decision."""
    for name in tidy.DOCUMENTS:
        if name.endswith("/README.md"):
            section = re.search(r"^## Decisions$(.*?)(?=^## |\Z)", tidy.text(name), re.S | re.M)
            if section:
                for heading, body in re.findall(r"^### ([^\n]*)$(.*?)(?=^### |\Z)", section.group(1), re.S | re.M):
                    yield name, heading, body.strip()


class Map(unittest.TestCase):
    def test_is_short(self):
        words = len(tidy.text("ARCHITECTURE.md").split())
        self.assertLessEqual(words, MOST_WORDS, "ARCHITECTURE.md: what a folder decides stands in its README.md")

    def test_is_drawn(self):
        drawings = DRAWING.findall(tidy.text("ARCHITECTURE.md"))
        self.assertGreaterEqual(len(drawings), 2, "one Execute, one compile")
        for name in tidy.DOCUMENTS:
            for drawing in DRAWING.findall(tidy.text(name)):
                first, *lines = drawing.splitlines()
                rule = {"flowchart TD": FLOWCHART, "flowchart LR": FLOWCHART, "sequenceDiagram": SEQUENCE}.get(first)
                self.assertIsNotNone(rule, "%s: a drawing begins with flowchart or sequenceDiagram, not %s" % (name, first))
                for line in lines:
                    with self.subTest(document=name, line=line):
                        self.assertRegex(line, "^(?:%s)$" % rule.pattern, "not what this test knows to be drawn")
                if first != "sequenceDiagram":
                    continue
                opened = len(re.findall(r"^ +(?:opt|alt|loop) ", drawing, re.M))
                self.assertEqual(opened, len(re.findall(r"^ +end$", drawing, re.M)), "%s: an end for each opt" % name)

    def test_every_driver_is_a_row_of_the_suite_for_devices(self):
        drivers = {name.split("/")[2] for name in tidy.FILES if name.startswith("runtime/drivers/")}
        rows = re.findall(r'^ +\{"(\w+)",$', tidy.text("tests/hal/devices.cc"), re.M)
        self.assertEqual(sorted(rows), sorted(drivers - {"gpu", "host"}), "host and gpu are parts of the others")

    def test_lists_every_page_of_decisions(self):
        listed = re.search(r"^## Decisions$(.*)", tidy.text("ARCHITECTURE.md"), re.S | re.M).group(1)
        for page in sorted({page for page, _, _ in decisions()}):
            with self.subTest(page):
                self.assertIn("`%s`" % page, listed, "ARCHITECTURE.md, Decisions")


class Decisions(unittest.TestCase):
    def test_have_their_parts_and_are_short(self):
        self.assertGreater(len(list(decisions())), 59, "where have they gone?")
        for page, heading, body in decisions():
            with self.subTest(page=page, decision=heading):
                self.assertTrue(heading.endswith("?"), "the heading is the question")
                self.assertEqual(re.findall(r"^\*\*(\w+)\.\*\* ", body, re.M), list(PARTS),
                                 "then **Answer.**, **Reason.** and **Rejected.**, a paragraph each")  # fmt: skip
                self.assertTrue(body.startswith("**Answer.** "))
                words = len((heading + " " + body).split())
                self.assertLessEqual(words, MOST_WORDS_OF_A_DECISION)

    def test_pages_say_what_their_folder_is_for(self):
        for page in {page for page, _, _ in decisions()}:
            opening = tidy.text(page).split("## Decisions")[0]
            with self.subTest(page):
                self.assertRegex(opening, r"\A# ", "a title")
                self.assertRegex(opening, r"Begin (?:at|reading at) `", "and where to begin")


if __name__ == "__main__":
    unittest.main()
