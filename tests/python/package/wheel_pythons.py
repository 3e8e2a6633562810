"""The wheel on other Pythons: `wheel_pythons.py FOLDER PYTHON…`, a row each; fetches what the package needs.

Each has a virtual environment of its own, once with the newest of what is needed and once with the oldest that has
a wheel for that Python, of what pyproject.toml allows.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support

# The oldest that pyproject.toml allows, and what newer Pythons have wheels of, in the order in which they are tried.
OLDEST = (
    ("grpcio==1.62.*", "protobuf==4.25.*", "numpy==1.23.*", "blake3==0.4.*"),
    ("grpcio==1.62.*", "protobuf==4.25.*", "numpy==1.26.*", "blake3==1.0.*"),
    ("grpcio==1.67.*", "protobuf==5.29.*", "numpy==2.1.*", "blake3==1.0.*"),
    ("grpcio==1.76.*", "protobuf==6.33.*", "numpy==2.3.*", "blake3==1.0.*"),
)
NAMES = ("grpcio", "protobuf", "numpy", "blake3")


def install(python, folder, *what):
    """Whether pip could."""
    return not subprocess.run([python, "-m", "venv", "--clear", folder], check=False).returncode and not subprocess.run(
        [folder / "bin" / "python", "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:",
         *what],
        check=False, stderr=subprocess.DEVNULL).returncode  # fmt: skip


def versions(python):
    code = """if True:
        import importlib.metadata, sys
        print(sys.version.split()[0], *(name + " " + importlib.metadata.version(name) for name in sys.argv[1:]), sep=", ")
    """
    return subprocess.run([python, "-I", "-c", code, *NAMES], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def main(folder, pythons):
    (wheel,) = pathlib.Path(folder).glob("*.whl")
    use, failed = pathlib.Path(__file__).with_name("wheel_use.py"), 0
    with support.running() as server, tempfile.TemporaryDirectory() as place:
        venv = pathlib.Path(place) / "venv"
        for name in pythons:
            python = shutil.which(name) or shutil.which("python" + name)
            if python is None:
                print("%s: not here" % name)
                failed += 1
                continue
            for choices in (((),), OLDEST):
                if not any(install(python, venv, wheel, *needed) for needed in choices):
                    print("%s: what it needs cannot be installed" % name)
                    failed += 1
                    continue
                run = subprocess.run([venv / "bin" / "python", "-I", use, server.address], check=False, text=True,
                                     stdout=subprocess.PIPE)  # fmt: skip
                failed += run.returncode != 0
                print("%s: %s" % (versions(venv / "bin" / "python"), run.stdout.strip() or "FAILED"), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]) > 0)
