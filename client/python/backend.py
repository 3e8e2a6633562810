"""How the package is built: by setuptools, once kiln/v1 is there (generate.py).

What is published has kiln/v1 ready made (and, by MANIFEST.in, this file), so only who builds it from the
repository wants a protoc, and any will do. `./dev wheel` runs this file: both archives, into a folder.
"""

import pathlib
import sys

from setuptools import build_meta

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import generate  # noqa: E402: it stands beside this file


def get_requires_for_build_wheel(settings=None):
    # setuptools wants nothing more, and would look for kiln/v1, which may not be there yet.
    return ["grpcio-tools"] if generate.wants_protoc() else []


get_requires_for_build_sdist = get_requires_for_build_editable = get_requires_for_build_wheel


def prepare_metadata_for_build_wheel(folder, settings=None):
    generate.generate()
    return build_meta.prepare_metadata_for_build_wheel(folder, settings)


def prepare_metadata_for_build_editable(folder, settings=None):
    generate.generate()
    return build_meta.prepare_metadata_for_build_editable(folder, settings)


def build_wheel(folder, settings=None, metadata=None):
    generate.generate()
    return build_meta.build_wheel(folder, settings, metadata)


def build_editable(folder, settings=None, metadata=None):
    generate.generate()
    return build_meta.build_editable(folder, settings, metadata)


def build_sdist(folder, settings=None):
    generate.generate()
    return build_meta.build_sdist(folder, settings)


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    for build in (build_sdist, build_wheel):
        print(out / build(str(out)))
