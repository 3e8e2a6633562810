"""What nothing uses is not kept: files, headers, libraries and pages."""

import pathlib
import re
import unittest

import build_files
import citations_test as citations
import tidy_test as tidy

RULES = build_files.rules()
IN_BUILDS = {label[2:].replace(":", "/", 1).lstrip("/") for rule in RULES for label in rule.labels()}
# Read by their tools under these names.
BY_NAME = (".bazelrc", ".clang-format", ".clang-tidy", ".gitignore", "LICENSE", "WORKSPACE", "README.md", "dev",
           "BUILD.bazel", ".ci/run")  # fmt: skip
# Read by their place: helm takes all of a chart's templates.
BY_PLACE = ("deploy/helm/kiln/templates/",)
BY_NAME_ANYWHERE = ("BUILD.bazel", "go.sum", ".gitignore", ".npmrc")


class Unused(unittest.TestCase):
    def check(self, faults):
        faults = list(faults)
        self.assertFalse(faults, "\n" + "\n".join(faults))

    def test_every_source_is_built(self):
        self.assertGreater(len(IN_BUILDS), 1000)
        self.check("%s is in no BUILD file; add it to a target, or delete it" % name
                   for name in tidy.sources(".cc", ".h", ".def") if name not in IN_BUILDS)  # fmt: skip

    def test_every_header_is_included(self):
        included = {path for name in tidy.sources(".cc", ".h", ".def") for _, path in tidy.includes(name)}
        included |= {"%s/%s" % (rule.folder, rule.named["header"]) for rule in RULES if rule.kind == "precompiled_header"}
        self.check("%s is included by no file; delete it, and its source with it" % name
                   for name in tidy.sources(".h") if name not in included)  # fmt: skip

    def test_every_library_has_a_user(self):
        wanted = {label for rule in RULES for label in rule.labels() - {rule.label}}
        libraries = [rule.label for rule in RULES if rule.kind == "cc_library"]
        self.assertGreater(len(libraries), 150)
        self.check("%s: nothing depends on it; delete it" % label for label in libraries if label not in wanted)

    def test_every_page_is_cited(self):
        cited = set()
        for name, page, _ in citations.citations():
            paths = [path.resolve() for path in (tidy.ROOT / page, (tidy.ROOT / name).parent / page) if path.is_file()]
            cited.update(str(path.relative_to(tidy.ROOT)) for path in paths[:1] if path != tidy.ROOT / name)
        self.check("%s is cited nowhere; name it in ARCHITECTURE.md, README.md or where it belongs" % name
                   for name in tidy.DOCUMENTS if name not in cited and name != "README.md")  # fmt: skip

    def test_every_other_file_is_named_somewhere(self):
        """A module by its name, other files by theirs. Tests of Python's are found by their names; a package of Go's is
        all files of its folder."""
        words = {}  # name -> files that have it
        for name in tidy.FILES:
            for word in set(re.findall(r"[\w.-]+", tidy.text(name) or "")):
                for part in {word.strip("."), *word.split(".")}:
                    words.setdefault(part, set()).add(name)
        for name in tidy.FILES:
            file = pathlib.PurePosixPath(name)
            if name in IN_BUILDS or name in BY_NAME or file.name in BY_NAME_ANYWHERE or name.endswith(("_test.py", ".go")) \
                    or name.startswith(BY_PLACE):  # fmt: skip
                continue
            with self.subTest(name):
                wanted = file.stem if file.suffix in (".py", ".bzl", ".rs") else file.name
                users = words.get(wanted, set()) - {name}
                if file.name == "__init__.py":
                    users = words.get(file.parent.name, set()) - {name}
                self.assertTrue(users, "no other file names it; delete it")


if __name__ == "__main__":
    unittest.main()
