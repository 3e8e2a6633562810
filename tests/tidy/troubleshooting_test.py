"""docs/troubleshooting.md is what the protocol and the table of remedies say of each error.

    python tests/tidy/troubleshooting_test.py --write     # writes it anew
"""

import re
import sys
import unittest

import tidy_test as tidy

PAGE = "docs/troubleshooting.md"
REMEDIES = "client/cli/text/remedies.def"
BEGIN = """# Troubleshooting: what each error means, and what to do

Every failure has a code, which programs read and people look up here. `kiln` prints it first, the Python client has it as `error.code`, other clients in their error's `code`; the log of the server and `kiln top` name it too. A message says more: the node, field, handle or limit at fault. This page is made from `proto/kiln/v1/error.proto` and `client/cli/text/remedies.def`.

No code at all: nothing answered (is kilnd running there? `kiln health`), or something between answered in its place. If calls fail now and then behind a balancer, see `docs/balancers.md`; if they are slow, see "A slow server" in `docs/operations.md`.
"""


def remedies():
    return dict(re.findall(r'^REMEDY\((\w+), "((?:[^"\\]|\\.)*)"\)$', tidy.text(REMEDIES), re.M))


def statuses():
    """Code -> gRPC's status, as docs/protocol.md has it, which a test of its own holds to the code."""
    rows = re.findall(r"^\| ([A-Z_, ]+) \| ([A-Z_]+) \|$", tidy.text("docs/protocol.md"), re.M)
    return {code: status for codes, status in rows for code in codes.split(", ")}


def sections():
    """(title, [(code, comment)]) of the enum, in its order."""
    body = re.search(r"enum ErrorCode \{(.*?)^\}", tidy.text("proto/kiln/v1/error.proto"), re.S | re.M).group(1)
    found = []
    for line in body.splitlines():
        title = re.match(r"  // -- ([^(]+?)(?: \(.*\))?$", line)
        row = re.match(r"  ([A-Z_0-9]+) = \d+;(?:\s*// (.*))?$", line)
        goes_on = re.match(r"\s+// (.*)$", line)
        if title:
            found.append((title.group(1).strip(), []))
        elif row and row.group(1) != "ERROR_CODE_UNSPECIFIED":
            found[-1][1].append([row.group(1), row.group(2) or ""])
        elif goes_on and found and found[-1][1]:
            found[-1][1][-1][1] += " " + goes_on.group(1)
    return found


def meaning(comment):
    """Without the status, which stands in a column of its own."""
    text = re.sub(r"^[A-Z_]+(?:: |$)", "", comment)
    return text.replace("|", "\\|")


def page():
    status, remedy = statuses(), remedies()
    parts = [BEGIN]
    for title, codes in sections():
        parts.append("\n## %s\n\n| code | gRPC's status | what it means | what to do |\n|---|---|---|---|\n" % title)
        for code, comment in codes:
            parts.append("| %s | %s | %s | %s |\n" % (code, status[code], meaning(comment), remedy[code]))
    return "".join(parts)


class Troubleshooting(unittest.TestCase):
    def test_every_code_has_a_remedy(self):
        codes = [code for _, rows in sections() for code, _ in rows]
        self.assertGreater(len(codes), 40)
        self.assertEqual(sorted(remedies()), sorted(codes))

    def test_the_page_is_new(self):
        self.assertEqual(tidy.text(PAGE), page(), "python tests/tidy/troubleshooting_test.py --write")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        (tidy.ROOT / PAGE).write_text(page())
    else:
        unittest.main()
