# SPDX-License-Identifier: Apache-2.0
"""Charts of percent of the stream ceiling, with the targets."""

from collections import defaultdict

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

import charts
import reports
from judgements import ROWS, judgements_of

PASS_COLOURS = {"fwd": "#1f5fa8", "bwd": "#d9731a"}
PASS_MARKERS = {"fwd": "o", "bwd": "s"}
PASS_SHIFTS = {"fwd": -0.16, "bwd": 0.16}  # of a row's height, so that the two never hide each other
TARGET_MARK = {"color": "black", "marker": "|", "markersize": 11, "markeredgewidth": 2, "linestyle": ""}
STREAM_MARK = {"color": "0.5", "marker": "x", "markersize": 4.5, "linestyle": ""}


def dot_style(direction, met):
    colour = PASS_COLOURS[direction]
    return {"marker": PASS_MARKERS[direction], "markersize": 4 if met is None else 6, "linestyle": "",
            "color": colour, "markerfacecolor": colour if met is not False else "white", "markeredgewidth": 1.3,
            "alpha": 0.6 if met is None else 1, "zorder": 4}


def legend_of_dots(figure, untargeted=False, stream=False):
    handles = [Line2D([], [], label=label, **dot_style(direction, met))
               for direction, met, label in (("fwd", True, "forward"), ("bwd", True, "backward"))]
    handles += [Line2D([], [], label="hollow: target missed", **dot_style("fwd", False)),
                Line2D([], [], label="target", **TARGET_MARK)]
    if untargeted:
        handles.append(Line2D([], [], label="small: no target", **dot_style("fwd", None)))
    if stream:
        handles.append(Line2D([], [], label="plain stream", **STREAM_MARK))
    figure.legend(handles=handles, loc="lower center", ncol=len(handles), frameon=False, fontsize=8,
                  bbox_to_anchor=(0.5, 0.22 / figure.get_figheight()), handletextpad=0.2, columnspacing=1.4)


def name_rows(axes, labels, **style):
    axes.set_yticks(range(len(labels)), labels, **style)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    for y in range(0, len(labels), 2):
        axes.axhspan(y - 0.5, y + 0.5, color="0.96", zorder=0)
    axes.grid(True, axis="x", alpha=0.4)
    axes.set_axisbelow(True)


def judged(case, unit):
    """(limit to draw, whether all is met) of the targets on what is drawn: "us" on the GPU, or "%" of the ceiling, to
    which the distance from the plain case belongs. None: no such target."""
    limit, met = None, []
    for target in case["targets"]:
        kind, number, found = reports.TARGET.fullmatch(target["target"]).groups()
        if found == unit and kind != "host" and target["met"] is not None:
            met.append(target["met"])
            limit = limit if kind else float(number)
    return limit, all(met) if met else None


def size_text(num_bytes):
    return f"{num_bytes} B" if num_bytes < 1000 else f"{num_bytes * 1e-3:.3g} kB" if num_bytes < 1e6 else \
        f"{num_bytes * 1e-6:.0f} MB"


def draw_case(axes, case, y, unit):
    y += PASS_SHIFTS[case["pass"]]
    limit, met = judged(case, unit)
    axes.plot(case["median_us"] if unit == "us" else case["ceiling_percent"], y, **dot_style(case["pass"], met))
    if limit is not None:
        axes.plot([limit, limit], [y - 0.3, y + 0.3], color="black", linewidth=2, zorder=3)
    if unit == "us":
        axes.plot(reports.stream_us(case), y, zorder=2, **STREAM_MARK)
    return met is None


def plot_set(report, name, cases, out):
    labels = list(dict.fromkeys(map(reports.short_name, cases)))
    sizes = {reports.short_name(case): size_text(case["array_bytes"]) for case in cases}
    width, unit = max(map(len, labels)), "us" if name == "tiny" else "%"
    figure, axes = plt.subplots(figsize=(9.5, 0.2 * len(labels) + 1.7))
    untargeted = [draw_case(axes, case, labels.index(reports.short_name(case)), unit) for case in cases]
    name_rows(axes, [f"{label:<{width}} {sizes[label]:>8}" for label in labels], fontsize=7, family="monospace")
    if unit == "us":
        axes.set_xscale("log")
        charts.number_axis(axes.xaxis, (1, 2, 3, 4, 5, 6, 8))
        axes.set_xlabel("microseconds of one call on the GPU (logarithmic)")
    else:
        percent_axis(axes, cases)
    title = "time of one call" if unit == "us" else "bandwidth of required bytes against a plain stream of such arrays"
    legend_of_dots(figure, any(untargeted), unit == "us")
    charts.finish(figure, report, 0.45, f"Set '{name}': {title}\nproblem and size of an array on the left")
    return charts.save(figure, out, f"{'time' if unit == 'us' else 'ceiling'}_{name}.png")


def percent_axis(axes, cases):
    percents = [case["ceiling_percent"] for case in cases]
    first = min(50, max(0, int(min(percents) - 5) // 10 * 10))
    axes.axvline(100, color="0.4", linewidth=1, linestyle=":")
    axes.set_xticks(range(first, 101, 10))
    axes.set_xlim(first, max(104.0, max(percents) + 3))
    axes.set_xlabel("percent of the stream ceiling")


def plot_overview(results, out):
    rows = defaultdict(list)
    for item in judgements_of(results):
        if item.measured is not None and item.row not in ("tiny", "host", "step", "rnn", "custom"):
            rows[item.row].append(item)
    if not rows:
        return None
    keys = [key for key in ROWS if key in rows]
    figure, axes = plt.subplots(figsize=(9.5, 0.5 * len(keys) + 1.9))
    for y, key in enumerate(keys):
        for item in rows[key]:
            axes.plot(item.case["ceiling_percent"], y + PASS_SHIFTS[item.case["pass"]],
                      **{**dot_style(item.case["pass"], item.met), "alpha": 0.75, "markersize": 4.5})
            if key != "features":
                axes.plot([item.limit, item.limit], [y - 0.4, y + 0.4], color="black", linewidth=2, zorder=3)
    met = {key: sum(bool(item.met) for item in rows[key]) for key in keys}
    titles = ["{}\n{}: {} of {}".format(*ROWS[key], met[key], len(rows[key])) for key in keys]
    name_rows(axes, titles, fontsize=8)
    percent_axis(axes, [item.case for items in rows.values() for item in items])
    legend_of_dots(figure)
    charts.finish(figure, results.benches[0], 0.45,
                  "Bandwidth of required bytes against a plain stream of such arrays\n"
                  "a dot for each problem with a target; on the left: the target and how many meet it")
    return charts.save(figure, out, "ceiling.png")


def plot(results, out):
    """All charts of this file; returns their paths."""
    paths = [plot_overview(results, out)]
    for report in results.benches:
        sets = defaultdict(list)
        for case in report["cases"]:
            if reports.is_measured(case) and reports.moves_numbers(case):
                sets[case["set"] or "problems"].append(case)
        paths += [plot_set(report, name, cases, out) for name, cases in sets.items()]
    return [path for path in paths if path]
