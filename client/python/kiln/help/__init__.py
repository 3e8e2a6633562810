"""What help() says of a public name beside its own words: shapes, failures, and an example.

    help(kiln.softmax)

The tables are texts by theme. A block is a name, and below it an example as one types it; a block before it says of
what follows which shapes go in and out (- where none do) and what is raised. tests/python/annotations/help_test.py runs
every example.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, NamedTuple, Tuple

from kiln.help import (
    chance,
    elementwise,
    failures,
    making,
    modules,
    moving,
    pairs,
    products,
    programs,
    reductions,
    samples,
    served,
)

_THEMES = (
    chance, elementwise, failures, making, modules, moving, pairs, products, programs, reductions, samples, served,
)  # fmt: skip


class Row(NamedTuple):
    """What is said of a name; `shapes` and `raises` are empty where they do not apply."""

    shapes: str
    raises: str
    example: str

    def __str__(self) -> str:
        said = ["%s: %s" % (word, text) for word, text in (("Shapes", self.shapes), ("Raises", self.raises)) if text]
        return "\n".join([*said, "", "Example:", *("    " + line for line in self.example.split("\n"))]).lstrip("\n")


def _rows(text: str) -> Iterator[Tuple[str, Row]]:
    shapes = raises = ""
    for block in text.strip().split("\n\n"):
        first, _, rest = block.partition("\n")
        if first.startswith("shapes  "):
            shapes, raises = (" ".join(part.split()).lstrip("-") for part in block[len("shapes") :].split("\nraises"))
        else:
            yield first, Row(shapes, raises, rest)


ROWS: Dict[str, Row] = {name: row for theme in _THEMES for name, row in _rows(theme.TEXT)}


def describe(names: Dict[str, Any], prefix: str = "") -> None:
    """Adds to the docstrings of a namespace's public names what is said of them; `prefix`: "random."."""
    for name, one in names.items():
        row = (
            ROWS.get(prefix + name) or ROWS.get(name) or ROWS.get(getattr(one, "__name__", ""))
        )  # which is another's, of an alias
        said = getattr(one, "__doc__", None)
        if row is not None and "\n\nExample:\n" not in (said or ""):
            one.__doc__ = "\n\n".join(filter(None, (_dedented(said or ""), str(row)))) + "\n"


def _dedented(text: str) -> str:
    """As inspect.cleandoc, which is slow to import."""
    first, *rest = text.strip().split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
    return "\n".join([first, *(line[margin:] for line in rest)])
