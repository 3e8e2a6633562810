"""The Rust client passes the conformance suite and its own tests, reads as Rust should, and its example learns digits."""

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


class Rust(suite.Suite):
    language = "rust"

    def cargo(self, *words, **more):
        address = self.servers.shared().address
        program = languages.LANGUAGES["rust"].toolchain()
        return languages.words_of_cargo(program, *words, KILN_ADDR=address, **more)

    def tool(self, name):
        """Skips a test where cargo lacks one of its tools, which some distributions have apart."""
        if subprocess.run([languages.LANGUAGES["rust"].toolchain(), name, "--version"], capture_output=True).returncode:
            self.skipTest("cargo has no %s on this machine" % name)

    def test_its_own_tests(self):
        said = self.cargo("test", *languages.RUST_ALL)
        self.assertIn("test tests::server::many_tasks_share_a_client_and_its_stream ... ok", said)
        self.assertNotIn(" 1 ignored", said)

    def test_the_examples_of_its_pages(self):
        said = self.cargo("test", "--doc", "--package=kiln", "--all-features", "--locked", "--offline")
        self.assertRegex(said, r"test result: ok\. [1-9]\d+ passed; 0 failed")

    def test_it_reads_as_rust_should(self):
        self.tool("fmt")
        self.cargo("fmt", "--all", "--check")
        for path in languages.RUST.rglob("*.rs"):
            if "target" not in path.relative_to(languages.RUST).parts:
                lines = path.read_text().splitlines()
                with self.subTest(path):
                    self.assertLessEqual(len(lines), 400)
                    self.assertLessEqual(max(map(len, lines), default=0), 120)

    def test_clippy_has_nothing_to_say(self):
        self.tool("clippy")
        self.cargo("clippy", *languages.RUST_ALL, "--", "-D", "warnings")
        bare = ("--package=kiln", "--no-default-features", "--locked", "--offline")
        self.cargo("clippy", *bare, "--", "-D", "warnings")

    def test_its_pages_are_made(self):
        words = ("doc", "--package=kiln", "--no-deps", "--all-features", "--locked", "--offline")
        self.cargo(*words, RUSTDOCFLAGS="-D warnings")

    def test_the_first_program_of_the_page(self):
        """As a program of somebody's, whose Cargo.toml is the page's."""
        page = (languages.ROOT / "docs" / "clients.md").read_text()
        needs = re.search(r"^```toml\n(.*?)^```", page, re.S | re.M).group(1)
        program, said = re.search(r"^```rust\n(.*?)^```\n\n```text\n(.*?)^```", page, re.S | re.M).groups()
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "src").mkdir()
        (folder / "src" / "main.rs").write_text(program.replace("localhost:7437", self.servers.shared().address))
        package = '[package]\nname = "first"\nversion = "0.1.0"\nedition = "2024"\n\n'
        (folder / "Cargo.toml").write_text(package + needs.replace("../kiln", str(languages.ROOT)))
        shutil.copy(languages.RUST / "Cargo.lock", folder)
        self.assertEqual(self.cargo("run", "--quiet", "--offline", folder=folder), said)

    def test_digits_are_learned(self):
        self.learns_digits(str(languages.RUST_BUILT / "debug" / "examples" / "digits"))


if __name__ == "__main__":
    unittest.main()
