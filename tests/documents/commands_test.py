"""Every page's commands: each block has a row in commands.py, and what a row says is run is run."""

import hashlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import blocks
import commands
import place
import support

COMPILER = pathlib.Path(os.environ.get("KILN_COMPILER", support.ROOT / "bazel-bin" / "compiler" / "tools" / "kiln_compile"))
MODEL = """0 CONST [] weakint 64
1 STACK [0, 0]
2 PARAM [1] slot=0 dtype=float32
3 PARAM [1] slot=1 dtype=float32
4 MUL [2, 3]
5 REDUCE [4] ADD axes=(1)
6 TUPLE [5]
"""
ROWS = """0 STACK []
1 PARAM [0] slot=8 dtype=int32 space=ALU name="n" min=1 max=64
2 CONST [] weakint 4
3 STACK [1, 2]
4 PARAM [3] slot=0 dtype=float32 name="x"
5 ADD [4, 4]
6 TUPLE [5]
"""
TINYGRAD = "import kiln.tinygrad\nfrom tinygrad import Tensor\nprint((Tensor([1.0, 2.0]) + 1).tolist())\n"


def tenants(**tokens):
    return "".join('tenant { name: "%s" token { sha256: "%s" } }\n' % (name, hashlib.sha256(token.encode()).hexdigest())
                   for name, token in tokens.items())  # fmt: skip


def lacks(row):
    """What a row needs and this machine has not."""
    for name in row.needs:
        if name == "kiln_compile":
            there = COMPILER.exists()
        elif name == "tinygrad":
            there = importlib.util.find_spec("tinygrad")
        else:
            there = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
        if not there:
            return "there is no %s" % name
    return ""


class Table(unittest.TestCase):
    def test_every_block_has_a_row_and_every_row_a_block(self):
        rows = {(page, key) for page, keys in commands.ROWS.items() for key in keys}
        for block in blocks.blocks():
            with self.subTest("%s:%d" % (block.page, block.line)):
                if block.is_commands:
                    key, _ = commands.row_of(block)
                    self.assertIn(key, rows, "a second block with the same beginning: say more of each in its row")
                    rows.remove(key)
                elif block.language not in commands.NO_CODE:
                    self.assertIn((block.page, block.language), commands.OTHERS)
                else:
                    self.assertIsNone(blocks.PROGRAMS.match(block.text), "commands: the block begins with ```sh")
        self.assertEqual(rows, set())

    def test_tests_that_are_named_name_the_page(self):
        named = [(page, row.test, row.words) for page, rows in commands.ROWS.items() for row in rows.values()
                 if isinstance(row, commands.By)]  # fmt: skip
        for page, test, words in [*named, *((page, test, "") for (page, _), test in commands.OTHERS.items())]:
            with self.subTest(page, test=test):
                stem = pathlib.PurePath(page).stem
                self.assertRegex((support.ROOT / test).read_text(), re.escape(words) if words else r"\b%s\b" % stem)

    def test_what_is_not_run_says_why(self):
        every = [row for rows in commands.ROWS.values() for row in rows.values()]
        for row in every:
            if isinstance(row, commands.Not):
                self.assertGreater(len(row.reason.split()), 3)
        self.assertGreater(sum(isinstance(row, commands.Runs) for row in every), 15)


class Pages(unittest.TestCase):
    """A method for each block that is run, made below."""

    @classmethod
    def setUpClass(cls):
        cls.refused = place.refused()
        if cls.refused:
            print("no page's commands are run: " + cls.refused, file=sys.stderr)

    def setUp(self):
        if self.refused:
            self.skipTest(self.refused)

    def run_block(self, block, row):
        self.assertEqual(row.pin, commands.pin(block), "the block is another one than was read; its row's pin is its hash")
        if lacks(row):
            self.skipTest(lacks(row))
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.prepare(folder)
            said, status = place.run(folder, commands.script(block, row), self.environment(folder))
        self.assertEqual(status, 0, said)
        at = 0
        for wanted in row.expects.splitlines():
            found = re.compile(wanted).search(said, at)
            self.assertIsNotNone(found, "%r is not in\n%s\nfrom %d on" % (wanted, said, at))
            at = found.end()

    def test_nothing_secret_is_in_the_place_and_nothing_of_it_is_the_machine_s(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.prepare(folder)
            asks = "[[ ! -e /etc/shadow ]] && grep gpu1.example /etc/hosts && find /etc -type f ! -perm -004"
            said, status = place.run(folder, asks, self.environment(folder))
            self.assertEqual((said, status), ("127.0.0.1 localhost %s\n" % " ".join(place.NAMES), 0))
        self.assertNotIn("gpu1.example", pathlib.Path("/etc/hosts").read_text())

    def environment(self, folder):
        spared = {name: value for name, value in os.environ.items() if not name.startswith(("KILN_", "SLURM", "OMPI", "PMI"))}
        path = [folder / "bin", pathlib.Path(sys.executable).parent, os.environ["PATH"], "/usr/sbin"]
        return {**spared, "PATH": ":".join(map(str, path)), "PYTHONPATH": str(support.PACKAGE), "KILN_GPUS": "none",
                "HOME": str(folder / "work")}  # fmt: skip

    def prepare(self, folder):
        """What the pages take for granted."""
        work, programs = folder / "work", folder / "bin"
        work.mkdir()
        programs.mkdir()
        for name, path in (("kilnd", support.KILND), ("kiln", support.CLI), ("kiln_compile", COMPILER)):
            (programs / name).symlink_to(path)
        for path in ("deploy/package/add.uop", "deploy/haproxy.cfg"):
            shutil.copy(support.ROOT / path, work)
        (work / "my_program.py").write_text(TINYGRAD)
        (work / "token").write_text("a secret")
        for name in ("web", "batch"):
            (work / (name + ".token")).write_text(name)
        (work / "tenants.txtpb").write_text(tenants(a="a secret"))
        (work / "several.txtpb").write_text(tenants(web="web", batch="batch"))
        (work / "model.uop").write_text(MODEL)
        (work / "rows.uop").write_text(ROWS)
        for name in ("lookup.uop", "step.uop"):
            shutil.copy(work / "add.uop", work / name)
        (load,) = (block.text for block in blocks.blocks() if block.page == "docs/load.md" and block.text.startswith("tenant "))
        (work / "day.load").write_text(load)
        names = ",".join("DNS:" + name for name in ("localhost", *place.NAMES))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
                        "2", "-keyout", work / "server.key", "-out", work / "server.pem", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=" + names], check=True, capture_output=True)  # fmt: skip
        (work / "server-and-key.pem").write_text("".join((work / ("server." + end)).read_text() for end in ("pem", "key")))


def add_methods():
    for block in blocks.blocks():
        if block.is_commands and block.page in commands.ROWS:
            try:
                (page, key), row = commands.row_of(block)
            except KeyError:  # the table's test says so
                continue
            if isinstance(row, commands.Runs):
                name = "test_" + re.sub(r"\W+", "_", "%s_%s" % (page[: -len(".md")], key)).strip("_")
                method = lambda self, block=block, row=row: self.run_block(block, row)
                method.__doc__ = "%s:%d" % (block.page, block.line)
                setattr(Pages, name, method)


add_methods()

if __name__ == "__main__":
    unittest.main()
