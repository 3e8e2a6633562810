"""Random sequences of calls against the model of sequences.py: a few here, as many as one likes there."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import sequences

COUNT = 40


class Sequences(unittest.TestCase):
    def test_on_one_device(self):
        self.assertEqual(sequences.on_devices(1, range(COUNT)), COUNT)

    def test_on_four_devices(self):
        self.assertEqual(sequences.on_devices(4, range(1000, 1000 + COUNT)), COUNT)


if __name__ == "__main__":
    unittest.main()
