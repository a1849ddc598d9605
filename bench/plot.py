# SPDX-License-Identifier: Apache-2.0
"""Draws results of flashscan_bench and peers.py as PNG files.

    python3 bench/plot.py results/*.json [--peers peers.json] --out bench/results

Files: time_<layout>_b<B>_c<C>.png  time against sequence length, for every (B, C) with at least three lengths
       ceiling_<set>.png            percent of the stream ceiling of every case, with its target
"""

import argparse
import json
import os
import sys
from collections import defaultdict

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PASS_NAMES = {"fwd": "forward", "bwd": "backward"}
LAYOUT_NAMES = {"BTC": "channel innermost [B, T, C]", "BCT": "time innermost [B, C, T]"}
OURS = "#c0392b"
PEER_COLOURS = ["#2c7fb8", "#31a354", "#756bb1", "#e6a118", "#636363", "#17becf", "#8c564b", "#e377c2"]


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def is_plain(case):
    return len(case["problem"].split()) == 7


def caption(report):
    parts = [report["device"], "flashscan " + report["library_version"], report["date"][:10]]
    if report.get("driver"):
        parts.insert(1, "driver " + report["driver"])
    if report.get("commit"):
        parts.append(report["commit"][:10])
    return " · ".join(parts)


def dtype_order(dtype):
    return ["f32", "bf16", "f16", "f64", "c64", "c128"].index(dtype)


def bench_lines(reports, layout, batch, channels):
    """(dtype, pass) -> name -> [(T, us)] of flashscan and of the stream with the same traffic."""
    lines = defaultdict(lambda: defaultdict(list))
    for report in reports:
        for case in report["cases"]:
            if (case["layout"], case["batch"], case["channels"]) != (layout, batch, channels):
                continue
            if case["outcome"] != "measured" or not is_plain(case):
                continue
            panel = lines[case["dtype"], case["pass"]]
            panel["flashscan"].append((case["time"], case["median_us"]))
            panel["stream ceiling"].append((case["time"], case["required_bytes"] / case["ceiling_gbps"] * 1e-3))
    return lines


def add_peer_lines(lines, peers, layout, batch, channels):
    for case in peers["cases"]:
        if (case["layout"], case["batch"], case["channels"]) != (layout, batch, channels):
            continue
        panel = lines[case["dtype"], case["pass"]]
        ours_known = bool(panel["flashscan"])
        for result in case["results"]:
            if "median_us" not in result or (result["name"] == "flashscan" and ours_known and
                                             any(t == case["time"] for t, _ in panel["flashscan"])):
                continue
            panel[result["name"]].append((case["time"], result["median_us"]))


def draw_panel(axes, panel, colours):
    for name, points in sorted(panel.items(), key=lambda item: (item[0] != "flashscan", item[0])):
        if not points:
            continue
        points = sorted(set(points))
        times, us = zip(*points)
        if name == "flashscan":
            style = {"color": OURS, "linewidth": 2.4, "marker": "o", "zorder": 5}
        elif name == "stream ceiling":
            style = {"color": "black", "linewidth": 1, "linestyle": "--"}
        else:
            style = {"color": colours[name], "linewidth": 1.4, "marker": "s", "markersize": 4}
        axes.plot(times, us, label=name, **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.grid(True, which="major", alpha=0.35)
    axes.grid(True, which="minor", axis="y", alpha=0.12)


def plot_time(reports, peers, layout, batch, channels, out):
    lines = bench_lines(reports, layout, batch, channels)
    if peers:
        add_peer_lines(lines, peers, layout, batch, channels)
    names = sorted({name for panel in lines.values() for name in panel} - {"flashscan", "stream ceiling"})
    colours = {name: PEER_COLOURS[i % len(PEER_COLOURS)] for i, name in enumerate(names)}
    dtypes = sorted({dtype for dtype, _ in lines}, key=dtype_order)
    passes = [direction for direction in PASS_NAMES if any(key[1] == direction for key in lines)]
    figure, grid = plt.subplots(len(dtypes), len(passes), figsize=(6.4 * len(passes), 3.8 * len(dtypes) + 1.2),
                                squeeze=False, sharex=True)
    for row, dtype in enumerate(dtypes):
        for column, direction in enumerate(passes):
            axes = grid[row][column]
            draw_panel(axes, lines[dtype, direction], colours)
            axes.set_title(f"{dtype}, {PASS_NAMES[direction]}")
            axes.set_ylabel("time of one call, microseconds")
            axes.tick_params(labelbottom=True)
            if row == len(dtypes) - 1:
                axes.set_xlabel("sequence length T, steps")
    handles = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncol=4, frameon=False)
    figure.suptitle(f"Linear recurrence h[t] = a[t] h[t-1] + x[t]: time against sequence length (lower is better)\n"
                    f"B = {batch}, C = {channels}, {LAYOUT_NAMES[layout]}; median of single calls, caches flushed")
    figure.text(0.5, 0.002, caption(reports[0] if reports else peers), ha="center", fontsize=7, color="0.4")
    rows_of_legend = (len(handles) + 3) // 4
    figure.tight_layout(rect=(0, 0.03 + 0.022 * rows_of_legend, 1, 0.98))
    return save(figure, out, f"time_{layout}_b{batch}_c{channels}.png")


