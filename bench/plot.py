# SPDX-License-Identifier: Apache-2.0
"""Draw benchmark results as one SVG: bandwidth curves above, a table of speed-ups below.

    python3 bench/plot.py RESULTS.csv [--floor SWEEP.csv] [--title TEXT] --out figure.svg

RESULTS.csv is what bench/peers.py writes (shape, kv_bytes, gqa and peers in us) or what
`gqa bench --format csv` prints (shape, median_us, gb_s, floor_gb_s). --floor adds the stream floor
that bench/sweep.c measured (rows "shape,floor,pdl,us"). Needs matplotlib (Debian:
python3-matplotlib).
"""
import argparse
import csv
import re

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

NOT_CONTENDERS = {"shape", "kv_bytes", "sets", "kernel", "floor"}  # nor "ratio ..."
COLOURS = {"gqa": "#0b6e4f", "gqa-early": "#55b08f", "cudnn": "#c8553d", "flash": "#5b7db1",
           "flashinfer": "#8e6c8a", "fa3": "#b08900", "floor": "#9a9a9a"}


def parse_shape(text):
    """'1 16/2 128 4096' (peers) or '1 16/2/128 L4096 bf16 hnd' (gqa bench)."""
    m = re.match(r"(\d+) (\d+)/(\d+)[ /](\d+) L?(\d+)(.*)$", text)
    if not m:
        raise SystemExit(f"plot.py: not a shape: {text!r}")
    batch, q_heads, kv_heads, dim, length = map(int, m.groups()[:5])
    return batch, q_heads, kv_heads, dim, length, m.group(6).strip()


def read_results(path):
    """[{shape, kv_bytes, us: {contender: us}}] from either format."""
    rows = []
    with open(path, newline="") as f:
        for line in csv.DictReader(f):
            shape = parse_shape(line["shape"])
            if "gqa" in line:
                us = {k: float(v) for k, v in line.items()
                      if k not in NOT_CONTENDERS and not k.startswith("ratio") and v}
                rows.append({"shape": shape, "kv_bytes": float(line["kv_bytes"]), "us": us})
            else:
                us = {"gqa": float(line["median_us"])}
                kv_bytes = us["gqa"] * float(line["gb_s"]) * 1e3
                if float(line.get("floor_gb_s") or 0) > 0:
                    us["floor"] = kv_bytes / float(line["floor_gb_s"]) / 1e3
                rows.append({"shape": shape, "kv_bytes": kv_bytes, "us": us})
    return rows


def add_floor(rows, path):
    best = {}
    with open(path, newline="") as f:
        for line in csv.DictReader(f):
            if line["kernel"] == "floor" and line["way"] != "early":
                us = float(line["us"])
                best[line["shape"]] = min(us, best.get(line["shape"], us))
    for row in rows:
        b, hq, hkv, d, n, _ = row["shape"]
        us = best.get(f"{b} {hq}/{hkv} {d} {n}")
        if us:
            row["us"]["floor"] = us


def families(rows):
    """Rows that differ in one thing: the length at batch 1, else the batch."""
    groups = {}
    for row in rows:
        b, hq, hkv, d, n, rest = row["shape"]
        key = (f"{hq}/{hkv}, {d} wide {rest}", "kv_len") if b == 1 else (
            f"{hq}/{hkv}, {d} wide, {n} tokens {rest}", "batch")
        groups.setdefault(key, []).append(row)
    return {k: sorted(v, key=lambda r: r["kv_bytes"]) for k, v in groups.items() if len(v) > 1}


def draw_curves(axes, name, axis, rows):
    at = 4 if axis == "kv_len" else 0
    for who in ["floor"] + [w for w in COLOURS if w != "floor"]:
        points = [(r["shape"][at], r["kv_bytes"] / r["us"][who] / 1e3)
                  for r in rows if who in r["us"]]
        if points:
            axes.plot(*zip(*points), marker="o" if who != "floor" else None, markersize=3,
                      linestyle="-" if who != "floor" else "--", label=who,
                      color=COLOURS[who], linewidth=2 if who == "gqa" else 1.2)
    axes.set_xscale("log", base=2)
    axes.set_title(name, fontsize=9)
    axes.set_xlabel({"kv_len": "tokens, batch 1", "batch": "sequences"}[axis], fontsize=8)
    axes.set_ylabel("K and V, GB/s", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.25)


def draw_table(axes, rows, peer):
    """Speed-up over `peer`, one line per family, one cell per point."""
    axes.set_axis_off()
    lines = families([r for r in rows if peer in r["us"]])
    if not lines:
        return
    width = max(len(v) for v in lines.values())
    cells, colours, names = [], [], []
    for (name, axis), family in lines.items():
        at = 4 if axis == "kv_len" else 0
        ratios = [r["us"][peer] / r["us"]["gqa"] for r in family]
        texts = [f"{v:.2f}x at {r['shape'][at]}" for v, r in zip(ratios, family)]
        shade = [plt.cm.RdYlGn(min(max((v - 0.6) / 1.4, 0), 1), alpha=0.6) for v in ratios]
        cells.append(texts + [""] * (width - len(texts)))
        colours.append(shade + ["white"] * (width - len(shade)))
        names.append(name)
    table = axes.table(cellText=cells, cellColours=colours, rowLabels=names, loc="upper center")
    table.auto_set_font_size(False)
    table.set_fontsize(7)
    product = 1.0
    compared = [r for r in rows if peer in r["us"]]
    for r in compared:
        product *= (r["us"][peer] / r["us"]["gqa"]) ** (1 / len(compared))
    axes.set_title(f"times faster than {peer}: geometric mean {product:.2f} over "
                   f"{len(compared)} shapes", fontsize=9)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results")
    parser.add_argument("--floor")
    parser.add_argument("--title", default="gqa: decode attention")
    parser.add_argument("--peer", default="cudnn")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    rows = read_results(args.results)
    if args.floor:
        add_floor(rows, args.floor)
    panels = families(rows)
    if not panels:
        raise SystemExit("plot.py: no two shapes differ in length or batch alone")
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    has_table = any(args.peer in r["us"] for r in rows)
    height = 2.6 * lines + (0.4 + 0.22 * len(panels) if has_table else 0)
    figure = plt.figure(figsize=(4 * columns, height), layout="constrained")
    grid = figure.add_gridspec(lines + has_table, columns,
                               height_ratios=[2.6] * lines +
                               ([0.4 + 0.22 * len(panels)] if has_table else []))
    for i, ((name, axis), family) in enumerate(panels.items()):
        axes = figure.add_subplot(grid[i // columns, i % columns])
        draw_curves(axes, name, axis, family)
        if i == 0:
            axes.legend(fontsize=7)
    if has_table:
        draw_table(figure.add_subplot(grid[lines, :]), rows, args.peer)
    figure.suptitle(args.title, fontsize=11)
    figure.savefig(args.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
