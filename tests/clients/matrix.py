"""Writes the matrix of docs/clients.md: which client passes which case. The tests hold it true: a case that is not in
known_failing.json must pass, and one that is must fail.

    python tests/clients/matrix.py
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cases
import languages

PAGE = languages.ROOT / "docs" / "clients.md"
BEGIN, END = "<!-- written by tests/clients/matrix.py -->\n", "<!-- end -->\n"


def matrix():
    names = list(languages.LANGUAGES)
    failing = {name: languages.known_failing(name) for name in names}
    lines = ["| case | | %s |" % " | ".join(names), "|---|---|%s" % ("---|" * len(names))]
    for case in cases.cases().values():
        marks = ["no" if case.name in failing[name] else "yes" for name in names]
        lines.append("| %s | %s | %s |" % (case.name, case.about, " | ".join(marks)))
    lines.append("")
    for name in names:
        passed = len(cases.cases()) - len(failing[name])
        lines.append("- **%s** passes %d of %d cases.%s" % (name, passed, len(cases.cases()), "".join(
            " Not %s: %s." % (case, why) for case, why in failing[name].items())))  # fmt: skip
    return "\n".join(lines) + "\n"


def page(text):
    """The page with the matrix in its place."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + matrix() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    print(matrix(), end="")
