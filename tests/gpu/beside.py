"""beside.py KILN.jsonl [TORCH.jsonl]: what gpu_bench measured, and PyTorch beside it, as tables in Markdown.

Rows are joined by device and name. The ratio is PyTorch's time by Kiln's: at 2.00 Kiln is twice as fast.
"""

import json
import sys


def load(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines if line.strip()]


def seconds(row):
    if row is None:
        return ""
    if "error" in row:
        return row["error"].splitlines()[0][:80].replace("|", "/")
    value = row["seconds"]
    return "%.3f ms" % (value * 1e3) if value >= 1e-4 else "%.2f us" % (value * 1e6)


def rate(row):
    if row is None or "error" in row:
        return ""
    if row.get("flops"):
        return "%.1f TFLOP/s" % (row["flops"] / row["seconds"] * 1e-12)
    if row.get("bytes"):
        return "%.0f GB/s" % (row["bytes"] / row["seconds"] * 1e-9)
    return ""


def table(device, kiln, torch):
    lines = ["", "%s: %s" % (device, kiln[0].get("card", ""))]
    if torch is None:
        lines += ["", "| work | Kiln | |", "|---|---|---|"]
        return lines + ["| %s | %s | %s |" % (row["row"], seconds(row), rate(row)) for row in kiln]
    named = {row["row"]: row for row in torch}
    lines += ["", "Beside %s." % torch[0].get("by", "PyTorch"), "",
              "| work | Kiln | | PyTorch | | PyTorch's time by Kiln's | way of PyTorch |", "|---|---|---|---|---|---|---|"]
    for row in kiln:
        other = named.pop(row["row"], None)
        both = other is not None and "error" not in row and "error" not in other
        # The work of a row is what gpu_bench says it is.
        counted = other and {**other, "flops": row.get("flops"), "bytes": row.get("bytes")}
        lines.append("| %s | %s | %s | %s | %s | %s | %s |" % (
            row["row"], seconds(row), rate(row), seconds(other), rate(counted),
            "%.2f" % (other["seconds"] / row["seconds"]) if both else "", (other or {}).get("way", "")))
    return lines + ["", "Of PyTorch alone: %s" % ", ".join(named)] if named else lines


def main(arguments):
    kiln = load(arguments[0])
    torch = load(arguments[1]) if len(arguments) > 1 else []
    for device in dict.fromkeys(row["device"] for row in kiln):
        beside = [row for row in torch if row["device"] == device]
        print("\n".join(table(device, [row for row in kiln if row["device"] == device], beside or None)))


if __name__ == "__main__":
    main(sys.argv[1:])
