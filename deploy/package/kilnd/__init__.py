"""The server `kilnd` and the command line `kiln`, with the libraries that they load.

    import kilnd
    kilnd.path("kilnd")    # where the program is

The commands that pip makes replace themselves by the programs. `kiln.local()` of the package kiln-client finds the
server here.
"""

import os
import sys
from typing import NoReturn


def path(program: str) -> str:
    """Where `program`, kilnd or kiln, is."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", program)


def _become(program: str) -> NoReturn:
    os.execv(path(program), [program, *sys.argv[1:]])


def kilnd() -> NoReturn:
    _become("kilnd")


def kiln() -> NoReturn:
    _become("kiln")
