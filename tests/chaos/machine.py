"""A machine that can be disturbed, for one process: machine.c, built here and loaded into it, and what controls it."""

from __future__ import annotations

import mmap
import pathlib
import shutil
import struct
import subprocess
from typing import Dict

SOURCE = pathlib.Path(__file__).resolve().parent / "machine.c"
COMPILERS = ("clang-22", "cc", "gcc", "clang")
SECOND = 1_000_000_000


class Machine:
    def __init__(self, folder: pathlib.Path, disk: pathlib.Path):
        """`disk`: what is below it is on the disk that can be filled."""
        compiler = next((found for found in map(shutil.which, COMPILERS) if found), None)
        if compiler is None:
            raise AssertionError("no C compiler is here: %s" % ", ".join(COMPILERS))
        library = folder / "machine.so"
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"], check=True)
        control = folder / "control"
        control.write_bytes(bytes(16))
        with control.open("r+b") as file:
            self._control = mmap.mmap(file.fileno(), 16)
        self.environment: Dict[str, str] = {"LD_PRELOAD": str(library), "KILN_CHAOS_CONTROL": str(control),
                                            "KILN_CHAOS_DISK": str(disk)}  # fmt: skip

    @property
    def ahead(self) -> float:
        """Seconds by which the clock is ahead of the real one."""
        return struct.unpack_from("q", self._control, 0)[0] / SECOND

    def set_clock(self, ahead: float) -> None:
        struct.pack_into("q", self._control, 0, int(ahead * SECOND))

    def fill_disk(self, full: bool) -> None:
        struct.pack_into("q", self._control, 8, int(full))
