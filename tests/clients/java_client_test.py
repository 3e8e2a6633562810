"""The Java client passes the conformance suite and its own tests, is formatted, and its example learns digits."""

import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import languages
import suite


class Java(suite.Suite):
    language = "java"

    def maven(self, *words):
        address = self.servers.shared().address
        try:
            return languages.words_of_maven(languages.LANGUAGES["java"].toolchain(), *words, KILN_ADDR=address)
        except AssertionError as failed:
            if re.search("Could not (transfer|find) artifact", str(failed)):
                self.skipTest("what Maven does this with cannot be had")
            raise

    def java(self, *words):
        environment = {**os.environ, "KILN_ADDR": self.servers.shared().address}
        return languages.printed(languages.words_of_java(*words), languages.JAVA, environment, None)

    def test_its_own_tests(self):
        """What javac warns of is an error, and so it has been compiled (pom.xml)."""
        said = self.maven("surefire:test")
        ran, *bad = map(int, re.findall(r"Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)$", said, re.M)[-1])
        self.assertEqual(bad, [0, 0, 0], said)
        self.assertGreater(ran, 50)

    def test_it_is_formatted(self):
        self.maven("spotless:check")
        for path in (path for room in ("src", "adapter", "examples") for path in (languages.JAVA / room).rglob("*.java")):
            with self.subTest(path):
                self.assertLessEqual(len(path.read_text().splitlines()), 400)
                self.assertLessEqual(max(map(len, path.read_text().splitlines())), 120)

    def test_the_first_program_of_the_page(self):
        page = (languages.ROOT / "docs" / "clients.md").read_text()
        program, said = re.search(r"^```java\n(.*?)^```\n\n```text\n(.*?)^```", page, re.S | re.M).groups()
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "First.java").write_text(program.replace("localhost:7437", self.servers.shared().address))
        self.assertEqual(self.java(str(folder / "First.java")), said)

    def test_digits_are_learned(self):
        example = languages.JAVA / "examples" / "kiln" / "examples" / "Digits.java"
        self.assertLessEqual(len(example.read_text().splitlines()), 120)
        said = self.java("kiln.examples.Digits")
        self.assertEqual(len(re.findall(r"^epoch", said, re.M)), 15)
        accuracy = float(re.search(r"^read \d+ of 360: ([\d.]+)$", said, re.M).group(1))
        self.assertGreater(accuracy, 0.93)


if __name__ == "__main__":
    unittest.main()
