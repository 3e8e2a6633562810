"""The conformance suite of clients: every case of cases/, for one language.

    class Go(suite.Suite):
        language = "go"

Each case is a test method. A case in known_failing.json must fail, so that the list is true.
"""

import contextlib
import json
import os
import pathlib
import queue
import re
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cases
import digits
import faults
import languages
import world
import numpy as np

MOST_FRAMES = 200
# Of the frames behind which a connection may be cut, so many are passed over for one that is tried.
EVERY = int(os.environ.get("KILN_EVERY", 5))
# Of clients whose replies are changed by chance.
LIVES = 25
ANSWER_SECONDS = int(os.environ.get("KILN_ANSWER_SECONDS", 120))


class Failed(Exception):
    """A client that does not do as a case says."""


class Adapter:
    """A language's process. One question at a time."""

    def __init__(self, command):
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, errors="replace")
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        with self._process.stdout:
            for line in self._process.stdout:
                self._lines.put(line)
        self._lines.put(None)

    def ask(self, request):
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            self._process.kill()
            self._process.wait()
            raise Failed("no answer within %d s to %s" % (ANSWER_SECONDS, request["do"])) from None
        except BrokenPipeError:
            line = None
        if line is None:
            self._lines.put(None)  # who asks again hears of it, too: a process that ends may be there for a while
            raise Failed("the adapter ended at %s" % request["do"])
        try:
            answer = json.loads(line)
        except json.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict) or not isinstance(answer.get("error", {}), dict):
            raise Failed("the answer to %s is no JSON object on a line of its own, as an answer is: %s" % (request["do"], short(line.strip())))
        return answer

    @property
    def ended(self):
        return self._process.poll() is not None

    def close(self):
        with contextlib.suppress(BrokenPipeError):  # of one that has ended
            self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


# -- one case

# Fields of requests that name a tensor or a graph, and are sent as it.
WRITTEN = {"tensor": cases.tensor, "graph": cases.graph}


def prepared(item, values):
    """A step's request: its tensors, graphs and "$names" put in."""
    if isinstance(item, list):
        return [prepared(part, values) for part in item]
    if isinstance(item, dict):
        return {name: WRITTEN[name](part) if name in WRITTEN and _is_written(name, part) else prepared(part, values)
                for name, part in item.items()}  # fmt: skip
    if isinstance(item, str) and item.startswith("$"):
        return values[item[1:]]
    return item


def named(item, values):
    """With the "$names" put in, and nothing else."""
    if isinstance(item, dict):
        return {name: named(part, values) for name, part in item.items()}
    return values[item[1:]] if isinstance(item, str) and item.startswith("$") else item


def _is_written(name, part):
    return isinstance(part, dict) if name == "tensor" else not part.startswith("$")


def compare(wanted, said, where, close=0.0):
    """Failed unless `said` has all that is wanted; "*" is anything but nothing, ["≥", x] what has x's among it, and null
    what must not be there."""
    if isinstance(wanted, dict) and "dtype" in wanted and {"values", "hex", "range"} & set(wanted):
        return compare_tensors(cases.tensor(wanted), said, where, close)
    if isinstance(wanted, dict):
        for name, part in wanted.items():
            there = isinstance(said, dict) and name in said
            if there == (part is None):
                raise Failed("%s has %s %s: %s" % (where, "a" if there else "no", name, short(said)))
            if part is None:
                continue
            compare(part, said[name], "%s.%s" % (where, name), close)
    elif isinstance(wanted, list) and wanted[:1] == ["≥"]:
        if not set(wanted[1]) <= set(said):
            raise Failed("%s is %s, without %s" % (where, short(said), short(wanted[1])))
    elif isinstance(wanted, list):
        if not isinstance(said, list) or len(said) != len(wanted):
            raise Failed("%s is %s, not %d items" % (where, short(said), len(wanted)))
        for at, (one, other) in enumerate(zip(wanted, said)):
            compare(one, other, "%s[%d]" % (where, at), close)
    elif wanted != said and not (wanted == "*" and said is not None):
        raise Failed("%s is %s, not %s" % (where, short(said), short(wanted)))


def compare_tensors(wanted, said, where, close):
    for name in ("dtype", "shape"):
        if wanted[name] != (said.get(name) or ([] if name == "shape" else None)):
            raise Failed("%s.%s is %s, not %s" % (where, name, said.get(name), wanted[name]))
    one, other = cases.array(wanted), cases.array(said)
    same = one.tobytes() == other.tobytes()
    if close:
        same = np.allclose(one.astype(np.float64), other.astype(np.float64), rtol=close, atol=close)
    if not same:
        raise Failed("%s is %s, not %s" % (where, short(other.tolist()), short(one.tolist())))


def short(value):
    text = json.dumps(value) if not isinstance(value, str) else value
    return text if len(text) <= 300 else text[:300] + "…"


