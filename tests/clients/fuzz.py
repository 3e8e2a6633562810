"""Replies that were changed by chance on their way: each is used, or refused by an error of the client's type; no adapter
ends by it, and none waits for ever.

    python tests/clients/fuzz.py [LANGUAGE…] [--seconds 60] [--first 1]      # or: ./dev fuzz clients …

A life is a case of cases/, whatever it wants, up to its first error. Its number is the seed: `--first N --seconds 1`
begins with the one that is told of.
"""

import argparse
import collections
import math
import random
import time

import cases
import faults
import grpc
import languages
import suite
import world
from wire_proxy import Rule

from kiln.v1 import error_pb2

THEMES = ("arrays", "build", "models", "run", "session", "stream", "transfer")
# Allocates gigabytes for what little it shows here.
WITHOUT = ("transfer.beyond_4_gib",)
# Of messages, one in so many is changed; of those that a connection begins with fewer, or no life would get far.
ONE_IN = {"DeviceService.List": 20, "SessionService.Open": 20}


def mutated(message, chance):
    """Some bytes other ones, some gone, some more, or a great number in the place of a small one."""
    made = bytearray(message)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(made) + 1)
        kind = chance.randrange(6)
        if kind < 2 and at < len(made):
            made[at] = made[at] ^ 1 << chance.randrange(8) if kind else chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del made[at:]
        elif kind == 3:
            made[at:at] = b"\xff" * chance.randint(1, 9) + bytes([chance.randrange(128)])
        elif kind == 4:
            end = chance.randint(at, min(len(made), at + 64))
            made[at:at] = made[at:end]
        else:
            made.insert(at, chance.randrange(256))
    return bytes(made)


class Mutates(Rule):
    """What becomes of a message depends on the seed and on which it is: the how manyth of which call. So a life changes
    the same messages each time, in whatever order threads come to make their calls."""

    def __init__(self, seed):
        super().__init__()
        self._seed = seed

    def _chance(self, method, call):
        call["messages"] = call.get("messages", 0) + 1
        return random.Random("%d, message %d of %s %d" % (self._seed, call["messages"], method, call["number"]))

    def answer(self, method, message, call):
        chance = self._chance(method, call)
        if chance.randrange(ONE_IN.get(method, 8)):
            yield message
            return
        yield mutated(message, chance)
        if method == "KernelService.Submit":
            # What the client takes for another's answer it may well wait for: a server that lives would give it.
            raise faults.Refused(grpc.StatusCode.ABORTED, "another connection has it", code=error_pb2.SESSION_BUSY)

    def trailers(self, method, pairs):
        chance = random.Random("%d, trailers of %s %d" % (self._seed, method, self.calls[method]))
        return tuple((name, mutated(value, chance)) if name == faults.DETAILS else (name, value)
                     for name, value in pairs)  # fmt: skip


class Over(Exception):
    """An error as it should be."""


class Life(suite.Run):
    def _step(self, where, step):
        if step.get("do") == "connect":
            step.setdefault("lease_seconds", 2)  # that nothing is waited for long
        super()._step(where, step)

    @staticmethod
    def _check(where, answer, wanted, failure, close):
        error = answer.get("error")
        if "unsupported" in answer or error is not None and not (error.get("status") or error.get("code")):
            raise suite.Failed("%s: no error of the client's: %s" % (where, suite.short(answer)))
        if error is not None:
            raise Over(error.get("status") or error.get("code"))


def chosen():
    """Cases that need no more than a server, and whose steps are all the client's."""
    return [case for case in cases.cases().values()
            if case.name.split(".")[0] in THEMES and case.name not in WITHOUT and case.server in ({}, {"models": True})
            and not case.cut_each_frame and not any("runner" in step or "eventually" in step for step in case.steps)]  # fmt: skip


def fuzz(adapter, servers, seconds=math.inf, first=1, most=1 << 30):
    """Lives for so long, at most so many: how many ended with which status. Failed, with the life's number, if one did not go well."""
    ends, all_cases = collections.Counter(), chosen()
    begun, seed = time.monotonic(), first
    while time.monotonic() < begun + seconds and seed < first + most:
        case = all_cases[random.Random(-seed).randrange(len(all_cases))]
        try:
            Life(adapter, servers, case, Mutates(seed)).steps()
            ends["went well"] += 1
        except Over as over:
            ends[str(over)] += 1
        except suite.Failed as failed:
            raise suite.Failed("life %d, of %s: %s" % (seed, case.name, failed)) from None
        seed += 1
    return ends


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("language", nargs="*", default=list(languages.LANGUAGES))
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--first", type=int, default=1)
    given = options.parse_args()
    servers = world.Servers()
    try:
        for name in given.language:
            row = languages.LANGUAGES[name]
            toolchain = row.toolchain()
            if toolchain is None:
                print("%s: its tools are not on this machine" % name)
                continue
            adapter = suite.Adapter(row.command(toolchain))
            try:
                ends = fuzz(adapter, servers, given.seconds, given.first)
            finally:
                adapter.close()
            told = ", ".join("%d %s" % (count, end) for end, count in ends.most_common())
            print("%s: %d lives: %s" % (name, sum(ends.values()), told), flush=True)
    finally:
        servers.close()


if __name__ == "__main__":
    main()
