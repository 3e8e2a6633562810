"""Draws a suite's rows under the machine's roofline, from the file that the suite wrote.

    ./dev bench gemm        writes out/bench/gemm.json and, with matplotlib (./dev bench --setup), gemm.png

The roof is what the same run measured: fused multiply-adds, and copies in the caches and
in memory. A row stands at its flops for each byte that it must move at the least. Rows
that are counted in bytes alone stand in a second picture, beside what a copy reaches.
"""

import json
import pathlib
import sys


def rate(row, party, amount):
    return row[amount] / party["best_s"] / 1e9


def best_peer(row):
    return min(row["parties"][1:], key=lambda party: party["best_s"], default=None)


def draw_roof(axes, peak, rows):
    """Rows that are counted in flops."""
    intensities = [row["flops"] / row["bytes"] for row in rows]
    span = [min(intensities) / 2, max(intensities) * 2]
    for name, style in (("cache_gbs", "--"), ("memory_gbs", ":")):
        ridge = peak["gflops"] / peak[name]
        at = sorted({*span, min(max(ridge, span[0]), span[1])})
        axes.plot(at, [min(peak["gflops"], peak[name] * x) for x in at], "k" + style, linewidth=1,
                  label="%s, %.0f GB/s" % (name.split("_")[0], peak[name]))
    for row, x in zip(rows, intensities):
        ours = rate(row, row["parties"][0], "flops")
        axes.plot(x, ours, "o", color="tab:red", markersize=5)
        axes.annotate(row["row"], (x, ours), fontsize=6, xytext=(3, -7), textcoords="offset points")
        peer = best_peer(row)
        if peer:
            axes.plot(x, rate(row, peer, "flops"), "_", color="tab:blue", markersize=12)
    axes.set(xscale="log", yscale="log", xlabel="flops for each byte", ylabel="GF/s")
    axes.legend(fontsize=7)


def draw_bars(axes, peak, rows):
    """Rows that are counted in bytes."""
    at = range(len(rows))
    axes.barh([y + 0.2 for y in at], [rate(row, row["parties"][0], "bytes") for row in rows], 0.4, color="tab:red")
    peers = [(y, row, best_peer(row)) for y, row in zip(at, rows) if best_peer(row)]
    axes.barh([y - 0.2 for y, _, _ in peers], [rate(row, peer, "bytes") for _, row, peer in peers], 0.4, color="tab:blue")
    for name, style in (("cache_gbs", "--"), ("memory_gbs", ":")):
        axes.axvline(peak[name], color="k", linestyle=style, linewidth=1, label="copy, " + name.split("_")[0])
    axes.set_yticks(list(at), [row["row"] for row in rows], fontsize=7)
    axes.invert_yaxis()
    axes.set(xlabel="GB/s")
    axes.legend(fontsize=7)


def main(path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    suite = json.loads(path.read_text())
    kinds = [(amount, draw) for amount, draw in (("flops", draw_roof), ("bytes", draw_bars))
             if any((row["flops"] > 0) == (amount == "flops") for row in suite["rows"])]  # fmt: skip
    figure, all_axes = pyplot.subplots(len(kinds), len(suite["peaks"]), squeeze=False, layout="constrained",
                                       figsize=(7 * len(suite["peaks"]), 5 * len(kinds)))  # fmt: skip
    for line, (amount, draw) in zip(all_axes, kinds):
        for axes, peak in zip(line, suite["peaks"]):
            rows = [row for row in suite["rows"]
                    if row["threads"] == peak["threads"] and (row["flops"] > 0) == (amount == "flops")]  # fmt: skip
            draw(axes, peak, rows)
            axes.set_title("%s, %d threads: Kiln red, its best peer blue" % (suite["suite"], peak["threads"]), fontsize=9)
    figure.savefig(path.with_suffix(".png"), dpi=130)
    print("%s" % path.with_suffix(".png"))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
