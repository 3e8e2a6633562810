"""The suite of attacks on a server as it is: all rows but the slowest, which `./dev hostile` runs too, under a sanitizer."""

import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import oracle
import suite

SLOW = ("compile_chain_of_stores", "compile_thousands_of_tiny_programs", "compile_with_a_search_without_end",
        "connection_with_resets", "graph_with_packed_sources_by_the_million", "message_too_long")  # fmt: skip


class Hostile(unittest.TestCase):
    def test_there_are_enough(self):
        names = [row.name for row in suite.ATTACKS]
        self.assertGreaterEqual(len(names), 240)
        self.assertEqual(len(names), len(set(names)))
        for row in suite.ATTACKS:
            self.assertTrue(row.promise, row.name)

    def test_all_rows(self):
        rows = [row for row in suite.select([], holes=False) if row.name not in SLOW]
        faults = ["%s: %s" % (verdict.attack.name, verdict.fault) for verdict in suite.run(rows, out=io.StringIO())
                  if verdict.fault]  # fmt: skip
        self.assertEqual(faults, [])

    def test_no_oracle(self):
        servers = suite.Servers()
        try:
            target = servers.of(oracle.Row())
            by_time, by_compile_us, answers = oracle.probe(target, 200)
            self.assertEqual(answers[True], answers[False])
            # So few probes say little, but of a cache that is shared they would say 0.99.
            self.assertLess(max(by_time, by_compile_us), 0.75)
            oracle.guess(target, 1 << 14)
        finally:
            servers.stop()

    def test_an_oracle_would_be_seen(self):
        self.assertEqual(oracle.auc([1, 2, 3], [4, 5, 6]), 1.0)
        self.assertEqual(oracle.auc([4, 5, 6], [1, 2, 3]), 0.0)
        self.assertEqual(oracle.auc([1, 1], [1, 1]), 0.5)
        self.assertEqual(oracle.auc([1, 4], [2, 3]), 0.5)


if __name__ == "__main__":
    unittest.main()
