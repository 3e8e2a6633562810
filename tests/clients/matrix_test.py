"""docs/clients.md has the matrix as it is, and known_failing.json names cases and languages that there are."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cases
import languages
import matrix


class Matrix(unittest.TestCase):
    def test_the_page_is_as_it_would_be_written(self):
        text = matrix.PAGE.read_text()
        self.assertEqual(matrix.page(text), text, "write it anew: python tests/clients/matrix.py")

    def test_what_fails_is_a_case_of_a_language(self):
        known = json.loads((languages.HERE / "known_failing.json").read_text())
        self.assertEqual(set(known), set(languages.LANGUAGES))
        for name, failing in known.items():
            with self.subTest(name):
                self.assertLessEqual(set(failing), set(cases.cases()))
                self.assertTrue(all(failing.values()), "say why it fails")

    def test_graphs_are_used(self):
        text = "".join(path.read_text() for path in (languages.HERE / "cases").glob("*.json"))
        for name in json.loads((languages.HERE / "graphs.json").read_text()):
            with self.subTest(name):
                self.assertIn('"%s"' % name, text)


if __name__ == "__main__":
    unittest.main()
