"""A page of the manual from what a program says of itself: its --help, as it is, under a title."""

import subprocess

from archive import gzipped


def escaped(line: str) -> str:
    """As roff prints it: a dot or a quote that begins a line is a command, a backslash begins one."""
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + line if line[:1] in (".", "'") else line


def page(program: str, path: str, section: int, summary: str) -> bytes:
    said = subprocess.run([path, "--help"], stdout=subprocess.PIPE, check=True, env={"LANG": "C.UTF-8"}).stdout.decode()
    lines = [".TH %s %d" % (program.upper(), section), ".SH NAME", "%s \\- %s" % (program, summary), ".SH DESCRIPTION", ".nf"]
    text = "\n".join(lines + [escaped(line) for line in said.splitlines()] + [".fi", ""])
    return gzipped(text.encode(), 9)
