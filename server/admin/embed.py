"""Writes files into C++ source, so that the program has them with it.

    embed.py PREFIX FILE… > web_files.cc

A file's path is what follows PREFIX in its name. tests/python/server/pages_test.py compares what is served with the files.
"""

import sys

HEAD = """#include "server/admin/web_files.h"

namespace kiln::server {

absl::Span<const WebFile> WebFiles() {
  static constexpr WebFile kFiles[] = {"""
TAIL = """  };
  return kFiles;
}

}  // namespace kiln::server"""


def literal(data):
    """Lines that a compiler reads fast. What is no plain letter is in octal, of three digits, which none that follows
    can make longer."""
    letters = ["%c" % byte if byte == 32 or chr(byte).isalnum() and byte < 128 else "\\%03o" % byte for byte in data]
    lines = ["".join(letters[i : i + 60]) for i in range(0, len(letters), 60)] or [""]
    return "\n".join('      "%s"' % line for line in lines)


def main(prefix, *names):
    print(HEAD)
    for name in sorted(names):
        with open(name, "rb") as file:
            data = file.read()
        path = name[name.index(prefix) + len(prefix) :]
        print('    {"%s",\n     absl::string_view(\n%s,\n      %d)},' % (path, literal(data), len(data)))
    print(TAIL)


if __name__ == "__main__":
    main(*sys.argv[1:])
