"""Operator suite: tinygrad's Tensor methods on a Kiln server, beside numpy and tinygrad's own CPU device.

    run_ops.py                        every case at the levels T, K and L
    run_ops.py --level T --only conv  the cases of level T whose name has "conv" in it
    run_ops.py --sample 300           a fixed choice that reaches every kind of row

The tables cases_*.py say what is run; rows.py explains a row, compare.py the
bounds. Each level, tinygrad's CPU device and numpy run in a process of their
own over the same cases; outcomes meet here. What the CPU device said is kept
in out/tinygrad-ops. A failure is printed with its level, the key of its tensor
graph, and what was found instead of what. KILN_KILND names the server's binary.
"""

import argparse
import collections
import concurrent.futures
import fcntl
import hashlib
import importlib.metadata
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))

import support  # noqa: E402
import compare  # noqa: E402
import rows  # noqa: E402
import tables  # noqa: E402

CACHE = ROOT / "out" / "tinygrad-ops"
TINYGRAD = importlib.metadata.version("tinygrad")


def read(path):
    """(outcomes, name of the case that was begun and not finished)."""
    outcomes, begun = {}, None
    with open(path, "rb") as file:
        while True:
            try:
                item = pickle.load(file)
            except (EOFError, pickle.UnpicklingError):
                return outcomes, begun
            if isinstance(item, str):
                begun = item
            else:
                outcomes[item.name], begun = item, None


