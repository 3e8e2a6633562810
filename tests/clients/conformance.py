"""The cases of this folder, asked of anybody's client: what ./dev conformance runs.

    ./dev conformance --client './my_adapter --quiet'    # all cases, and the servers that lie
    ./dev conformance --client go --only transfer        # a client of this tree, some cases

An adapter is a program that answers a JSON object a line (tests/clients/README.md, "An adapter"). For each case a line says
ok, or what was wrong; the last says how many. The status is 1 if anything was wrong.
"""

import argparse
import json
import pathlib
import shlex
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cases
import faults
import languages
import suite
import world


def command_of(client):
    """How a client's adapter is started: a language's of this tree by its name, else as it stands."""
    if client not in languages.LANGUAGES:
        return shlex.split(client)
    row = languages.LANGUAGES[client]
    toolchain = row.toolchain()
    if toolchain is None:
        sys.exit("%s is not on this machine" % client)
    try:
        return row.command(toolchain)
    except unittest.SkipTest as why:
        sys.exit(str(why))


def rows(words):
    """(name, what it is about, case, rule): of the cases, then of the servers that lie, as far as they are chosen."""
    known = cases.cases()
    chosen = [(case.name, case.about, case, None) for case in known.values()]
    chosen += [("lies." + mutant.__name__, "a server that lies so is noticed by %s" % name, known[name], mutant)
               for mutant, name in faults.MUTANTS.items()]  # fmt: skip
    return [row for row in chosen if not words or any(word in row[0] for word in words)]


class Client:
    """Somebody's adapter, started again when it has ended."""

    def __init__(self, command):
        self._command, self._adapter = command, suite.Adapter(command)

    def asked(self, servers, case, mutant):
        """What is wrong, or None."""
        # Who does not do what the case says anyway has noticed nothing.
        honest = self._told(servers, case, None)
        if not mutant or honest:
            return honest
        return None if self._told(servers, case, mutant()) else "it believed the server"

    def _told(self, servers, case, rule):
        if self._adapter.ended:
            self._adapter.close()
            self._adapter = suite.Adapter(self._command)
        try:
            suite.run_case(self._adapter, servers, case, rule)
        except suite.Failed as error:
            return str(error)
        return None

    def close(self):
        self._adapter.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", help="the adapter's command line, or one of: " + ", ".join(sorted(languages.LANGUAGES)))
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="rows whose names have it; may be repeated")
    parser.add_argument("--list", action="store_true", help="which rows there are, and what each is about")
    parser.add_argument("--json", metavar="FILE", help="the same as {row: null, or what was wrong}")
    asked = parser.parse_args()
    chosen = rows(asked.only)
    if asked.list:
        for name, about, _, _ in chosen:
            print("%-40s %s" % (name, about))
        return 0
    if not asked.client:
        parser.error("--client is missing: how is your adapter started?")
    if not chosen:
        parser.error("no row has such a name; --list says which there are")
    found = {}
    servers = world.Servers()
    try:
        client = Client(command_of(asked.client))
        try:
            for name, _, case, mutant in chosen:
                begin = time.monotonic()
                found[name] = client.asked(servers, case, mutant)
                print("%-40s %5.1f s  %s" % (name, time.monotonic() - begin, found[name] or "ok"), flush=True)
        finally:
            client.close()
    finally:
        servers.close()
    if asked.json:
        pathlib.Path(asked.json).write_text(json.dumps(found, indent=1) + "\n")
    wrong = sum(each is not None for each in found.values())
    print("%d passed, %d failed" % (len(found) - wrong, wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
