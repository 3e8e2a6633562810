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

    def test_its_pages_are_made(self):
        """By the JDK's own javadoc, of which every word of it is an error."""
        javadoc = languages.find("javadoc")
        if javadoc is None:
            self.skipTest("there is no javadoc on this machine")
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        words = [javadoc, "-quiet", "-Werror", "-Xdoclint:all,-missing", "-Xdoclint/package:kiln", "-d", str(folder),
                 "-encoding", "UTF-8", "-classpath", languages.class_path(),
                 *map(str, (path for room in ("main", "models")
                            for path in (languages.JAVA / "src" / room / "java" / "kiln").glob("*.java")))]  # fmt: skip
        self.assertEqual(languages.printed(words, languages.JAVA, os.environ, None), "")
        self.assertIn("ServedModel", (folder / "kiln" / "KilnClient.html").read_text())

    def ran(self, program):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "Program.java").write_text(program)
        return self.java(str(folder / "Program.java"))

    def test_the_programs_of_the_page(self):
        page = (languages.ROOT / "docs" / "clients.md").read_text()
        first, served = re.findall(r"^```java\n(.*?)^```\n\n```text\n(.*?)^```", page, re.S | re.M)
        self.assertEqual(self.ran(first[0].replace("localhost:7437", self.servers.shared().address)), first[1])
        program = """
            import java.util.*;
            import kiln.*;
            class Served {
                public static void main(String[] arguments) {
                    try (var client = KilnClient.connect("%s")) {%s}
                }
            }
        """ % (self.servers.models().address, served[0])
        self.assertEqual(self.ran(program), served[1])

    def test_digits_are_learned(self):
        self.learns_digits()


if __name__ == "__main__":
    unittest.main()
