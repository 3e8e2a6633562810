"""A row that is new in a table fails the build wherever it needs code: toy rows, in copies of the tables, show it.

Each file is compiled as far as its meaning goes, with the copies in front of the tree. All
errors must be about toys, so the tree itself compiles.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FLAGS = ["-std=c++20", "-fsyntax-only", "-Werror=switch", "-isystem", "/usr/lib/llvm-22/include"]

OPS = """
UNARY_OP(TOY_ALU, kNoArg, kAlike, "a toy")
MOVEMENT_OP(TOY_MOVE, 1, 1, kNoArg, kOfFirst, kEverywhere, "a toy")
UOP(TOY_KERNEL, 1, 1, kStructure, kNoArg, kOfFirst, kEverywhere, "a toy")
PROGRAM_OP(TOY_PROGRAM, 1, 1, kStructure, kNoArg, kOfFirst, kInPrograms, "a toy")
TENSOR_OP(TOY_TENSOR, 1, 1, kStructure, kNoArg, kOfFirst, kInTensor, "a toy")
"""
ALU, MOVE, KERNEL, PROGRAM, TENSOR = TOYS = ["TOY_ALU", "TOY_MOVE", "TOY_KERNEL", "TOY_PROGRAM", "TOY_TENSOR"]

# File -> the toys that it lacks. compiler/ir/ops.def lists the same files.
LACKS_OPS = {
    "compiler/gradient/rules.cc": TOYS,
    "compiler/interp/scalar.cc": [ALU],
    "compiler/target/llvm/values/emit_alu.cc": [ALU],
    "compiler/target/cstyle/alu_text.cc": [ALU],
    "compiler/ir/infer_shape.cc": [MOVE, KERNEL, PROGRAM, TENSOR],
    "compiler/ir/infer_bounds.cc": [MOVE, KERNEL, PROGRAM, TENSOR],
    "compiler/ir/infer_placement.cc": [MOVE, KERNEL, PROGRAM, TENSOR],
    "compiler/interp/interp.cc": [MOVE, KERNEL, PROGRAM, TENSOR],
    "compiler/interp/eval_movement.cc": [MOVE],
    "compiler/interp/kernel_eval.cc": [MOVE, KERNEL],
    "compiler/target/llvm/kernel_emitter.cc": [MOVE, KERNEL],
    "compiler/interp/program_step.cc": [MOVE, KERNEL, PROGRAM],
    "compiler/target/llvm/program_emitter.cc": [MOVE, KERNEL, PROGRAM],
    "compiler/target/cstyle/kernel_text.cc": [MOVE, KERNEL, PROGRAM],
}
LACKS_OPT_OPS = {
    "compiler/opt/apply.cc": ["ApplyToy"],
    "compiler/opt/checked_schedule.cc": ["CheckToy"],
    "compiler/search/neighbours.cc": ["ResizeToy", "MoreToy", "a row of opt_ops.def has no place here"],
}
LACKS_BACKENDS = {"server/backends.cc": ["OpenToy"]}
LACKS_READINGS = {"server/admin/readings.cc": ["ReadToy"]}


def insert(text, before, row):
    assert text.count(before) >= 1, "%s has moved: correct this test" % before
    return text.replace(before, row + before, 1)


class Copies:
    """The tables with toys, and the protocol's C++ made of the .proto files with toys."""

    def __init__(self, folder, system, tables, protos):
        self.folder, self.system = pathlib.Path(folder), system
        for name, (before, row) in {**tables, **protos}.items():
            copy = self.folder / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(insert((ROOT / name).read_text(), before, row))
        names = [path.relative_to(ROOT / "proto").as_posix() for path in (ROOT / "proto").glob("**/*.proto")]
        generated = self.folder / "generated"
        generated.mkdir()
        (self.folder / "proto").mkdir(exist_ok=True)
        subprocess.run(["protoc", "-I", self.folder / "proto", "-I", ROOT / "proto", "--cpp_out", generated] + names,
                       check=True)  # fmt: skip

    def errors(self, name):
        source = self.folder / name if (self.folder / name).is_file() else ROOT / name
        path = ["-I%s" % each for each in (self.folder, self.folder / "generated", ROOT)]
        path += ["-include", self.system]
        # GCC names all that a switch lacks, Clang the first three.
        done = subprocess.run(["g++", *FLAGS, *path, source], env=dict(os.environ, LC_ALL="C"), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        return [line for line in done.stdout.splitlines() if "error: " in line]


class ToyRows(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Other people's headers, read once for all files: GCC takes the image that lies beside a header."""
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.system = pathlib.Path(folder.name) / "system.h"
        cls.system.write_text((ROOT / "third_party/precompiled/system.h").read_text())
        subprocess.run(["g++", FLAGS[0], "-x", "c++-header", cls.system, "-o", "%s.gch" % cls.system], check=True)

    def check(self, lacks, tables, protos):
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            copies = Copies(folder, self.system, tables, protos)
            for name, errors in zip(lacks, pool.map(copies.errors, lacks)):
                with self.subTest(name):
                    for toy in lacks[name]:
                        self.assertTrue(any(re.search(r"\b%s\b" % toy, line) for line in errors),
                                        "%s compiles without %s" % (name, toy))  # fmt: skip
                    for line in errors:
                        self.assertTrue(any(re.search(r"\b%s\b" % toy, line) for toy in lacks[name]), line)

    def test_ops(self):
        text = (ROOT / "proto/kiln/v1/graph.proto").read_text()
        ops = re.search(r"^enum Op \{(.*?)^\}", text, re.S | re.M).group(1)
        free = max(int(number) for number in re.findall(r" = (\d+);", ops)) + 1
        values = "".join("  %s = %d;\n" % (toy, free + i) for i, toy in enumerate(TOYS))
        self.check(LACKS_OPS,
                   {"compiler/ir/ops.def": ("\n#undef ALU_OP\n", OPS)},
                   {"proto/kiln/v1/graph.proto": ("  PARAM = 1;", values)})  # fmt: skip

    def test_an_op_without_a_column(self):
        self.check({"compiler/ir/op.cc": ["UOP"]},
                   {"compiler/ir/ops.def": ("\n#undef ALU_OP\n", 'UOP(COPY, 2, 2, kMovement, "no rules")\n')}, {})  # fmt: skip

    KIND = ("    LOCAL = 7;\n", "    TOY = 8;\n")

    def test_opt_ops(self):
        row = 'OPT_OP(Toy, "TOY", TOY, {"size", kNumber})\n'
        self.check(LACKS_OPT_OPS,
                   {"compiler/opt/opt_ops.def": ('OPT_OP(Split,', row)}, {"proto/kiln/v1/graph.proto": self.KIND})  # fmt: skip

    def test_an_opt_op_without_a_row(self):
        self.check({"compiler/opt/opt_ops.cc": ["a kind of OptOp in graph.proto has no row in opt_ops.def"]},
                   {}, {"proto/kiln/v1/graph.proto": self.KIND})  # fmt: skip

    def test_backends(self):
        self.check(LACKS_BACKENDS,
                   {"server/backends.def": ("BACKEND(Cpu,", 'BACKEND(Toy, "TOY", "toy", "")\n')}, {})  # fmt: skip

    def test_readings(self):
        self.check(LACKS_READINGS,
                   {"server/metrics/metrics.def": ("READ(Memory,", 'READ(Toy, kGauge, "kiln_toy", "A toy.")\n')}, {})  # fmt: skip

    def test_a_target_without_a_row(self):
        self.check({"compiler/target/targets.cc": ["a kind of target.proto has no row in targets.cc"]},
                   {}, {"proto/kiln/v1/target.proto": ("    C_SOURCE = 5;\n", "    TOY = 6;\n")})  # fmt: skip


if __name__ == "__main__":
    unittest.main()
