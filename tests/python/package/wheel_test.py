"""The package can be built from the repository's files, and installed elsewhere; what is published needs no protoc."""

import email
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support

_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
_TRIED = "jit, grad, numpy, graph, program, errors, aio\n"
# A protoc that is not to be asked.
_NONE = "import sys; sys.modules['grpc_tools'] = None"


def contents(wheel):
    """A wheel's files, but for those that say what it is."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, folder)
        generated = shutil.ignore_patterns("v1", "inference", "build", "*.egg-info", "__pycache__")
        shutil.copytree(support.PACKAGE, folder / "tree" / "client" / "python", ignore=generated)
        shutil.copytree(support.ROOT / "proto", folder / "tree" / "proto")
        # As ./dev wheel does.
        tree, out = folder / "tree" / "client" / "python", folder / "out"
        subprocess.run([sys.executable, "backend.py", str(out)], cwd=tree, check=True, stdout=subprocess.DEVNULL)
        cls.archive, cls.wheel = out / "kiln_client-0.1.0.tar.gz", out / "kiln_client-0.1.0-py3-none-any.whl"

    def test_what_is_in_it(self):
        names = set(contents(self.wheel))
        package = support.PACKAGE / "kiln"
        wanted = {"kiln/" + path.relative_to(package).as_posix() for path in package.rglob("*")
                  if path.suffix in (".py", ".pyi") or path.name == "py.typed"}  # fmt: skip
        self.assertEqual(names, wanted)
        self.assertLessEqual({"kiln/v1/graph_pb2.py", "kiln/v1/graph_pb2.pyi", "kiln/inference/grpc_service_pb2.py", "kiln/py.typed"}, names)

    def test_it_is_for_all_pythons_and_pins_nothing(self):
        with zipfile.ZipFile(self.wheel) as archive:
            said = email.message_from_bytes(archive.read("kiln_client-0.1.0.dist-info/METADATA"))
        self.assertEqual((said["Name"], said["Requires-Python"]), ("kiln-client", ">=3.9"))
        needed = [row for row in said.get_all("Requires-Dist") if "extra ==" not in row]
        self.assertEqual(sorted(row.split(">=")[0] for row in needed), ["blake3", "grpcio", "numpy", "protobuf"])
        self.assertNotIn("<", "".join(needed))
        # Messages are descriptors: protoc's code would be for some versions of protobuf alone.
        for name, data in contents(self.wheel).items():
            if name.endswith("_pb2.py"):
                self.assertIn(b"define(globals(), b", data, name)
                self.assertNotIn(b"_builder", data, name)

    def test_the_archive_makes_the_same_wheel_without_a_protoc(self):
        with tarfile.open(self.archive) as archive:
            archive.extractall(self.folder / "unpacked")
        (source,) = (self.folder / "unpacked").iterdir()
        code = _NONE + "; import backend as b; assert 'grpcio-tools' not in b.get_requires_for_build_wheel(); b.build_wheel('.')"
        subprocess.run([sys.executable, "-c", code], cwd=source, check=True, env={**os.environ, "PATH": ""},
                       stdout=subprocess.DEVNULL)  # fmt: skip
        self.assertEqual(contents(source / self.wheel.name), contents(self.wheel))

    def test_without_any_protoc_the_repository_says_so(self):
        tree = self.folder / "tree" / "client" / "python"
        code = _NONE + "; import pathlib, generate as g; g.FOLDERS = {'kiln/v1': pathlib.Path('nowhere')}; print(g.wants_protoc()); g.generate()"
        run = subprocess.run([sys.executable, "-c", code], cwd=tree, env={**os.environ, "PATH": ""}, text=True,
                             capture_output=True)  # fmt: skip
        self.assertEqual((run.returncode, run.stdout), (1, "True\n"))
        self.assertIn("no protoc: pip install grpcio-tools", run.stderr)

    def test_installed_elsewhere_and_used(self):
        site = self.folder / "site"
        subprocess.run([*_PIP, "install", "--no-deps", "--target", str(site), str(self.wheel)], check=True)
        use = [sys.executable, "-I", str(pathlib.Path(__file__).with_name("wheel_use.py"))]
        with support.running() as server:
            # Both of protobuf's implementations that are there.
            for kind in ("upb", "python"):
                run = subprocess.run([*use, server.address, str(site)], cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                     env={**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": kind})  # fmt: skip
                self.assertEqual((run.returncode, run.stdout), (0, _TRIED), kind)


if __name__ == "__main__":
    unittest.main()
