"""Random sequences of calls against the model of sequences.py: half a minute of them here, as many as one likes there.

With tests/client/sequences_test.cc, which is the same for C++, they are a minute. Those of LEAST seeds are
done in any case.
"""

import pathlib
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent)]

import sequences

LEAST, SECONDS = 25, 15


class Sequences(unittest.TestCase):
    def check(self, devices, first):
        done = sequences.on_devices(devices, first, LEAST, SECONDS)
        print("%d sequences on %d devices: %d calls, %d failed" % (
            done["sequences"], devices, sum(done.values()) - done["sequences"] - done["failed"], done["failed"]))  # fmt: skip
        self.assertGreaterEqual(done["sequences"], LEAST)
        for name in ("compile", "compile_broken", "execute", "partial", "fail", "stop", "free", "record", "replay", "failed"):
            self.assertGreater(done[name], LEAST // 2, name)

    def test_on_one_device(self):
        self.check(1, 0)

    def test_on_four_devices(self):
        self.check(4, 1000)


if __name__ == "__main__":
    unittest.main()
