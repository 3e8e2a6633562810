"""How quick the clients of all languages are, each beside gRPC alone in its language, in one run.

    ./dev bench clients [--rounds=5] [--mib=64] [LANGUAGE…]

A call of Execute has 16 bytes there and back by value; of Submit's commands each updates a buffer, and a fence is waited
for in the end; transfers go by chunks of 1 MiB; a graph of 10,000 nodes is hashed. What is measured is done in turns, and
the quickest of the rounds counts. "beside gRPC" is the client's time by that of gRPC alone, with the messages that its
language's generator makes: at most 1.25 for Execute; of transfers at most 1.18, that is 0.85 of its speed.
"""

import argparse
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "clients")]

import cases  # noqa: E402
import languages  # noqa: E402
import suite  # noqa: E402
import support  # noqa: E402
import python_adapter  # noqa: E402

NODES = 10_000
# What is measured, how often in a round, and whether gRPC alone can do it.
ROWS = (("execute", 300, True), ("submit", 1000, True), ("upload", 1, True), ("download", 1, True), ("hash", 1, False))


def large():
    """A chain of additions and products."""
    calls = [["param", "x", [4], "float32"]]
    while len(calls) < NODES - 4:  # and what a number and a shape take
        calls.append([("add", "multiply")[len(calls) % 2], {"value": len(calls) - 1}, {"value": 0}])
    calls.append(["output", {"value": len(calls) - 1}])
    return python_adapter.Adapter().build({"calls": calls})["graph"]


def measured(command, address, rounds, mib):
    """{(what, bare): seconds of the quickest round}"""
    adapter = suite.Adapter(command)
    try:
        graphs = {"affine": cases.graph("affine"), "counting": cases.graph("count"), "large": large()}
        asked(adapter, {"what": "prepare", "address": address, "bytes": mib << 20, **graphs})
        best = {}
        for number in range(rounds + 1):
            for what, count, has_bare in ROWS:
                for bare in (False, True)[: 1 + has_bare]:
                    seconds = asked(adapter, {"what": what, "bare": bare, "count": count})["seconds"] / count
                    if number > 0:  # the first warms
                        best[what, bare] = min(best.get((what, bare), seconds), seconds)
        return best
    finally:
        adapter.close()


def asked(adapter, request):
    answer = adapter.ask({"do": "bench", **request})
    if "error" in answer or "unsupported" in answer:
        raise SystemExit("%s: %s" % (request["what"], suite.short(answer)))
    return answer


def row(name, best, mib):
    """A language's line of the table."""
    cells = [name]
    for what, _, has_bare in ROWS:
        own = best[what, False]
        text = "%.2f GB/s" % ((mib << 20) / own / 1e9) if what in ("upload", "download") else (
            "%.0f µs" % (own * 1e6) if own < 1e-3 else "%.1f ms" % (own * 1e3))  # fmt: skip
        cells.append(text)
        if has_bare:
            cells.append("%.2f" % (own / best[what, True]))
    return "| %s |" % " | ".join(cells)


def table(rows):
    heads = ["language"]
    for what, _, has_bare in ROWS:
        heads += [{"execute": "Execute", "submit": "Submit", "hash": "hash of 10,000 nodes"}.get(what, what)]
        heads += ["beside gRPC"] * has_bare
    return "\n".join(["| %s |" % " | ".join(heads), "|%s" % ("---|" * len(heads)), *rows])


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language", nargs="*", default=list(languages.LANGUAGES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mib", type=int, default=64)
    options = parser.parse_args(arguments)
    server, rows = support.Server(), []
    try:
        for name in options.language:
            language = languages.LANGUAGES[name]
            toolchain = language.toolchain()
            if toolchain is None:
                print("%s: its tools are not on this machine" % name, file=sys.stderr)
                continue
            try:
                command = language.quick(toolchain)
            except unittest.SkipTest as why:
                print("%s: %s" % (name, why), file=sys.stderr)
                continue
            rows.append(row(name, measured(command, server.address, options.rounds, options.mib), options.mib))
            print(rows[-1], file=sys.stderr, flush=True)
    finally:
        server.stop()
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
