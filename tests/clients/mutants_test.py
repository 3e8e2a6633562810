"""What makes servers lie is not noticed itself: a way that changes nothing makes no case fail. That each mutant makes one
fail is tested with every language (tests/clients/suite.py)."""

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

    def test_a_way_that_changes_nothing_makes_none_fail(self):
        for name in sorted(set(faults.MUTANTS.values())):
            with self.subTest(name):
                suite.run_case(self.adapter, self.servers, cases.cases()[name], faults.FAULTS["HandsOn"]())


if __name__ == "__main__":
    unittest.main()
