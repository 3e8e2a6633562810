"""The clients under test: one row a language. What a row says is how its adapter is built and started."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Callable, List, NamedTuple, Optional

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GO = ROOT / "client" / "go"


class Language(NamedTuple):
    name: str
    # The program that builds and runs it, or None where it is not on this machine.
    toolchain: Callable[[], Optional[str]]
    # Called once with that program, and gives the adapter's command line.
    command: Callable[[str], List[str]]


def find(name, *places):
    return shutil.which(name) or next((place for place in places if os.access(place, os.X_OK)), None)


def python(program):
    return [program, str(HERE / "adapters" / "python_adapter.py")]


def go(program):
    """Generates the messages, fetches the modules where they are not there yet, and builds."""
    made = ROOT / "out" / "clients" / "go_adapter"
    environment = {**os.environ, "PATH": "%s:%s" % (pathlib.Path(program).parent, os.environ["PATH"]), "GOTOOLCHAIN": "local"}
    for words in (["./generate.sh"], [program, "build", "-o", str(made), "./internal/adapter"]):
        subprocess.run(words, cwd=GO, env=environment, check=True)
    return [str(made)]


LANGUAGES = {
    row.name: row
    for row in (
        Language("python", lambda: sys.executable, python),
        Language("go", lambda: find("go", "/usr/local/go/bin/go"), go),
    )
}


def known_failing(language):
    """Case -> why this client does not pass it."""
    return json.loads((HERE / "known_failing.json").read_text()).get(language, {})
