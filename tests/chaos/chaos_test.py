"""A short run of tests/chaos/chaos.py: every fault once, in the order of one seed, with no pause between them."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import chaos
import faults


class Plans(unittest.TestCase):
    def test_a_round_has_every_fault_once(self):
        names = list(faults.FAULTS)
        steps = chaos.plan(7, names)
        self.assertEqual(sorted(step.fault for step in steps), sorted(names))
        self.assertEqual(steps, chaos.plan(7, names))
        self.assertNotEqual(steps, chaos.plan(8, names))
        for step in steps:
            self.assertNotEqual(step.fault, step.beside)
            self.assertIn(step.beside, ("", *chaos.BESIDE))

    def test_nobody_asks_a_server_that_does_not_answer(self):
        pairs = {(step.fault, step.beside) for seed in range(200) for step in chaos.plan(seed, list(faults.FAULTS))}
        for silent in chaos.SILENT:
            self.assertIn((silent, "clock_back"), pairs)
            self.assertNotIn((silent, "clock_ahead"), pairs)
        self.assertIn(("clock_back", "clock_ahead"), pairs)

    def test_one_alone(self):
        self.assertEqual([step[:2] for step in chaos.plan(7, ["cut"])], [("cut", "")])


class Smoke(unittest.TestCase):
    def test_load_with_every_fault(self):
        run = chaos.Run(seed=1, every=0, pace=0.3)
        self.assertTrue(run.go(seconds=0, least=len(faults.FAULTS)), "\n".join(run.world.faults))


if __name__ == "__main__":
    unittest.main()
