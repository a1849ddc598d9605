# SPDX-License-Identifier: Apache-2.0
"""Writes results beside their targets, as Markdown.

    python3 bench/targets.py bench/results/FOLDER [--output FILE] [--short]

A target stands in the problem sets (`@95%`, `@4us`, `@host3us`, `@plain+3%`), those against other packages in
peer_packages.py, those of chains of matrices, of plans and of calls from Python in calls.py. Lines of the sets that were
not measured are counted too.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import calls
import reports
from judgements import PEER_ROWS, ROWS, comparisons_of, judgements_of
from tables import code, met_text, table, us_text, without_family

INTRODUCTION = """# Results beside their targets

Written by `bench/targets.py`. Times are medians of single calls with cold caches. The stream is the fastest of several
plain kernels that move arrays of the same size in the same run, with 2 reads and 1 write (forward) or 3 reads and 2
writes (backward); 100 % is its bandwidth. Out of reach: the stream itself, which computes nothing, or the launch of
an empty kernel would miss the target. Not measured: absent from the results, wrong or failed.

"""
SHORT_LIST = ["f32 BTC b8 t8192 c1024", "f32 BCT b8 t8192 c1024", "bf16 BTC b8 t16384 c1024",
              "bf16 BCT b8 t16384 c1024", "f32 BCT b1 t16777216 c1", "f32 BTC b7 t2339 c1031",
              "f32 BTC b1 t16384 c1024 sequences1000"]


def summary_row(title, target, items, worst):
    measured = [item for item in items if item.met is not None]
    missed = [item for item in measured if not item.met]
    beyond = sum(item.out_of_reach for item in missed)
    return [title, target, len(items), len(measured) - len(missed), len(missed), beyond or "–",
            len(items) - len(measured) or "–", worst(measured) if measured else "–"]


def worst_judgement(row):
    def text(items):
        ceiling = row in ("large", "medium", "long", "ragged", "packed", "cpu", "gated", "gated_cpu")
        item = (min if ceiling else max)(items, key=lambda item: item.measured)
        if row == "rnn":
            item = max(items, key=lambda item: item.measured / item.limit)
            return f"{item.measured:.2f} us, {code(without_family(item.case['problem']))}"
        unit = "us" if row in ("tiny", "host", "step") else "%"
        sign = "+" if row in ("features", "custom") else ""
        return f"{item.measured:{sign}.1f} {unit}, {code(without_family(item.case['problem']))}"
    return text


def worst_comparison(items):
    item = min(items, key=lambda item: item.ratio / item.target)
    return f"{item.ratio:.2f} times, {code(without_family(item.case['problem']))}"


def write_summary(judgements, comparisons, checks):
    header = ["targets", "target", "cases", "met", "missed", "of these out of reach", "not measured", "worst"]
    rows = []
    for key, (title, target) in ROWS.items():
        items = [judgement for judgement in judgements if judgement.row == key]
        if items:
            rows.append(summary_row(title, target, items, worst_judgement(key)))
    for key, (title, target) in PEER_ROWS.items():
        for same_run in (True, False):
            items = [item for item in comparisons if item.row == key and item.same_run == same_run]
            if items and target:
                rows.append(summary_row(title + (", same run" if same_run else ", quoted times"), target, items,
                                        worst_comparison))
    for key, (title, target) in calls.ROWS.items():
        items = [check for check in checks if check.row == key]
        if items:
            rows.append(summary_row(title, target, items, calls.worst))
    return table(header, rows, 2)


def by_problem(judgements):
    """(set, problem without its pass, target) -> pass -> judgement"""
    groups = defaultdict(dict)
    for item in judgements:
        groups[item.set_name, reports.short_name(item.case), item.target][item.case["pass"]] = item
    return groups


def ceiling_cells(item):
    if item is None:
        return ["–", "–"]
    if item.measured is None:
        return ["–", item.note]
    return [us_text(item.case["median_us"]), f"{item.measured:.1f} %{met_text(item)}"]


def feature_cells(item):
    if item is None:
        return ["–", "–", "–"]
    if item.measured is None:
        return [us_text(item.case.get("median_us")), "–", item.note]
    return [us_text(item.case["median_us"]), f"{item.case['ceiling_percent']:.1f} %",
            f"{item.measured:+.1f} %{met_text(item)}"]


def write_pairs(judgements, cells, columns):
    header = ["problem", "set", "target", *(name + column for name in ("forward", "backward") for column in columns)]
    return table(header, [[code(problem), set_name, target, *cells(passes.get("fwd")), *cells(passes.get("bwd"))]
                          for (set_name, problem, target), passes in by_problem(judgements).items()], 2)


def write_tiny(judgements):
    rows = []
    for item in judgements:
        value = item.note if item.measured is None else f"{item.measured:.2f} us{met_text(item)}"
        gpu = item.row != "host"
        rows.append([code(without_family(item.case["problem"])), "GPU" if gpu else "host", item.target, value,
                     us_text(item.case.get("burst_us") or None if gpu else None),
                     us_text(reports.stream_us(item.case) if gpu else item.case.get("launch_us"))])
    return table(["problem", "time of", "target", "median", "in a graph, caches warm, us", "plain stream or empty launch, us"], rows, 2)


def write_rnn(judgements):
    """A line for the problem and the passes: forward of an inference and of a training plan, backward."""
    rows = defaultdict(dict)
    for item in judgements:
        words = [word for word in reports.short_name(item.case).split() if word != "training"]
        training = "training" in reports.options_of(item.case)
        value = item.note if item.measured is None else f"{item.measured:.2f} / {item.limit:g}{met_text(item)}"
        if item.measured is not None and item.case.get("floor_percent"):
            value += f", {item.case['floor_percent']:.0f} %"
        rows[" ".join(words)][item.case["pass"] + ("+" if training else "")] = value
    return ("Microseconds a step / target; percent: the floor of a step (bench/rnn_floor.cpp) over its time.\n\n"
            + table(["problem", "forward", "forward, training", "backward"],
                    [[code(name), *(cells.get(key, "–") for key in ("fwd", "fwd+", "bwd"))]
                     for name, cells in rows.items()]))


def write_comparisons(comparisons):
    rows = []
    for item in comparisons:
        target = f"{item.target:g}" if item.target else "–"
        reachable = f"{item.reachable:.2f}" if item.reachable else "–"
        peer = item.peer + (f" ({item.note})" if item.note else "")
        rows.append([code(without_family(item.case["problem"])), peer, us_text(item.peer_us), us_text(item.ours_us),
                     f"{item.ratio:.2f}{met_text(item)}", target, reachable])
    return table(["problem", "package", "its us", "flashscan us", "times faster", "target", "at the stream ceiling"],
                 rows, 2)


def write_runs(results):
    rows = []
    for report in [*results.benches, *results.peers, *results.chains]:
        packages = " ".join(f"{name} {report[name]}" for name in ("torch", "numpy") if name in report)
        rows.append([code(report["file"]), report.get("device", "–"), report.get("driver") or packages or "–",
                     report.get("library_version", "–"), code(report["commit"]) if report.get("commit") else "not given",
                     report.get("date", "–")])
    return table(["file", "device", "driver", "flashscan", "commit", "date"], rows, 6)


def write_peers(results, comparisons, reasons):
    text = ""
    quoted = reports.load_quoted(results)
    for same_run, title in ((True, "same run"), (False, "quoted times")):
        chosen = [item for item in comparisons if item.same_run == same_run]
        if not chosen:
            continue
        text += f"## Other packages, {title}\n\n"
        text += ("One process on the same tensors (`bench/peers.py`).\n\n" if same_run else
                 f"{quoted['origin']} {quoted['date']}, {quoted['device']}, driver {quoted['driver']}, CUDA "
                 f"{quoted['cuda']}, torch {quoted['torch']}, Triton {quoted['triton']}; {quoted['method']}.\n\n")
        for key, (row_title, target) in PEER_ROWS.items():
            items = [item for item in chosen if item.row == key]
            if items:
                text += f"### {row_title}: {'target ' + target if target else 'no target'}, {title}\n\n"
                text += write_comparisons(items)
    for report in results.peers:
        text += "".join(f"- {name}, {code(report['file'])}: {why}\n" for name, why in report["missing"].items())
    for (name, why), problems in reasons.items():
        more = f" and {len(problems) - 4} more" if len(problems) > 4 else ""
        text += f"- {name}, not timed, {why}: {', '.join(map(code, problems[:4]))}{more}\n"
    for entry in quoted["times"] if quoted else []:
        if "note" in entry:
            text += "- {name} (quoted), {note}: `{dtype} {layout} b{batch} t{time} c{channels}`\n".format(**entry)
    return text


def write(results):
    """The whole page."""
    judgements = judgements_of(results)
    comparisons, reasons = comparisons_of(results)
    checks = calls.checks_of(results)
    text = INTRODUCTION
    text += write_runs(results) + "## Summary\n\n" + write_summary(judgements, comparisons, checks)
    for key, (title, target) in ROWS.items():
        items = [item for item in judgements if item.row == key or key == "tiny" and item.row == "host"]
        if not items or key == "host":
            continue
        if key == "tiny":
            text += "## Tiny problem: ≤ 4 us on the GPU, ≤ 3 us on the host\n\n" + write_tiny(items)
        elif key == "step":
            text += f"## {title}: {target}\n\n" + write_tiny(items)
        elif key == "rnn":
            text += f"## {title}: {target}\n\n" + write_rnn(items)
        elif key in ("features", "custom"):
            text += f"## {title}: {target}\n\n"
            text += write_pairs(items, feature_cells, [" us", ", of the stream", ", over plain"])
        else:
            text += f"## {title}: {target}\n\n" + write_pairs(items, ceiling_cells, [" us", ", of the stream"])
    text += calls.write_chains(checks) + calls.write_plans(checks) + calls.write_python(results)
    return text + write_peers(results, comparisons, reasons)


def write_short(results):
    """A few problems of all kinds, for a README."""
    cells = defaultdict(dict)
    for case in (case for report in results.benches for case in report["cases"] if reports.is_measured(case)):
        cells[reports.short_name(case)].setdefault(
            case["pass"], f"{us_text(case['median_us'])} us, {case['ceiling_percent']:.0f} %")
    return table(["problem", "forward", "backward"],
                 [[code(name), cells[name].get("fwd", "–"), cells[name].get("bwd", "–")]
                  for name in SHORT_LIST if name in cells])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", help="folders, or JSON files of flashscan_bench and peers.py")
    parser.add_argument("--output", help="Markdown file to write (default: to the terminal)")
    parser.add_argument("--short", action="store_true", help="only the table of a few problems")
    options = parser.parse_args()
    results = reports.load_results(options.results)
    text = write_short(results) if options.short else write(results)
    if not options.output:
        sys.stdout.write(text)
        return
    Path(options.output).write_text(text, encoding="utf-8")
    print(options.output)


if __name__ == "__main__":
    main()