def label_of(case):
    words = case["problem"].split()
    return " ".join(words[2:]) + f"  ({case['array_bytes'] / 1e6:.4g} MB)"


def ceiling_target(case):
    for target in case["targets"]:
        if target["target"].startswith("@") and target["target"].endswith("%") and "plain" not in target["target"]:
            return target["limit"]
    return None


def plot_ceiling(report, name, cases, out):
    labels = list(dict.fromkeys(label_of(case) for case in cases))
    passes = [direction for direction in PASS_NAMES if any(case["pass"] == direction for case in cases)]
    figure, grid = plt.subplots(1, len(passes), figsize=(3.4 + 4.6 * len(passes), 0.21 * len(labels) + 1.9),
                                squeeze=False, sharey=True)
    widest = max(100.0, *(case["ceiling_percent"] for case in cases))
    for axes, direction in zip(grid[0], passes):
        for case in (case for case in cases if case["pass"] == direction):
            y, percent, target = labels.index(label_of(case)), case["ceiling_percent"], ceiling_target(case)
            colour = "#7f8c8d" if target is None else "#2e8b57" if percent >= target else OURS
            axes.barh(y, min(percent, 130), height=0.7, color=colour)
            axes.text(min(percent, 130) + 1, y, f"{percent:.0f}", va="center", fontsize=7)
            if target is not None:
                axes.plot([target, target], [y - 0.45, y + 0.45], color="black", linewidth=1.6)
        axes.axvline(100, color="0.5", linewidth=0.8, linestyle="--")
        axes.set_xlim(0, min(widest, 130) * 1.08)
        axes.set_title(PASS_NAMES[direction])
        axes.set_xlabel("percent of the stream ceiling")
        axes.grid(True, axis="x", alpha=0.3)
        axes.set_axisbelow(True)
    grid[0][0].set_yticks(range(len(labels)), labels, fontsize=7, family="monospace")
    grid[0][0].set_ylim(len(labels) - 0.4, -0.6)
    figure.suptitle(f"Set '{name}': bandwidth of required bytes against a plain stream of the same arrays\n"
                    "bar: measured; black tick: target; green met, red missed, grey without target; array size in brackets",
                    fontsize=9)
    figure.text(0.5, 0.004, caption(report), ha="center", fontsize=7, color="0.4")
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    return save(figure, out, f"ceiling_{name}.png")


def save(figure, out, name):
    path = os.path.join(out, name)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def shapes_with_lengths(reports, peers):
    lengths = defaultdict(set)
    for report in [*reports, *([peers] if peers else [])]:
        for case in report["cases"]:
            if is_plain(case) and case.get("outcome", "measured") == "measured":
                lengths[case["layout"], case["batch"], case["channels"]].add(case["time"])
    return sorted(shape for shape, times in lengths.items() if len(times) >= 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*", help="JSON files of flashscan_bench")
    parser.add_argument("--peers", help="JSON file of peers.py")
    parser.add_argument("--out", default=".", help="directory for the PNG files")
    options = parser.parse_args()
    reports = [load(path) for path in options.results]
    peers = load(options.peers) if options.peers else None
    if not reports and not peers:
        sys.exit("plot.py: name at least one JSON file; --help tells more")
    if peers and any(not report["device"].startswith(peers["device"]) for report in reports):
        print("plot.py: the peers were timed on another device; their lines are drawn nevertheless", file=sys.stderr)
    os.makedirs(options.out, exist_ok=True)
    for layout, batch, channels in shapes_with_lengths(reports, peers):
        print(plot_time(reports, peers, layout, batch, channels, options.out))
    for report in reports:
        sets = defaultdict(list)
        for case in report["cases"]:
            if case["outcome"] == "measured" and case["ceiling_percent"] > 0:
                sets[case["set"] or "problems"].append(case)
        for name, cases in sets.items():
            print(plot_ceiling(report, name, cases, options.out))


if __name__ == "__main__":
    main()