def run_child(device, names, environment, out, options):
    """Appends outcomes to `out`; the case in which the process ended, if it did, and its exit code."""
    names_path = pathlib.Path(str(out) + ".names")
    names_path.write_text("\n".join(names))
    command = [sys.executable, str(HERE / "evaluate.py"), device, str(names_path), str(out)]
    pathlib.Path(out).touch()
    size = os.path.getsize(out)
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(support.PACKAGE)]))
    environment = {**os.environ, "PYTHONPATH": path, "PARALLEL": "0", "CC": options.cc, **environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode and os.path.getsize(out) == size:
        raise SystemExit("%s does not start:\n%s" % (device, done.stderr[-3000:]))
    return read(out)[1], done.returncode


def by_numpy(names, folder, options):
    out = os.path.join(folder, "numpy")
    run_child("numpy", names, {}, out, options)
    return read(out)[0]


def run_level(level, names, folder, options):
    """Outcomes of every case; a server or process that ends in the middle costs one case and is started again."""
    folder = os.path.join(folder, level)
    os.mkdir(folder)
    left, outcomes = list(names), {}
    while left:
        server, out = support.Server(), os.path.join(folder, "out-%d" % len(left))
        try:
            environment = {"DEV": "KILN", "KILN_LEVEL": level, "KILN_ADDR": server.address}
            begun, code = run_child("KILN", left, environment, out, options)
        finally:
            died = server.process.poll() is not None
            server.stop()
        got = read(out)[0]
        if died:  # what comes after the first lost connection says nothing
            lost = lambda name: name not in got or "UNAVAILABLE" in got[name].error.upper()
            begun = next((name for name in left if lost(name)), left[-1])
            got = {name: got[name] for name in left[: left.index(begun)]}
        outcomes.update(got)
        if begun:
            what = "kilnd ended with %d" % server.process.returncode if died else "the process ended with %d" % code
            outcomes[begun] = rows.Outcome(begun, [], [], 0, {}, error=what)
        left = [name for name in left if name not in outcomes]
    return outcomes


def by_cpu(names, options):
    """What tinygrad's CPU device says: of an earlier run where it has said it, for nothing but values.py decides."""
    stamp = hashlib.sha256((HERE / "values.py").read_bytes() + TINYGRAD.encode()).hexdigest()[:16]
    options.cache.mkdir(parents=True, exist_ok=True)
    kept = options.cache / ("cpu-%s" % stamp)
    with open(kept, "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = read(kept)[0]
        missing = [name for name in names if name not in known]
        if missing:
            environment = {"DEV": "CPU", "CACHEDB": str(options.cache / "compiled.db")}
            begun, code = run_child("CPU", missing, environment, kept, options)
            if begun or code:
                raise SystemExit("tinygrad's CPU device: the process ended with %d at %s" % (code, begun))
            known = read(kept)[0]
    return known


def judge(level, case, outcome, cpu, numpy):
    """What is wrong with an outcome, or nothing. Where numpy judges values, the CPU device only judges dtypes."""
    if outcome.fallbacks and level == "T":
        return "fell back: %s" % outcome.fallbacks
    reference = cpu.get(case.name) if case.row.cpu else None
    if outcome.error:
        return outcome.error
    if level == "T" and case.row.seconds and outcome.seconds > case.row.seconds:
        return "took %.2f s, and may take %g" % (outcome.seconds, case.row.seconds)
    exact = numpy.get(case.name)
    if exact and exact.error:
        return "numpy: " + exact.error
    if reference and reference.error:
        if not exact:
            return "the row does not work on tinygrad's CPU device: " + reference.error
        reference = None
    by_numpy = "numpy: " + compare.differ(case, outcome, exact, typed=False) if exact else ""
    by_cpu = "CPU: " + compare.differ(case, outcome, reference, typed=True) if reference else ""
    if exact and case.row.either and by_cpu == "CPU: ":
        return ""
    if exact and by_numpy == "numpy: ":
        return by_cpu if reference and outcome.dtypes != reference.dtypes else ""
    return by_numpy if exact else by_cpu if by_cpu != "CPU: " else ""


def parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", choices=["T", "K", "L", "all"], default="all", help="what KILN_LEVEL is (all)")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="only N cases, the same ones every time")
    parser.add_argument("--only", default="", metavar="REGEX", help="only cases whose name this is found in")
    parser.add_argument("--cc", default="clang-22", help="C compiler for tinygrad's CPU device (clang-22)")
    parser.add_argument("--cache", type=pathlib.Path, default=CACHE, help="where references are kept")
    parser.add_argument("--slow", type=float, default=2, metavar="S", help="name cases that take longer (2 s)")
    parser.add_argument("--list", action="store_true", help="only name the cases")
    return parser


def run(options):
    """{level: (outcomes, {name: what is wrong})}, run and judged."""
    if not support.KILND.exists():
        raise SystemExit("%s is not built: ./dev tinygrad-ops builds one, KILN_KILND names another" % support.KILND)
    cases = [case for case in tables.every_case() if re.search(options.only, case.name)]
    if options.sample:
        cases = tables.sample(cases, options.sample)
    names = lambda level: [case.name for case in cases if level in case.row.levels]
    levels = ["T", "K", "L"] if options.level == "all" else [options.level]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(5) as pool:
        cpu = pool.submit(by_cpu, [case.name for case in cases if case.row.cpu], options)
        exact = [case.name for case in cases if case.row.numpy and not case.gradient]
        numpy = pool.submit(by_numpy, exact, folder, options)
        ran = {level: pool.submit(run_level, level, names(level), folder, options) for level in levels}
        judged = {}
        for level in levels:
            outcomes = ran[level].result()
            found = {
                case.name: judge(level, case, outcomes[case.name], cpu.result(), numpy.result())
                for case in cases if case.name in outcomes
            }  # fmt: skip
            judged[level] = outcomes, {name: what for name, what in found.items() if what}
    return judged


def report(level, outcomes, wrong, slow):
    for name, what in wrong.items():
        print("%s %s\n    graph %s: %s" % (level, name, outcomes[name].key or "?", what[:600]))
    for name, outcome in sorted(outcomes.items(), key=lambda pair: -pair[1].seconds):
        if outcome.seconds > slow:
            print("%s slow: %.1f s: %s" % (level, outcome.seconds, name))
    kinds = collections.Counter(name.split(":")[0] for name in outcomes)
    bad = collections.Counter(name.split(":")[0] for name in wrong)
    print("%s: %s" % (level, ", ".join("%s %d/%d" % (kind, count - bad[kind], count) for kind, count in kinds.items())))
    seconds = sum(outcome.seconds for outcome in outcomes.values())
    fallbacks = sum(sum(outcome.fallbacks.values()) for outcome in outcomes.values())
    counts = (level, len(outcomes) - len(wrong), len(outcomes), fallbacks, seconds)
    print("%s: %d of %d cases pass, %d fallbacks, %.0f s" % counts)


def main():
    options = parser().parse_args()
    if options.list:
        print("\n".join(case.name for case in tables.every_case()))
        return 0
    judged = run(options)
    for level, (outcomes, wrong) in judged.items():
        report(level, outcomes, wrong, options.slow)
    return 1 if any(wrong for _, wrong in judged.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
