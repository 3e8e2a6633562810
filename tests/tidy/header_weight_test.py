"""What a header of ours makes a compiler read beyond the precompiled header (third_party/README.md).

The weight of a header is the number of lines of all files that it includes, itself and what these
include too, without those of third_party/precompiled/system.h. Conditions are not looked at, so
it is somewhat more than what the preprocessor prints. Run by hand, it prints the ten heaviest.
"""

import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import tidy_test as tidy

IMAGE = "third_party/precompiled/system.h"
# Of any header, and of one that shows nothing of gRPC's or LLVM's: those two cost a file that includes them seconds.
BUDGET = {True: 110_000, False: 70_000}
HEAVY = ("/grpcpp/", "/llvm/")
INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.M)


def system_folders():
    """Where g++ looks."""
    asked = subprocess.run(["g++", "-std=c++20", "-E", "-v", "-x", "c++", os.devnull],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)  # fmt: skip
    listed = asked.stderr.split("search starts here:")[-1].split("End of search list")[0]
    return [line.strip() for line in listed.splitlines() if line.strip()]


class Reader:
    def __init__(self, generated):
        self.folders = [str(tidy.ROOT), str(generated), *system_folders(), "/usr/lib/llvm-22/include"]
        self.read = functools.lru_cache(None)(self.read)
        self.find = functools.lru_cache(None)(self.find)

    def find(self, name, beside):
        for folder in (beside, *self.folders):
            path = os.path.normpath(os.path.join(folder, name))
            if os.path.isfile(path):
                return path
        return None  # of another system, or behind a condition

    def read(self, path):
        """Its lines, and the files that it includes."""
        data = pathlib.Path(path).read_bytes()
        beside = os.path.dirname(path)
        found = (self.find(name.decode(), beside) for name in INCLUDE.findall(data))
        return data.count(b"\n"), [other for other in found if other]

    def closure(self, path):
        seen, wanted = set(), [path]
        while wanted:
            path = wanted.pop()
            if path not in seen:
                seen.add(path)
                wanted += self.read(path)[1]
        return seen


def weights():
    """(lines, name, whether it shows what is heavy) of each header, the heaviest first."""
    with tempfile.TemporaryDirectory() as generated:
        protos = tidy.sources(".proto")
        subprocess.run(["protoc", "-Iproto", "--cpp_out=" + generated, "--grpc_out=" + generated,
                        "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin", *protos], cwd=tidy.ROOT, check=True)  # fmt: skip
        reader = Reader(generated)
        image = reader.closure(str(tidy.ROOT / IMAGE))
        rows = []
        for name in tidy.sources(".h"):
            if name.startswith(tuple(tidy.MAY_SEE)):
                read = reader.closure(str(tidy.ROOT / name)) - image
                heavy = any(part in path for path in read for part in HEAVY)
                rows.append((sum(reader.read(path)[0] for path in read), name, heavy))
    return sorted(rows, key=lambda row: (-row[0], row[1]))


WEIGHTS = weights()


class Weight(unittest.TestCase):
    def test_headers_are_light(self):
        self.assertGreater(len(WEIGHTS), 300)
        faults = ["%s: %d lines beyond the precompiled header, the limit is %d; declare what it names, and include in the .cc"
                  % (name, lines, BUDGET[heavy]) for lines, name, heavy in WEIGHTS if lines > BUDGET[heavy]]  # fmt: skip
        self.assertFalse(faults, "\n" + "\n".join(faults))


if __name__ == "__main__":
    print("The ten heaviest headers, in lines beyond the precompiled header:")
    for lines, name, _ in WEIGHTS[:10]:
        print("%8d  %s" % (lines, name))
    unittest.main(argv=sys.argv[:1])
