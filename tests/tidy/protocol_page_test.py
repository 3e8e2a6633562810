"""The tables of docs/protocol.md say what the code says."""

import re
import unittest

import tidy_test as tidy

PAGE = tidy.text("docs/protocol.md")


def rows(section):
    """Of the section's table, by its first cell."""
    body = re.search(r"^## %s$(.*?)(?=^## |\Z)" % section, PAGE, re.S | re.M).group(1)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines()
            if line.startswith("| ") and not line.startswith(("| feature", "| code"))]  # fmt: skip


class ProtocolPage(unittest.TestCase):
    def test_features(self):
        header = tidy.text("server/services/features.h")
        served = re.findall(r'^    "(\w+)",', header, re.M) + re.findall(r'push_back\("(\w+)"\)', header)
        self.assertGreater(len(served), 10)
        named = [name for row in rows("Versions and features") for name in re.findall(r"`(\w+)`", row[0])]
        self.assertEqual(sorted(named), sorted(served))

    def test_errors(self):
        body = re.search(r"enum ErrorCode \{(.*?)^\}", tidy.text("proto/kiln/v1/error.proto"), re.S | re.M).group(1)
        codes = re.findall(r"^  (\w+) = [1-9]", body, re.M)
        status, waiting = {}, []
        for code, name in re.findall(r"case v1::(\w+):|return absl::StatusCode::k(\w+);", tidy.text("base/error.cc")):
            waiting += [code] if code else []
            if name:
                status.update(dict.fromkeys(waiting, re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()))
                waiting = []
        said = [(code, row[1]) for row in rows("Errors") for code in row[0].split(", ")]
        self.assertEqual(sorted(code for code, _ in said), sorted(codes))
        for code, name in said:
            with self.subTest(code):
                self.assertEqual(name, status.get(code, "INVALID_ARGUMENT"))


if __name__ == "__main__":
    unittest.main()
