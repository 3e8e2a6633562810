"""A row of docs/onnx.md for each op of the standard: how many of its tests pass, and why others are refused.

A test counts for each op that its model has a node of, in whatever graph or function. If it is refused and the reason
names an op, it counts for that one alone: the others were not at fault."""

import collections
import re

import onnx
from onnx import AttributeProto

import cases

NAMED = re.compile(r"\(((?:[\w.]+\.)?)(\w+), opset \d+\)")
# The beginning of a row of OpRow, also in a macro.
ROW = re.compile(r'"(\w+)", \d+, ')
OTHERS = re.compile(r"\bk(Microsoft|Ml|Preview)\b")


def taken():
    """Ops of the standard that models/onnx/ops has a function for."""
    found = set()
    for path in (cases.ROOT / "models" / "onnx" / "ops").glob("*.cc"):
        _, *rows = ROW.split(path.read_text())
        found |= {name for name, rest in zip(rows[::2], rows[1::2]) if not OTHERS.search(rest)}
    return found


def used(nodes, opset):
    """{(op, the opset that its node is of)}, also of graphs in nodes."""
    found = set()
    for node in nodes:
        if node.domain in ("", "ai.onnx"):
            found.add((node.op_type, opset))
        for attribute in node.attribute:
            graphs = [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs
            for graph in graphs:
                found |= used(graph.node, opset)
    return found


def ops_of(model):
    """{(op, version of the op)} of all nodes, those of functions with them."""

    def opset(imports):
        return max((one.version for one in imports if one.domain in ("", "ai.onnx")), default=1)

    found = used(model.graph.node, opset(model.opset_import))
    for function in model.functions:
        found |= used(function.node, opset(function.opset_import))
    versions = set()
    for name, version in found:
        try:
            versions.add((name, onnx.defs.get_schema(name, version, "").since_version))
        except onnx.defs.SchemaError:
            continue
    return versions


def lines(rows, theme):
    """The table; `rows` are (case, verdict, reason, …), `theme` shortens a reason."""
    versions, tested = collections.defaultdict(set), collections.defaultdict(set)
    passed, refused = collections.Counter(), collections.defaultdict(collections.Counter)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            versions[schema.name].add(schema.since_version)
    for case, verdict, reason, *_ in rows:
        named = NAMED.search(reason) if verdict != "passed" else None
        for name, version in ops_of(case.model):
            if named and (named[1] or named[2] != name):
                continue
            tested[name].add(version)
            if verdict == "passed":
                passed[name] += 1
            else:
                # The row says which op and the column which opset; what its inputs are called does not matter.
                refused[name][re.sub(r'^input "[^"]*"', "an input", NAMED.sub("", theme(reason)).strip(": "))] += 1
    known = taken()
    made = ["| op | its versions | tested | passed | refused | why |", "|---|---|---|---|---|---|"]
    for name in sorted(versions):
        why = "; ".join("%s (%d)" % row for row in sorted(refused[name].items(), key=lambda row: (-row[1], row[0])))
        if not tested[name]:
            why = "no test" if name in known else "no test, and not taken"
        numbers = [", ".join(map(str, sorted(one))) for one in (versions[name], tested[name])]
        counts = passed[name], sum(refused[name].values())
        made.append("| %s | %s | %s | %d | %d | %s |" % (name, *numbers, *counts, why.replace("|", "/")))
    return made
