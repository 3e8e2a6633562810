"""What clean_roots.py does in roots is what docs/clients.md says, of every language; and it notices what goes wrong."""

import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import clean_roots
import digits
import first_minute
import languages

LINKS = (("../lib/one", "/opt/tool/bin/one"),)
LENT = clean_roots.Lent("Tool 1.2", [("/here/tool", "/opt/tool")], "/opt/tool/bin", LINKS)


class CleanRoots(unittest.TestCase):
    def test_every_language_has_a_recipe_and_each_step_on_the_page(self):
        self.assertEqual(set(clean_roots.RECIPES), set(languages.LANGUAGES))
        self.assertEqual(set(clean_roots.HEADINGS), set(languages.LANGUAGES))
        for name, row in languages.LANGUAGES.items():
            with self.subTest(name):
                page = clean_roots.page(name)
                self.assertEqual(len(page.typed), len(clean_roots.STEPS), "a block of sh for each of them")
                self.assertEqual(page.typed[2], digits.command(row))
                self.assertIn(clean_roots.ADDRESS, page.program)
                self.assertEqual(len(page.prints.replace(",", " ").split()) >= 4, True, page.prints)

    def test_the_page_has_a_row_of_each(self):
        """What the last run measured; who was not tried is said to be."""
        table = digits.PAGE.read_text().partition("\n## Copied in a clean root\n")[2].partition("\n## ")[0]
        rows = {cells[1]: cells[2:-1] for cells in (re.split(r" *\| *", line) for line in table.splitlines()
                                                    if line.startswith("|"))}  # fmt: skip
        self.assertEqual(rows.pop("language"), ["what was there", "install", *clean_roots.STEPS, "accuracy"])
        rows.pop("---")
        self.assertEqual(set(rows), set(clean_roots.HEADINGS.values()))
        for name, (there, *_, read) in rows.items():
            with self.subTest(name):
                if there == "not tried":
                    self.assertIn("%s's was not tried" % name, table)
                else:
                    self.assertGreater(float(read), digits.ACCURACY)
        self.assertIn("(more than %s)" % digits.ACCURACY, table)

    def test_the_first_program_has_the_name_that_the_page_gives_it(self):
        for name, recipe in clean_roots.RECIPES.items():
            with self.subTest(name):
                self.assertRegex(part(name), r"A first program, which is `?[\w/]*?%s`?:" % recipe.first)

    def test_what_is_typed_is_the_pages_and_asks_the_server_that_runs(self):
        for name, recipe in clean_roots.RECIPES.items():
            with self.subTest(name):
                page = clean_roots.page(name)
                shell = clean_roots.shell(recipe, LENT, page.typed, "127.0.0.1:9")
                self.assertNotIn("localhost:7437", shell)
                self.assertIn("--no-install-recommends %s\n" % recipe.packages, shell)
                places = [shell.index("cd /first/kiln\n" + page.typed[0]), shell.index("cd %s\n" % recipe.first_in),
                          shell.rindex("cd /first/kiln\n")]  # fmt: skip
                self.assertEqual(places, sorted(places))
                for typed in page.typed:
                    self.assertIn(typed.replace("localhost:7437", "127.0.0.1:9"), shell)
                self.assertLess(shell.index("ln -s ../lib/one /opt/tool/bin/one"), places[0])
                self.assertLess(shell.index("export PATH=/opt/tool/bin:$PATH"), places[0])
                self.assertEqual(subprocess.run(["bash", "-n"], input=shell.encode()).returncode, 0)

    def test_a_step_that_fails_is_the_last(self):
        steps = {"one": "echo first", "two": "echo second\nfalse", "three": "echo third"}
        ran = subprocess.run(["bash", "-ec", "\n".join(first_minute.timed(steps))], stdout=subprocess.PIPE, text=True)
        self.assertEqual(ran.returncode, 1)
        (seconds, name, printed), = first_minute.took(ran.stdout)
        self.assertEqual((name, printed), ("one", "first\n\n"))
        self.assertLess(seconds, 60)
        self.assertNotIn("third", ran.stdout)

    def test_digits_that_are_not_read_are_noticed(self):
        self.assertEqual(clean_roots.accuracy("epoch\nread 354 of 360: 0.9833\n"), 0.9833)
        self.assertEqual(clean_roots.accuracy("\x1b[0mread 354 of 360: 0.9833\n"), 0.9833)
        for printed in ("read 334 of 360: 0.9278\n", "", "read 360 of 3600: 1.0000\n"):
            with self.subTest(printed), self.assertRaises(SystemExit):
                clean_roots.accuracy(printed)


def part(language):
    """The page's, of a language."""
    page = digits.PAGE.read_text()
    begun = page.index("\n## %s\n" % clean_roots.HEADINGS[language])
    return page[begun : page.index("\n## ", begun + 4)]


if __name__ == "__main__":
    unittest.main()
