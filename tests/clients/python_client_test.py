"""The Python client passes the conformance suite, docs/clients.md's first program runs, and its example learns digits."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import digits
import languages
import suite

# As it is in the tree; for people it is installed.
PATH = os.pathsep.join(filter(None, (str(languages.ROOT / "client" / "python"), os.environ.get("PYTHONPATH"))))


class Python(suite.Suite):
    language = "python"

    def test_the_first_program_of_the_page(self):
        program, said = re.search(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", digits.PAGE.read_text(), re.S | re.M).groups()
        words = [sys.executable, "-c", program.replace("localhost:7437", self.servers.shared().address)]
        environment = {**os.environ, "PYTHONPATH": PATH}
        self.assertEqual(subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout, said)

    def test_digits_are_learned(self):
        self.learns_digits(PYTHONPATH=PATH)


if __name__ == "__main__":
    unittest.main()
