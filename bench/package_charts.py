# SPDX-License-Identifier: Apache-2.0
"""Charts of flashscan beside other packages: time against sequence length, and bars where there is one length."""

from collections import defaultdict

import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter

import charts
import reports

LAYOUT_NAMES = {"BTC": "channel innermost [B, T, C]", "BCT": "time innermost [B, C, T]"}
OURS = "#c0392b"
STREAM = "stream ceiling"
PEER_COLOURS = {
    "accelerated-scan warp": "#2c7fb8", "accelerated-scan scalar": "#d45d9e", "torch associative_scan": "#31a354",
    "jax associative_scan": "#756bb1", "sequential_scan CUDA": "#e6a118", "sequential_scan Triton": "#b8860b",
    "fla chunk_hgrn": "#636363", "fla fused_recurrent_hgrn": "#8c564b"}
QUOTED = " (quoted)"


def colour_of(name):
    return OURS if name == "flashscan" else "black" if name == STREAM else PEER_COLOURS.get(
        name.removesuffix(QUOTED), "0.4")


def times_of(results):
    """(layout, batch, channels) -> (dtype, pass) -> name -> {T: us}. flashscan's own time comes from its bench;
    a package's time measured beside flashscan stands before its quoted one."""
    shapes = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))

    def panel(case, direction):
        return shapes[case["layout"], case["batch"], case["channels"]][case["dtype"], direction]

    for case in reports.plain_cases(results):
        if case["set"] == "peers":
            panel(case, case["pass"])["flashscan"][case["time"]] = case["median_us"]
            panel(case, case["pass"])[STREAM][case["time"]] = reports.stream_us(case)
    for report in results.peers:
        for case in filter(reports.is_linear, report["cases"]):
            for result in case["results"]:
                if "median_us" in result:
                    panel(case, case["pass"])[result["name"]].setdefault(case["time"], result["median_us"])
    for entry, direction, us in reports.quoted_results(results):
        panel(entry, direction)[entry["name"] + QUOTED][entry["time"]] = us
    return shapes


def sort_names(names):
    return sorted(names, key=lambda name: (name != "flashscan", name == STREAM, name))


def line_style(name):
    if name == "flashscan":
        return {"linewidth": 2.4, "marker": "o", "markersize": 5, "zorder": 5}
    if name == STREAM:
        return {"linewidth": 1.1, "linestyle": ":"}
    if name.endswith(QUOTED):
        return {"linewidth": 1.4, "linestyle": "--", "marker": "^", "markersize": 4.5, "markerfacecolor": "white"}
    return {"linewidth": 1.4, "marker": "s", "markersize": 4}


def draw_lines(axes, lines, share):
    for name in sort_names(lines):
        points = lines[name]
        if share:
            points = {time: lines[STREAM][time] / us * 100 for time, us in points.items() if time in lines[STREAM]}
        if points:
            axes.plot(*zip(*sorted(points.items())), label=name, color=colour_of(name), **line_style(name))
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(FuncFormatter(charts.plain_number))
    axes.tick_params(axis="x", labelbottom=True)
    if share:
        axes.set_ylim(bottom=0)
    else:
        axes.set_yscale("log")
        charts.number_axis(axes.yaxis)
    axes.grid(True, which="major", alpha=0.4)
    axes.grid(True, which="minor", axis="y", alpha=0.15)


def is_line_shape(panels):
    return any(len(lines.get("flashscan", ())) >= 4 for lines in panels.values())


def notes_on(names):
    notes = ["quoted: another run"] if any(name.endswith(QUOTED) for name in names) else []
    jax = any(name.startswith("jax") for name in names)
    return "".join("; " + note for note in notes + (["jax: wall clock, backward with forward"] if jax else []))


