"""KILN_LEVEL: how much of the work is Kiln's."""

from __future__ import annotations

import os

LEVELS = ("T", "K", "L")


def wanted() -> str:
    level = os.environ.get("KILN_LEVEL", "T").upper()
    if level not in LEVELS:
        raise ValueError("KILN_LEVEL=%s: it is one of %s" % (level, ", ".join(LEVELS)))
    return level