class Run:
    """One case on one adapter."""

    def __init__(self, adapter, servers, case, rule=None, cut=None):
        self._adapter, self._case = adapter, case
        self._world = world.World(servers, case.server, rule, cut)
        self.cut = False

    def steps(self):
        try:
            self._adapter.ask({"do": "reset"})
            for number, step in enumerate(self._case.steps):
                self._step("step %d (%s)" % (number, step.get("do") or step.get("runner")), dict(step))
            self.cut = self._world.frames is not None and self._world.frames.was_cut
        finally:
            try:
                if not self._adapter.ended:
                    self._adapter.ask({"do": "reset"})
            finally:
                self._world.close()

    def _step(self, where, step):
        if "runner" in step:
            name = step.pop("runner")
            try:
                getattr(self._world, name)(**step)
            except AssertionError as error:
                raise Failed("%s: %s" % (where, error)) from None
            return
        wanted, failure, close = step.pop("want", {}), step.pop("want_error", None), step.pop("close", 0.0)
        save, eventually = step.pop("save", {}), step.pop("eventually", False)
        wanted = named(wanted, self._world.values)
        request = prepared(step, self._world.values)
        for _ in range(step.get("times", 1) - 1):
            self._check(where, self._adapter.ask(request), wanted, failure, close)
        answer = self._adapter.ask(request)
        end = time.monotonic() + ANSWER_SECONDS
        while eventually and "error" in answer and time.monotonic() < end:
            answer = self._adapter.ask(request)
        self._check(where, answer, wanted, failure, close)
        for name, field in save.items():
            if field not in answer:
                raise Failed("%s has no %s: %s" % (where, field, short(answer)))
            self._world.values[name] = answer[field]

    @staticmethod
    def _check(where, answer, wanted, failure, close):
        if "unsupported" in answer:
            raise Failed("%s: the adapter does not know it" % where)
        if failure is not None:
            if "error" not in answer:
                raise Failed("%s went well: %s" % (where, short(answer)))
            return compare(failure, answer["error"], "%s (%s)" % (where, short(answer["error"].get("message", ""))))
        if "error" in answer:
            raise Failed("%s failed: %s" % (where, short(answer["error"])))
        compare(wanted, answer, where, close)


def run_case(adapter, servers, case, rule=None):
    """Failed unless the client does as the case says."""
    if case.name == "hash.vectors":
        return run_vectors(adapter)
    if not case.cut_each_frame:
        return Run(adapter, servers, case, rule).steps()
    for frame in range(1, MOST_FRAMES, EVERY):
        run = Run(adapter, servers, case, rule, cut=frame)
        try:
            run.steps()
        except Failed as error:
            raise Failed("cut behind frame %d: %s" % (frame, error)) from None
        if not run.cut:
            return None
    raise Failed("more than %d frames" % MOST_FRAMES)


def run_vectors(adapter):
    """Every vector of the hash: what it is, and what is refused."""
    for row in cases.vectors():
        answer = adapter.ask({"do": "hash", "graph": cases.graph("vector:" + row["name"])})
        if "hash" in row:
            compare({"hash": row["hash"]}, answer, row["name"])
        else:
            wanted = {"code": row["error"], **({"node": row["node"]} if "node" in row else {})}
            compare({"error": wanted}, answer, row["name"])


# -- all of them

class Suite(unittest.TestCase):
    language = ""

    @classmethod
    def setUpClass(cls):
        row = languages.LANGUAGES[cls.language]
        toolchain = row.toolchain()
        if toolchain is None:
            raise unittest.SkipTest("%s is not on this machine: its client was not tested" % cls.language)
        cls.command = row.command(toolchain)
        cls.adapter = Adapter(cls.command)
        cls.addClassCleanup(lambda: cls.adapter.close())
        cls.servers = world.Servers()
        cls.addClassCleanup(cls.servers.close)

    def run_one(self, case):
        if self.adapter.ended:
            type(self).adapter = Adapter(self.command)
        why = languages.known_failing(self.language).get(case.name)
        try:
            run_case(self.adapter, self.servers, case)
        except Failed as error:
            if why is None:
                self.fail("%s: %s" % (case.name, error))
            return
        self.assertIsNone(why, "%s passes now: take it out of known_failing.json" % case.name)

    def test_servers_that_lie_are_noticed(self):
        """Each mutant of faults.py makes the case fail that it names."""
        for mutant, name in faults.MUTANTS.items():
            if self.adapter.ended:
                type(self).adapter = Adapter(self.command)
            with self.subTest(mutant.__name__), self.assertRaises(Failed):
                run_case(self.adapter, self.servers, cases.cases()[name], mutant())

    def test_replies_that_were_changed_by_chance(self):
        """So many lives, the same ones each time; fuzz.py goes on with others."""
        import fuzz  # which begins with this module

        if self.adapter.ended:
            type(self).adapter = Adapter(self.command)
        ends = fuzz.fuzz(self.adapter, self.servers, most=LIVES)
        self.assertEqual(sum(ends.values()), LIVES)

    def learns_digits(self, command=None, **environment):
        """What docs/clients.md has people type, from the tree's root; or `command`, which does the same here."""
        row, address = languages.LANGUAGES[self.language], self.servers.shared().address
        path = "%s:%s" % (pathlib.Path(row.toolchain()).parent, os.environ["PATH"])
        environment = {**os.environ, "PATH": path, "KILN_ADDR": address, **environment}
        typed = (command or digits.command(row)).replace("localhost:7437", address)
        said = languages.printed(["bash", "-ec", typed], languages.ROOT, environment, None)
        said = re.sub(r"\x1b\[[\d;]*m", "", said)  # Maven sets colours back where it has set none
        self.assertEqual(len(re.findall(r"^epoch +\d+   loss [\d.]+$", said, re.M)), digits.EPOCHS, said)
        right, accuracy = re.search(r"^read (\d+) of 360: ([\d.]+)$", said, re.M).groups()
        self.assertEqual("%.4f" % (int(right) / 360), accuracy)
        self.assertGreater(float(accuracy), digits.ACCURACY)

    def __init_subclass__(cls):
        for case in cases.cases().values():
            def method(self, case=case):
                self.run_one(case)

            method.__doc__ = case.about
            setattr(cls, "test_" + case.name.replace(".", "_"), method)
