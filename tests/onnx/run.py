"""Every node test of the onnx package against the importer, and against onnxruntime; writes docs/onnx.md.

  run.py RUNNER [--engine cpu|interp] [--only PART]… [--write FILE] [--verbose]

Exit code 1 if anything that was taken gave a wrong answer.
"""

import argparse
import collections
import pathlib
import re
import sys
import tempfile

import numpy
import onnx
from onnx import numpy_helper

import cases
import op_rows


def by_onnxruntime(case):
    """passed, refused or failed."""
    import onnxruntime

    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(case.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:
        return "refused"
    names = [one.name for one in session.get_inputs()]
    values = [numpy_helper.to_array(one) if isinstance(one, onnx.TensorProto) else one for one in case.inputs]
    try:
        outputs = session.run(None, dict(zip(names, values)))
    except Exception:
        return "refused"
    got, want = [array for value in outputs for array in cases.flat(value)], case.expected()
    if len(got) != len(want):
        return "failed"
    try:
        wrong = any(cases.difference(numpy.asarray(a), b, case.rtol, case.atol) for a, b in zip(got, want))
    except Exception:
        return "failed"
    return "failed" if wrong else "passed"


def theme(reason):
    """A reason without the names and numbers that make it another one in each case."""
    return re.sub(r'^node \d+ "[^"]*" ', "", reason)


def others():
    """Ops of other domains than the standard's, by the rows of models/onnx/ops; NAME is the domain's in op_table.h."""
    names = collections.defaultdict(set)
    for path in sorted((cases.ROOT / "models" / "onnx" / "ops").rglob("*.cc")):
        for row in re.split(r'\n    (?={")', path.read_text())[1:]:
            found = re.search(r"\bk(Microsoft|Ml|Preview)\b", row.split("\n};")[0])
            if found:
                names[{"Microsoft": "com.microsoft", "Ml": "ai.onnx.ml", "Preview": "ai.onnx.preview"}[found[1]]].add(row.split('"')[1])
    return {domain: sorted(ops) for domain, ops in sorted(names.items())}


def page(rows, version, runtime):
    count = collections.Counter(verdict for _, verdict, _, _, _ in rows)
    fixed = sum(1 for _, verdict, _, names, _ in rows if verdict == "passed" and names)
    theirs = collections.Counter(verdict for *_, verdict in rows)
    both = sum(1 for _, verdict, _, _, other in rows if verdict == other == "passed")
    lines = [
        "# ONNX: what is taken", "",
        "Written by `./dev onnx`: every node test of the `onnx` package %s, imported by `models/onnx/model.h`, compiled for" % version,
        "the CPU, run, and compared within the test's own tolerance, for 16-bit floats at least two units in the last place;",
        "beside it onnxruntime %s on the same files." % runtime,
        "Refused: an error that names node, op, opset and reason. Of a part of the tests the shapes depend on an input",
        "(Reshape's `shape`, Pad's `pads`); there the value is offered at import and is part of the program.", "",
        "| | passed | of these with values offered | refused | wrong |", "|---|---|---|---|---|",
        "| Kiln | %d | %d | %d | %d |" % (count["passed"], fixed, count["refused"], count["failed"]),
        "| onnxruntime | %d | | %d | %d |" % (theirs["passed"], theirs["refused"], theirs["failed"]), "",
        "Of the %d that onnxruntime passes Kiln passes %d: %.1f%%." % (theirs["passed"], both, 100.0 * both / max(1, theirs["passed"])), "",
        "## Other domains", "",
        "Ops beside the standard's that are taken, but for ZipMap, CastMap, DictVectorizer and CategoryMapper, which are refused",
        "with what to do. `tests/onnx/README.md` says what each is compared with.", "", "| domain | ops |", "|---|---|",
        *("| %s | %s |" % (domain, ", ".join(ops)) for domain, ops in others().items()), "",
        "## Ops of the standard", "",
        "Of each op: since which opsets it means what (a version each), which of these versions the tests above have, how many",
        "tests with it pass and are refused. A test is of all ops in its model; one that is refused is of the op at fault alone, if",
        "the reason names one.", "", *op_rows.lines(rows, theme), "",
        "## Refused", "", "| op and reason | tests | onnxruntime passes |", "|---|---|---|",
    ]  # fmt: skip
    refused = collections.defaultdict(list)
    for case, verdict, reason, _, other in rows:
        if verdict != "passed":
            refused[("wrong: " + case.name + ": " if verdict == "failed" else "") + theme(reason)].append(other == "passed")
    for reason, passed in sorted(refused.items(), key=lambda item: (-len(item[1]), item[0])):
        lines.append("| %s | %d | %d |" % (reason.replace("|", "/"), len(passed), sum(passed)))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runner")
    parser.add_argument("--engine", default="cpu")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--write")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    words = parser.parse_args()
    runner, rows = cases.Runner(words.runner, words.engine), []
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(cases.load()):
            if words.only and not any(part in case.name for part in words.only):
                continue
            here = pathlib.Path(folder) / str(number)
            verdict, reason, fixed = runner.run(case, here)
            if verdict == "refused":
                verdict, reason, fixed = runner.run(case, here, offer=True)
            peer = "passed" if words.no_peer else by_onnxruntime(case)
            rows.append((case, verdict, reason, fixed, peer))
            if words.verbose or verdict == "failed":
                print(case.name, verdict, reason, ",".join(fixed), "peer:", peer, flush=True)
    runner.close()
    try:
        import onnxruntime
        peer_version = onnxruntime.__version__
    except ImportError:
        peer_version = "(not there)"
    text = page(rows, onnx.__version__, peer_version)
    if words.write:
        pathlib.Path(words.write).write_text(text)
    print(text)
    return 1 if any(verdict == "failed" for _, verdict, *_ in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
