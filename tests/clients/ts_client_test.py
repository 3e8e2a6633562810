"""The TypeScript client passes the conformance suite and its own tests, is formatted, and its example learns digits."""

import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import languages
import suite


class TypeScript(suite.Suite):
    language = "typescript"

    def npm(self, *words):
        """What a program prints in client/ts, which is built already: with its types, tsc has checked them."""
        node = languages.LANGUAGES["typescript"].toolchain()
        return languages.words_of_npm(node, *words, KILN_ADDR=self.servers.shared().address)

    def test_its_own_tests(self):
        said = self.npm("node", "--test", "--test-reporter=tap", "dist/test/")
        self.assertIn("ok 1 ", said)
        self.assertRegex(said, r"(?m)^# fail 0$")
        self.assertRegex(said, r"(?m)^# skipped 0$")

    def test_it_is_formatted_and_eslint_has_nothing_to_say(self):
        folder, rooms = languages.TYPESCRIPT, ("src", "adapter", "test", "examples")
        self.npm("npm", "run", "--silent", "lint")
        files = [path for room in rooms for path in (folder / room).rglob("*.ts")]
        for path in files:
            if "gen" not in path.relative_to(folder).parts:
                with self.subTest(path):
                    self.assertLessEqual(max(map(len, path.read_text().splitlines())), 120)

    def test_its_pages_are_made(self):
        made = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, made)
        self.npm("npx", "typedoc", "--out", str(made))
        self.assertIn("maxPool2d", (made / "interfaces" / "Tensor.html").read_text())

    def test_the_packages_have_no_home(self):
        """Any registry may bring them: no address of one stands in the list of what to fetch."""
        self.assertNotRegex((languages.TYPESCRIPT / "package-lock.json").read_text(), r'"resolved"|://[^"]*registry')

    def ran(self, program):
        """What a program of somebody's prints, among whose packages the client is."""
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "node_modules").mkdir()
        (folder / "node_modules" / "kiln").symlink_to(languages.TYPESCRIPT)
        (folder / "program.mjs").write_text(program)
        return self.npm("node", str(folder / "program.mjs"))

    def test_the_programs_of_the_page(self):
        page = (languages.ROOT / "docs" / "clients.md").read_text()
        first, served = re.findall(r"^```ts\n(.*?)^```\n\n```text\n(.*?)^```", page, re.S | re.M)
        self.assertEqual(self.ran(first[0].replace("localhost:7437", self.servers.shared().address)), first[1])
        head = 'import { array, connect } from "kiln";\nconst client = await connect("%s");\n'
        program = head % self.servers.models().address + served[0] + "await client.close();\n"
        self.assertEqual(self.ran(program), served[1])

    def test_digits_are_learned(self):
        self.learns_digits()


if __name__ == "__main__":
    unittest.main()
