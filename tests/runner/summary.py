"""Adds up test results of several tools, for `./dev test`.

Each step appends one JSON line to a results file; `total` prints the failures
and the closing line.

  summary.py bazel RESULTS NAME BEP     reads Bazel's build event file
  summary.py python RESULTS FILE...     runs unittest files, each in a process of its own
  summary.py total RESULTS              prints "N passed, M failed"; exit code 1 if any failed
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.parse
import xml.etree.ElementTree as ElementTree


def append(results, name, passed, skipped, failures):
    with open(results, "a") as out:
        out.write(json.dumps({"name": name, "passed": passed, "skipped": skipped, "failures": failures}) + "\n")


def cases(path):
    """(passed, skipped, failed names) of one test.xml."""
    passed, skipped, failed = 0, 0, []
    for case in ElementTree.parse(path).iter("testcase"):
        name = "%s.%s" % (case.get("classname", ""), case.get("name", ""))
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
        elif case.get("status") == "notrun" or case.get("result") in ("skipped", "suppressed") or case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return passed, skipped, failed


def bazel(results, name, bep):
    """Cases of every target; one failure for a target with none: not built, timed out, crashed."""
    passed, skipped, failures, built, broken, exit_code = 0, 0, [], set(), {}, 0
    for line in pathlib.Path(bep).read_text().splitlines():
        event = json.loads(line)
        id = event["id"]
        if "testResult" in id:
            label, status = id["testResult"]["label"], event["testResult"]["status"]
            xml = [out["uri"] for out in event["testResult"].get("testActionOutput", []) if out["name"] == "test.xml"]
            failed = []
            if xml and status in ("PASSED", "FLAKY", "FAILED"):
                path = urllib.parse.unquote(urllib.parse.urlparse(xml[0]).path)
                try:
                    more_passed, more_skipped, failed = cases(path)
                    passed, skipped = passed + more_passed, skipped + more_skipped
                except (OSError, ElementTree.ParseError) as error:
                    failed = ["test.xml cannot be read: %s" % error]
            if status not in ("PASSED", "FLAKY") and not failed:
                failed = [status]
            failures += ["%s %s" % (label, case) for case in failed]
            built.add(label)
        elif "targetCompleted" in id:
            if not event.get("completed", {}).get("success", False):
                broken[id["targetCompleted"]["label"]] = "did not build"
        elif "finished" in event:
            exit_code = event["finished"].get("exitCode", {}).get("code", 0)
    failures += ["%s %s" % item for item in broken.items() if item[0] not in built]
    if exit_code not in (0, 4) and not failures:  # 4: no test among the targets
        failures.append("bazel itself ended with %d" % exit_code)
    append(results, name, passed, skipped, failures)


RUN_ONE = """
import importlib.util, json, os, sys, unittest
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[1]))  # as if the file had been started by its name
spec = importlib.util.spec_from_file_location("test_module", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["test_module"] = module
spec.loader.exec_module(module)
result = unittest.TextTestRunner(stream=sys.stderr).run(unittest.defaultTestLoader.loadTestsFromModule(module))
bad = sorted({str(getattr(case, "test_case", case)) for case, _ in result.failures + result.errors})
bad += [str(case) for case in result.unexpectedSuccesses]
print(json.dumps([result.testsRun - len(result.skipped) - len(bad), len(result.skipped), bad]))
"""


# Long ones, the longest first, which are begun before the others: what runs at the end then ends together.
LONG = ["tests/clients/rust_client_test.py", "tests/hostile/hostile_test.py", "tests/tinygrad/sort_l_test.py",
        "tests/tidy/toy_rows_test.py", "tests/clients/java_client_test.py", "tests/tinygrad/hash_test.py",
        "tests/tinygrad/operators/ops_test.py", "tests/clients/ts_client_test.py", "tests/python/jax/cases_test.py",
        "tests/clients/go_client_test.py", "tests/tinygrad/sort_k_test.py", "tests/chaos/chaos_test.py"]  # fmt: skip


def ordered(files):
    return sorted(files, key=lambda file: (LONG.index(file) if file in LONG else len(LONG), file))


def run_file(file):
    """(seconds it took, what it said, passed, skipped, failed names) of one file."""
    started = time.monotonic()
    # Files, not pipes: a server that outlives a test which was killed would hold a pipe open, and us with it.
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as said:
        code = subprocess.run([sys.executable, "-c", RUN_ONE, file], stdout=out, stderr=said).returncode
        out.seek(0)
        said.seek(0)
        try:
            passed, skipped, failed = json.loads(out.read().strip().splitlines()[-1])
        except (IndexError, ValueError):
            passed, skipped, failed = 0, 0, ["could not be run (exit code %d)" % code]
        return time.monotonic() - started, said.read(), passed, skipped, failed


def python(results, files):
    """As many at a time as there are cores; what each said is printed as a whole when it has ended."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        begun = [pool.submit(lambda file: (file, *run_file(file)), file) for file in ordered(files)]
        for done in concurrent.futures.as_completed(begun):
            file, seconds, said, passed, skipped, failed = done.result()
            print("== %s, %.0f s\n%s" % (file, seconds, said), flush=True)
            append(results, file, max(passed, 0), skipped, ["%s %s" % (file, case) for case in failed])


def total(results):
    steps = [json.loads(line) for line in pathlib.Path(results).read_text().splitlines()]
    print()
    for step in steps:
        print("%-60s %6d passed %4d failed %4d skipped" %
              (step["name"], step["passed"], len(step["failures"]), step["skipped"]))
    failures = [failure for step in steps for failure in step["failures"]]
    for failure in failures:
        print("FAILED " + failure)
    print("%d passed, %d failed" % (sum(step["passed"] for step in steps), len(failures)))
    return 1 if failures or not steps else 0


def main(command, results, *rest):
    if command == "bazel":
        return bazel(results, *rest)
    if command == "python":
        return python(results, rest)
    return total(results)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
