"""`./dev bench transfer` at its smallest: what comes back is what was sent, and a shared array sends next to nothing."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench"))

import transfer_bench


class Bench(unittest.TestCase):
    def test_small(self):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.assertEqual(transfer_bench.main(["--mib=9", "--rounds=1"]), 0)
        rows = [row.rsplit(None, 4) for row in printed.getvalue().splitlines()[2:]]
        sent = {name: int(messages) for name, _, _, _, messages in rows}
        self.assertEqual(len(sent), 6)
        for name, messages in sent.items():
            if name.startswith("shared memory, shared array"):
                self.assertLess(messages, 200)
            elif name.startswith("shared memory"):
                self.assertLess(messages, 1024)
            else:
                self.assertGreater(messages, 18 << 20)


if __name__ == "__main__":
    unittest.main()
