"""`kiln programs export` and `import`: what one server has compiled runs in another, which compiles nothing."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import graphs
import numpy as np
import support

import kiln


def run(server, *words):
    words = (str(support.CLI), "programs", *words, "--server", server.address)
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


class CarryTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bundle = self.folder / "programs.kiln"

    def server(self, name, key):
        """One with a folder of programs of that name, and the seal of that key."""
        path = self.folder / (key + ".key")
        if not path.exists():
            path.write_bytes(key[:1].encode() * 32)
            os.chmod(path, 0o600)
        return support.running("--program_cache_dir=%s" % (self.folder / name), "--program_cache_key_file=%s" % path)

    def test_a_program_goes_from_one_server_to_another(self):
        graph = graphs.elementwise("ADD")
        with self.server("one", "mine") as server, kiln.connect(server.address) as client:
            program = client.compile(graph)
            self.assertFalse(program.from_cache)
            done = run(server, "export", str(self.bundle))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(done.stdout, "1 programs in %s, 0 left out\n" % self.bundle)
        self.assertEqual(sorted(path.name for path in self.folder.glob("*.kiln*")), [self.bundle.name])
        with self.server("two", "mine") as server, kiln.connect(server.address) as client:
            done = run(server, "import", str(self.bundle))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(done.stdout, "1 programs taken, 0 not for this server\n")
            program = client.compile(graph)
            self.assertTrue(program.from_cache)
            x, y = np.float32([1, 2, 3, 4]), np.float32([5, 6, 7, 8])
            np.testing.assert_array_equal(program(x, y), x + y)
            self.assertEqual(client.programs().compiles, 0)
        with self.server("three", "another") as server:
            done = run(server, "import", str(self.bundle))
            self.assertEqual(done.returncode, 1)
            self.assertIn("CORRUPT_ENTRY", done.stderr)
            self.assertIn("seal", done.stderr)

    def test_what_cannot_be_written_or_read_is_told(self):
        with self.server("one", "mine") as server:
            self.assertEqual(run(server, "export", "/nowhere/programs.kiln").returncode, 1)
            self.assertEqual(run(server, "import", "/nowhere/programs.kiln").returncode, 1)
        with support.running() as server:  # without a folder
            done = run(server, "export", str(self.bundle))
            self.assertEqual(done.returncode, 1)
            self.assertIn("program_cache_dir", done.stderr)
            self.assertFalse(self.bundle.exists())

    def test_what_the_command_lists_is_as_before(self):
        with self.server("one", "mine") as server, kiln.connect(server.address) as client:
            client.compile(graphs.elementwise("ADD"))
            self.assertIn("1 programs; ", run(server).stdout)


if __name__ == "__main__":
    unittest.main()
