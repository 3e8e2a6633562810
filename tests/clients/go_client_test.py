"""The Go client passes the conformance suite and its own tests, reads as Go should, and its example learns digits."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import languages
import suite


class Go(suite.Suite):
    language = "go"

    def go(self, *words):
        address = self.servers.shared().address
        return languages.words_in_go(languages.LANGUAGES["go"].toolchain(), *words, KILN_ADDR=address)

    def test_its_own_tests(self):
        said = self.go("test", "-count=1", "-v", "./...")
        self.assertIn("--- PASS: TestManyGoroutinesShareAClientAndItsStream", said)
        self.assertIn("--- PASS: TestAStreamAnswersInOrder", said)
        self.assertNotIn("--- SKIP", said)

    def test_it_reads_as_go_should(self):
        self.go("vet", "./...")
        gofmt = pathlib.Path(languages.LANGUAGES["go"].toolchain()).with_name("gofmt")
        files = [str(path) for path in languages.GO.rglob("*.go") if "v1" not in path.relative_to(languages.GO).parts]
        said = subprocess.run([str(gofmt), "-l", *files], check=True, capture_output=True, text=True).stdout
        self.assertEqual(said, "", "gofmt -w them")
        for path in files:
            lines = pathlib.Path(path).read_text().splitlines()
            with self.subTest(path):
                self.assertLessEqual(len(lines), 400)
                self.assertLessEqual(max(len(line.expandtabs(4)) for line in lines), 120)

    def test_staticcheck_has_nothing_to_say(self):
        """The one that tools/go.mod pins."""
        self.go("-C", "tools", "build", "-o", "../v1/bin/", "honnef.co/go/tools/cmd/staticcheck")
        program = languages.LANGUAGES["go"].toolchain()
        words = [str(languages.GO / "v1" / "bin" / "staticcheck"), "./..."]
        self.assertEqual(languages.printed(words, languages.GO, languages.go_environment(program), None), "")

    def test_the_first_program_of_the_page(self):
        """As a module of somebody's, which finds the client by a go.work."""
        page = (languages.ROOT / "docs" / "clients.md").read_text()
        program, said = re.search(r"^```go\n(.*?)^```\n\n```text\n(.*?)^```", page, re.S | re.M).groups()
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "main.go").write_text(program.replace("localhost:7437", self.servers.shared().address))
        (folder / "go.mod").write_text("module first\n\ngo 1.26\n")
        (folder / "go.work").write_text("go 1.26.0\n\nuse .\n\nuse %s\n" % languages.GO)
        self.assertEqual(self.go("-C", str(folder), "run", "."), said)

    def test_digits_are_learned(self):
        self.learns_digits(GOTOOLCHAIN="local")


if __name__ == "__main__":
    unittest.main()
