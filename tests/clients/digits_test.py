"""The digits' programs are as short as docs/clients.md says, and it has for each what to type."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import digits
import languages


class Digits(unittest.TestCase):
    def test_programs_are_short(self):
        for row in languages.LANGUAGES.values():
            with self.subTest(row.name):
                lines = (languages.ROOT / row.digits).read_text().splitlines()
                self.assertLessEqual(len(lines), digits.MOST_LINES)
                self.assertLessEqual(max(len(line.expandtabs(4)) for line in lines), digits.MOST_COLUMNS)

    def test_the_page_says_how_each_is_started_and_how_short_it_is(self):
        self.assertIn("in at most %d lines" % digits.MOST_LINES, digits.PAGE.read_text())
        for row in languages.LANGUAGES.values():
            with self.subTest(row.name):
                self.assertIsNotNone(digits.command(row), "docs/clients.md: The digits: `%s`" % row.digits)


if __name__ == "__main__":
    unittest.main()
