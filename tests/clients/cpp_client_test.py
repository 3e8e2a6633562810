"""The C++ client passes the conformance suite, and measures itself. Its own tests stand beside it, and Bazel runs them."""

import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cases
import digits
import languages
import suite


class Cpp(suite.Suite):
    language = "cpp"

    def test_what_is_measured_can_be(self):
        """As tests/bench/clients_bench.py asks for it."""
        graphs = {"affine": cases.graph("affine"), "counting": cases.graph("count"), "large": cases.graph("affine")}
        address = self.servers.shared().address
        self.asked({"what": "prepare", "address": address, "bytes": 3 << 20, **graphs})
        for what in ("execute", "submit", "upload", "download", "hash"):
            for bare in (False, True)[: 1 + (what != "hash")]:
                with self.subTest(what=what, bare=bare):
                    self.assertGreater(self.asked({"what": what, "bare": bare, "count": 2})["seconds"], 0)
        self.adapter.ask({"do": "reset"})

    def test_the_first_program_of_the_page(self):
        """As Bazel built it."""
        page = (languages.ROOT / "docs" / "clients.md").read_text()
        program, said = re.search(r"^```cpp\n(.*?)^```\n\n```text\n(.*?)^```", page, re.S | re.M).groups()
        source = (languages.ROOT / "client" / "cpp" / "examples" / "first.cc").read_text()
        self.assertEqual(source.split("\n", 1)[1], program)
        words = [str(languages.CPP_EXAMPLES / "first"), self.servers.shared().address]
        self.assertEqual(subprocess.run(words, check=True, capture_output=True, text=True).stdout, said)

    def test_digits_are_learned(self):
        """As Bazel built it."""
        *_, started = digits.command(languages.LANGUAGES["cpp"]).splitlines()
        self.learns_digits(started.replace("bazel-bin/client/cpp/examples", str(languages.CPP_EXAMPLES)))

    def asked(self, request):
        answer = self.adapter.ask({"do": "bench", **request})
        self.assertNotIn("error", answer)
        return answer


if __name__ == "__main__":
    unittest.main()
