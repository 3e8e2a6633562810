"""The suite notices servers that lie: each mutant of faults.py makes the case fail that it names."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cases
import faults
import languages
import suite
import world


class Mutants(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        row = languages.LANGUAGES["python"]
        cls.adapter = suite.Adapter(row.command(row.toolchain()))
        cls.addClassCleanup(cls.adapter.close)
        cls.servers = world.Servers()
        cls.addClassCleanup(cls.servers.close)

    def test_each_makes_its_case_fail(self):
        for mutant, name in faults.MUTANTS.items():
            with self.subTest(mutant.__name__), self.assertRaises(suite.Failed):
                suite.run_case(self.adapter, self.servers, cases.cases()[name], mutant())

    def test_a_way_that_changes_nothing_makes_none_fail(self):
        for name in sorted(set(faults.MUTANTS.values())):
            with self.subTest(name):
                suite.run_case(self.adapter, self.servers, cases.cases()[name], faults.FAULTS["HandsOn"]())


if __name__ == "__main__":
    unittest.main()
