"""The package can be built from the repository's files, and installed elsewhere."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support

_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
_USE = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import kiln, kiln.aio
assert pathlib.Path(kiln.__file__).is_relative_to(sys.argv[1]), kiln.__file__
import kiln.v1
assert pathlib.Path(kiln.v1.__file__).is_relative_to(sys.argv[1]), kiln.v1.__file__
with kiln.connect(sys.argv[2]) as client:
    print(client.buffer([1, 2, 3], "float32").numpy().sum())
"""


class Wheel(unittest.TestCase):
    def test_built_and_used_from_a_fresh_place(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        generated = shutil.ignore_patterns("v1", "build", "*.egg-info", "__pycache__")
        shutil.copytree(support.PACKAGE, folder / "tree" / "client" / "python", ignore=generated)
        shutil.copytree(support.ROOT / "proto", folder / "tree" / "proto")
        subprocess.run([*_PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder / "wheels"),
                        str(folder / "tree" / "client" / "python")], check=True)  # fmt: skip
        (wheel,) = (folder / "wheels").iterdir()
        names = set(zipfile.ZipFile(wheel).namelist())
        self.assertLessEqual({"kiln/__init__.py", "kiln/py.typed", "kiln/v1/graph_pb2.py", "kiln/v1/graph_pb2.pyi"}, names)
        self.assertEqual({name.split("/")[0] for name in names}, {"kiln", "kiln-0.1.0.dist-info"})
        site = folder / "site"
        subprocess.run([*_PIP, "install", "--no-deps", "--target", str(site), str(wheel)], check=True)
        server = support.Server()
        self.addCleanup(server.stop)
        run = subprocess.run([sys.executable, "-I", "-c", _USE, str(site), server.address], cwd=folder, text=True,
                             stdout=subprocess.PIPE)  # fmt: skip
        self.assertEqual((run.returncode, run.stdout), (0, "6.0\n"))


if __name__ == "__main__":
    unittest.main()
