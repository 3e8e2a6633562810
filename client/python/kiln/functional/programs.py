"""Where Kiln's own programs are on this machine: kilnd, the server, and kiln, its command line."""

from __future__ import annotations

import os
import shutil
from typing import Optional, Tuple


def find(program: str, variable: str) -> Tuple[Optional[str], str]:
    """(path, where it is not): of what `variable` of the environment names, else of the package kilnd beside this
    one, else of what is on PATH."""
    named = os.environ.get(variable)
    if named:
        return shutil.which(named), "%s is %s, which is no program" % (variable, named)
    try:
        from kilnd import path  # type: ignore[import-not-found, unused-ignore]

        found: Optional[str] = path(program)
    except ImportError:
        found = shutil.which(program)
    return found, "there is no %s on PATH" % program
