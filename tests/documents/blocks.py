"""Fenced blocks of the pages that people read, and which of them are commands."""

import pathlib
import re
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGES = ["README.md", "client/python/README.md"] + sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md"))
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
# What a block without a language may not begin with: it would be commands that nobody takes for such.
PROGRAMS = re.compile(r"(\./dev|kilnd?|kiln_compile|python3?|pip|apt-get|bazel|helm|kubectl|mpirun|srun|sbatch|curl|cargo|npm) ")


class Block(NamedTuple):
    page: str
    line: int
    language: str
    text: str

    @property
    def first(self):
        return self.text.split("\n", 1)[0]

    @property
    def is_commands(self):
        """Of a shell. A console that begins with a prompt shows what was printed, too, and is made by a test."""
        return self.language in ("sh", "bash") or self.language == "console" and not self.text.startswith("$ ")


def blocks():
    for page in PAGES:
        text = (ROOT / page).read_text()
        for found in FENCED.finditer(text):
            yield Block(page, text.count("\n", 0, found.start()) + 2, *found.groups())