def plot_lines(shape, panels, dtypes, report, out, share):
    """Time against length, or with `share` the stream's time in percent of it."""
    layout, batch, channels = shape
    dtypes = [dtype for dtype in dtypes if any(key[0] == dtype for key in panels)]
    if not dtypes:
        return None
    figure, grid = plt.subplots(len(dtypes), 2, figsize=(11, 3.6 * len(dtypes) + 1.4), squeeze=False, sharex=True,
                                sharey="row")
    for row, dtype in zip(grid, dtypes):
        for axes, direction in zip(row, reports.PASS_NAMES):
            draw_lines(axes, panels[dtype, direction], share)
            axes.set_title(f"{dtype}, {reports.PASS_NAMES[direction]}", fontsize=10)
            axes.set_xlabel("sequence length T, steps")
        row[0].set_ylabel("percent of the stream ceiling" if share else "time of one call, microseconds")
    handles = {}
    for axes in grid.flat:
        handles.update(dict(zip(*reversed(axes.get_legend_handles_labels()))))
    names = sort_names(handles)
    figure.legend([handles[name] for name in names], names, loc="lower center", ncol=4, frameon=False, fontsize=9,
                  bbox_to_anchor=(0.5, 0.2 / figure.get_figheight()), handlelength=3)
    what = "bandwidth against sequence length, higher" if share else "time against sequence length, lower"
    charts.finish(figure, report, 0.4 + 0.2 * ((len(names) + 3) // 4),
                  f"Linear recurrence h[t] = a[t] h[t-1] + x[t]: {what} is better\n"
                  f"B = {batch}, C = {channels}, {LAYOUT_NAMES[layout]}; median, caches cold{notes_on(names)}")
    return charts.save(figure, out, f"{'share' if share else 'time'}_{layout}_b{batch}_c{channels}.png")


def both_passes(panels, dtype, time):
    """name -> us of forward and backward together; the sum where they were timed apart."""
    parts = {direction: {name: times[time] for name, times in panels[dtype, direction].items() if time in times}
             for direction in ("fwd", "bwd", "fwd+bwd")}
    sums = {name: us + parts["bwd"][name] for name, us in parts["fwd"].items() if name in parts["bwd"]}
    # jax's backward is timed with the forward that it needs.
    sums.update({name: us for name, us in parts["bwd"].items() if name.startswith("jax")})
    return {"forward": parts["fwd"], "forward and backward": {**sums, **parts["fwd+bwd"]}}


def draw_bars(axes, us):
    names = sort_names(us)
    for y, name in enumerate(names):
        quoted = name.endswith(QUOTED)
        axes.barh(y, us[name], height=0.7, color="white" if quoted else "0.75" if name == STREAM else colour_of(name),
                  edgecolor=colour_of(name), hatch="////" if quoted else None, linewidth=1)
        factor = f"  ×{us[name] / us['flashscan']:.2g}" if name != "flashscan" and "flashscan" in us else ""
        axes.text(us[name] * 1.08, y, f"{us[name]:.0f} us{factor}", va="center", fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xscale("log")
    charts.number_axis(axes.xaxis)
    axes.grid(True, axis="x", alpha=0.3)
    axes.set_axisbelow(True)


def plot_packages(layout, shapes, report, out):
    """Bars for the shapes of one layout that have too few lengths for a line."""
    groups = [(f"{dtype} b{batch} t{time} c{channels}", both_passes(panels, dtype, time))
              for (_, batch, channels), panels in shapes
              for dtype, time in sorted({(key[0], time) for key, lines in panels.items() if key[1] == "fwd"
                                         for times in lines.values() for time in times})]
    groups = [(title, passes) for title, passes in groups if "flashscan" in passes["forward"] and
              set(passes["forward"]) - {"flashscan", STREAM}]
    if not groups:
        return None
    every = [us for _, passes in groups for times in passes.values() for us in times.values()]
    heights = [max(map(len, passes.values())) for _, passes in groups]
    figure, grid = plt.subplots(len(groups), 2, figsize=(12, sum(heights) * 0.27 + 0.75 * len(groups) + 1.2),
                                squeeze=False, gridspec_kw={"height_ratios": [height + 0.5 for height in heights]})
    for row, (title, passes) in zip(grid, groups):
        for axes, (direction, us) in zip(row, passes.items()):
            draw_bars(axes, us)
            axes.set_title(f"{title}, {direction}", fontsize=9)
            axes.set_xlim(0.5 * min(every), 15 * max(every))
    for axes in grid[-1]:
        axes.set_xlabel("microseconds (logarithmic)")
    charts.finish(figure, report, 0.3,
                  f"Linear recurrence, {LAYOUT_NAMES[layout]}: time of one call, lower is better\n"
                  "×: time relative to flashscan's; hatched: quoted, another run")
    return charts.save(figure, out, f"packages_{layout}.png")


def plot(results, out, dtypes):
    """All charts of this file; returns their paths."""
    every = [*results.benches, *results.peers]
    report = next((report for report in results.benches if any(case["set"] == "peers" for case in report["cases"])),
                  every[0])
    paths, rest = [], defaultdict(list)
    for shape, panels in sorted(times_of(results).items()):
        if is_line_shape(panels):
            paths += [plot_lines(shape, panels, dtypes, report, out, share) for share in (False, True)
                      if not share or any(STREAM in lines for lines in panels.values())]
        else:
            rest[shape[0]].append((shape, panels))
    paths += [plot_packages(layout, shapes, report, out) for layout, shapes in rest.items()]
    return [path for path in paths if path]
