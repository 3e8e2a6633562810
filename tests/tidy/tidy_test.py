"""House rules as a test. Every failure says where, what, and what to do instead.

Looks at the files git tracks. Run by ./dev test and ./dev tidy.
"""

import collections
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MAX_LINES = 400
MAX_FILES = 40

# Which rooms a room may include from and depend on, itself aside. ARCHITECTURE.md
# draws it; a room that is not named here (tests, deploy) may see everything. Of the client, models see the
# graph builder alone (models/onnx/README.md); the command line stands above both.
MAY_SEE = {
    "proto": set(),
    "base": {"proto"},
    "compiler": {"base", "proto"},
    "runtime": {"base", "proto"},
    "server": {"base", "proto", "compiler", "runtime", "models"},
    "client": {"base", "proto"},
    "models": {"base", "proto", "client"},
    "client/cli": {"base", "proto", "client", "models"},
}


def room_of(name):
    return "client/cli" if name.startswith("client/cli/") else name.split("/")[0]


# Headers that only some places may include: pattern -> (places, remedy).
ONLY_IN = {
    r"llvm(-c)?/": (
        ("base/blake3.cc", "compiler/target/llvm", "compiler/target/cpu", "compiler/target/gpu", "runtime/drivers/cpu",
         "runtime/testing", "tests/"),
        "LLVM stays behind compiler/target and runtime/drivers/cpu; take an interface of theirs"),
    r"(grpcpp|grpc|prometheus)/|kiln/v1/\w+\.grpc\.pb\.h": (
        ("server/", "client/", "tests/", "third_party/precompiled/test.h"),
        "only server, client and tests speak gRPC; declare an interface and let server implement it"),
}


# Spelled apart, so that this file passes its own test.
MARKS = re.compile(r"\b(%s)\b" % "|".join(("TO" "DO", "FIX" "ME", "X" "XX", "HA" "CK")))
MACHINE_PATHS = re.compile(r"(?<![\w.])/(%s)/" % "|".join(("ro" "ot", "wo" "rk", "ho" "me")))


def tracked():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    names = listed.stdout.decode().split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


FILES = tracked()
DOCUMENTS = [name for name in FILES if name.endswith(".md")]


def text(name):
    try:
        return (ROOT / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None  # binary data: no rule of ours is about it


def lines(name):
    return enumerate((text(name) or "").splitlines(), 1)


def sources(*suffixes):
    return [name for name in FILES if name.endswith(suffixes)]


def includes(name):
    for number, line in lines(name):
        match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if match:
            yield number, match.group(1)


class Tidy(unittest.TestCase):
    def check(self, faults):
        faults = list(faults)
        self.assertFalse(faults, "\n" + "\n".join(faults))

    def test_files_are_short(self):
        self.check("%s: %d lines, the limit is %d; split it by subject" % (name, count, MAX_LINES)
                   for name in sources(".cc", ".h", ".py")
                   for count in [len((text(name) or "").splitlines())] if count > MAX_LINES)

    def test_folders_are_small(self):
        counts = collections.Counter(str(pathlib.PurePath(name).parent) for name in FILES)
        self.check("%s: %d files, the limit is %d; split it by subject" % (folder, count, MAX_FILES)
                   for folder, count in sorted(counts.items()) if count > MAX_FILES)

    def test_rooms_include_only_what_they_may_see(self):
        self.check("%s:%d: %s may not include %s; %s" % (name, number, room, path, self.REMEDY)
                   for name in sources(".cc", ".h")
                   for room in [room_of(name)] if room in MAY_SEE
                   for number, path in includes(name)
                   for other in ["proto" if path.startswith("kiln/v1/") else path.split("/")[0]]
                   if other in set(MAY_SEE) | {"tests"} and other != room and other not in MAY_SEE[room])

    def test_rooms_depend_only_on_what_they_may_see(self):
        self.check("%s:%d: %s may not depend on //%s; %s" % (name, number, room, other, self.REMEDY)
                   for name in FILES if name.endswith(("BUILD.bazel", ".bzl"))
                   for room in [room_of(name)] if room in MAY_SEE
                   for number, line in lines(name)
                   for other, rest in re.findall(r'"//(\w+)([^"]*)"', line)
                   if not rest.endswith(("__pkg__", "__subpackages__"))
                   if other in MAY_SEE and other != room and other not in MAY_SEE[room])

    REMEDY = "declare a small interface in the lower room, or move what both need to base/"

    def test_libraries_stay_in_their_places(self):
        self.check("%s:%d: includes %s; %s" % (name, number, path, remedy)
                   for name in sources(".cc", ".h")
                   for number, path in includes(name)
                   for pattern, (places, remedy) in ONLY_IN.items()
                   if re.match(pattern, path) and not name.startswith(places))

    def test_include_guards(self):
        for name in sources(".h"):
            guard = "KILN_" + re.sub(r"\W", "_", name).upper() + "_"
            with self.subTest(name):
                body = text(name)
                self.assertIn("#ifndef %s\n#define %s\n" % (guard, guard), body, "the guard should be " + guard)
                self.assertTrue(body.rstrip().endswith("#endif  // " + guard), "it should end with #endif  // " + guard)

    def test_no_marks_of_unfinished_work(self):
        self.check("%s:%d: '%s'; finish it, or open an issue and say in the code what holds now" % (name, number, mark)
                   for name in FILES for number, line in lines(name) for mark in MARKS.findall(line))

    def test_no_paths_of_one_machine(self):
        self.check("%s:%d: names a folder of one machine; take a flag, $TEST_TMPDIR or a path in the tree" % (name, number)
                   for name in FILES for number, line in lines(name) if MACHINE_PATHS.search(line))

    def test_paths_in_documents_resolve(self):
        self.check("%s:%d: `%s` is not there; correct the document" % (name, number, path)
                   for name in DOCUMENTS
                   for number, line in lines(name)
                   for path in self.paths_in(line) if not self.resolves(path, name))

    @staticmethod
    def paths_in(line):
        """What stands in backticks and has a slash; braces are spelled out."""
        for quoted in re.findall(r"`([^`]+)`", line):
            quoted = quoted.split(" ")[0]
            if "/" not in quoted or re.search(r"[<>$=‖]|^[-~]|^/(?!/)|^https?:", quoted):
                continue
            match = re.fullmatch(r"(.*)\{(.*)\}(.*)", quoted)
            parts = match.group(2).split(",") if match else [""]
            for part in parts:
                yield match.group(1) + part + match.group(3) if match else quoted

    @staticmethod
    def resolves(path, document):
        if path.startswith("//"):  # a Bazel label: its package
            return (ROOT / re.split(r":|/\.\.\.", path[2:])[0] / "BUILD.bazel").is_file() or path == "//..."
        path = path[2:] if path.startswith("./") else path
        return any(list(base.glob(path.rstrip("/"))) for base in (ROOT, (ROOT / document).parent))

    def test_every_test_is_built(self):
        """A test that no BUILD file names never runs."""
        for name in sources("_test.cc"):
            folder = (ROOT / name).parent
            build = folder / "BUILD.bazel"
            with self.subTest(name):
                self.assertTrue(build.is_file(), "no BUILD.bazel beside it")
                stem = pathlib.PurePath(name).name[:-len("_test.cc")]
                rules = build.read_text()
                self.assertTrue('"%s' % stem in rules or "glob(" in rules, "add a cc_test to %s" % build.relative_to(ROOT))


if __name__ == "__main__":
    unittest.main()
