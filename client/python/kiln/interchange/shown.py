"""An array in a notebook: what it is, and its outermost elements in a table.

No more is read than is shown: of a large array three rows and columns at each end.
"""

from __future__ import annotations

import html
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy as np

from kiln import arrays
from kiln.errors import KilnError

# Rows and columns at each end; so many in all are shown whole.
EDGE = 3
WHOLE = 8
_STYLE = "border:1px solid;border-collapse:collapse;font-family:monospace"

# Reads (start, count) elements.
Read = Callable[[int, int], np.ndarray]


def shown(kind: str, dtype: str, shape: Tuple[int, ...], where: str, read: Read) -> str:
    """The HTML of an array. It raises nothing that reading raises, but says it."""
    head = "<b>%s</b> %s %s on %s" % tuple(map(html.escape, (kind, dtype, str(shape), where or "the device")))
    try:
        body = _table(shape, read)
    except KilnError as error:
        body = "<div>%s</div>" % html.escape(str(error))
    return "<div><div>%s</div>%s</div>" % (head, body)


def _edges(size: int) -> List[Optional[int]]:
    """Places of an axis; None where some are left out."""
    if size <= WHOLE:
        return list(range(size))
    return [*range(EDGE), None, *range(size - EDGE, size)]


def _table(shape: Tuple[int, ...], read: Read) -> str:
    """Of the last axis's rows, by the places of the axes before it."""
    outer, width = (shape[:-1], shape[-1]) if shape else ((), 1)
    if 0 in shape:
        return "<div>no elements</div>"
    rows = arrays.count_of(outer)
    columns = _edges(width)
    lines = []
    for row in _edges(rows):
        if row is None:
            lines.append(_line("…", ["…"] * len(columns)))
            continue
        place = ", ".join(map(str, np.unravel_index(row, outer))) if outer else ""
        lines.append(_line(place, _elements(read, row * width, width, columns)))
    return '<table style="%s">%s</table>' % (_STYLE, "".join(lines))


def _elements(read: Read, start: int, width: int, columns: Sequence[Optional[int]]) -> List[str]:
    """A row's elements that are shown, read in a piece from each end."""
    if None not in columns:
        return [_text(value) for value in read(start, width)]
    first, last = read(start, EDGE), read(start + width - EDGE, EDGE)
    return [*map(_text, first), "…", *map(_text, last)]


def _text(value: Any) -> str:
    return html.escape("%.6g" % value if value.dtype.kind in "fV" else str(value))


def _line(place: str, cells: Sequence[str]) -> str:
    head = "<th>%s</th>" % html.escape(place) if place else ""
    return "<tr>%s%s</tr>" % (head, "".join("<td>%s</td>" % cell for cell in cells))
