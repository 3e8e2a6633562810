"""`kiln explain --batching`: of each variable, whether rows of several callers may be run as one, or why not."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support

HEAD = """0 STACK []
1 PARAM [0] slot=8 dtype=int32 space=ALU name="batch" min=1 max=64
2 CONST [] weakint 4
3 STACK [1, 2]
4 PARAM [3] slot=0 dtype=float32 name="x"
5 STACK [2]
6 PARAM [5] slot=1 dtype=float32 name="bias"
"""
CASES = {
    "8 ADD [4, 6]\n": "batch: row-wise: yes\n  parameter x: varies, batch rows\n  parameter bias: shared\n"
                      "  result 0: varies, batch rows\n",
    "8 REDUCE [4] ADD axes=(0)\n": "batch: row-wise: no, kernel 0 (sum_4_over_n), REDUCE: a reduction runs over rows\n",
    "8 MUL [6, 6]\n": "nothing to batch: it is no graph of tensors for one device that has a variable\n",
}  # fmt: skip


class ExplainBatching(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.file = pathlib.Path(folder.name) / "graph.uop"
        cls.server = support.Server()
        cls.addClassCleanup(cls.server.stop)

    def test_says_what_varies_or_what_forbids_it(self):
        for body, wanted in CASES.items():
            with self.subTest(body):
                self.file.write_text(HEAD + "7 CONST [] float32 1.0\n" + body + "9 TUPLE [8]\n")
                said = support.cli("explain", "--server", self.server.address, str(self.file), "--batching")
                self.assertEqual(said, wanted)


if __name__ == "__main__":
    unittest.main()
