# SPDX-License-Identifier: Apache-2.0
"""Writes results beside their targets, as Markdown.

    python3 bench/targets.py bench/results/FOLDER [--output FILE] [--short]

A target stands in the problem sets (`@95%`, `@4us`, `@host3us`, `@plain+3%`), those against other packages in
peer_packages.py. Lines of the sets that were not measured are counted too.
"""

import argparse
import dataclasses
import sys
from collections import defaultdict
from pathlib import Path
from typing import Optional

import reports
from peer_packages import target_ratio

ROWS = {  # key: (title, target)
    "large": ("Arrays of 64 MB and more, B·C ≥ 1024", "≥ 95 % of the stream"),
    "medium": ("Arrays of 16 MB to 64 MB, B·C ≥ 1024", "≥ 90 % of the stream"),
    "long": ("Few sequences, long time", "≥ 85 % of the stream"),
    "ragged": ("Odd extents, misaligned pointers, strided tensors", "≥ 85 % of the stream"),
    "packed": ("1000 packed sequences of uneven length", "≥ 90 % of the stream"),
    "features": ("States, reset, reverse, log and logit gates", "≤ 3 % over the plain case"),
    "tiny": ("Tiny problem, time on the GPU", "≤ 4 us"),
    "host": ("Tiny problem, host time of a call", "≤ 3 us"),
    "cpu": ("CPU, f32", "≥ 80 % of the stream"),
}
PEER_ROWS = {
    "accelerated-short": ("accelerated-scan, f32, T ≤ 2048", "1.5 times faster"),
    "accelerated-long": ("accelerated-scan, f32, T > 2048", "as fast"),
    "accelerated-16": ("accelerated-scan, 16-bit", "2 times faster"),
    "sequential": ("sequential_scan", "25 times faster"),
    "chunk_hgrn": ("fla chunk_hgrn", "4 times faster"),
    "other": ("Others", None),
}
SHORT_LIST = ["f32 BTC b8 t8192 c1024", "f32 BCT b8 t8192 c1024", "bf16 BTC b8 t16384 c1024",
              "bf16 BCT b8 t16384 c1024", "f32 BCT b1 t16777216 c1", "f32 BTC b7 t2339 c1031",
              "f32 BTC b1 t16384 c1024 sequences1000"]


@dataclasses.dataclass
class Judgement:
    row: str
    case: dict
    set_name: str
    target: str  # "95 %"
    limit: float
    measured: Optional[float]  # None: not measured, and `note` says why
    met: Optional[bool]
    note: str
    out_of_reach: bool  # a plain stream of the same bytes would miss it too


@dataclasses.dataclass
class Comparison:
    row: str
    peer: str
    case: dict
    direction: str  # fwd, bwd, fwd+bwd
    ours_us: float
    peer_us: float
    stream_us: Optional[float]
    target: Optional[float]
    same_run: bool
    note: str

    ratio = property(lambda self: self.peer_us / self.ours_us)
    reachable = property(lambda self: self.peer_us / self.stream_us if self.stream_us else None)
    met = property(lambda self: self.ratio >= self.target if self.target else None)
    out_of_reach = property(lambda self: bool(self.target and self.reachable and self.reachable < self.target))


# ---- targets of the problem sets ----

def row_of(case, target, backend):
    kind, _, unit = reports.TARGET.fullmatch(target).groups()
    if kind == "plain+":
        return "features"
    if unit == "us":
        return "host" if kind == "host" else "tiny"
    if backend == "cpu":
        return "cpu"
    options = reports.options_of(case)
    if any(option.startswith("sequences") for option in options):
        return "packed"
    if case["batch"] * case["channels"] < 1024:
        return "long"
    if "strided" in options or "misaligned" in options or case["time"] % 2 or case["channels"] % 2:
        return "ragged"
    return "large" if case["array_bytes"] >= 64e6 else "medium"


def target_text(target):
    _, number, unit = reports.TARGET.fullmatch(target).groups()
    return f"{number} {'%' if unit == '%' else 'us'}"


def judge(case, set_name, target, backend, note=""):
    text = target["target"]
    row, limit = row_of(case, text, backend), float(reports.TARGET.fullmatch(text).group(2))
    stream = reports.stream_us(case)
    measured = target.get("measured")
    return Judgement(row, case, set_name, target_text(text), limit, measured, target.get("met"),
                     note if measured is None else "", row == "tiny" and stream is not None and stream > limit)


def judgements_of(results):
    """Every target of the results, then those of the problem sets that the results lack."""
    judgements, seen, notes = [], set(), {}
    for report in results.benches:
        for case in report["cases"]:
            key = case["set"], reports.problem_key(case)
            if not reports.is_measured(case):
                notes[key] = f"{case['outcome']}: {case['note']}"
                continue
            seen.add(key)
            judgements += [judge(case, case["set"], target, report["backend"], "the plain case is not in the results")
                           for target in case["targets"]]
    backends = {report["backend"] for report in results.benches}
    sets = ["ceiling", "peers", "ragged", "long", "tiny", "features"] if backends != {"cpu"} else []
    for name in sets + (["cpu"] if "cpu" in backends else []):
        for case in reports.load_problem_set(name):
            key = name, reports.problem_key(case)
            if key not in seen:
                judgements += [judge(case, name, target, "cpu" if name == "cpu" else "cuda",
                                     notes.get(key, "not in the results")) for target in case["targets"]]
    return judgements


# ---- other packages ----

def peer_row(name, dtype, time):
    if name.startswith("accelerated-scan"):
        return "accelerated-16" if dtype != "f32" else "accelerated-short" if time <= 2048 else "accelerated-long"
    return "sequential" if name.startswith("sequential_scan") else "chunk_hgrn" if name == "fla chunk_hgrn" else "other"


def case_fields(case):
    return case["layout"], case["dtype"], case["batch"], case["time"], case["channels"]


def comparisons_of(results):
    """(comparisons, reasons): those of the same run, then quoted times of what was not timed in it;
    reasons: (package, why) -> the problems that it was not timed on."""
    plain = {(*case_fields(case), case["pass"]): case for report in results.benches if report["backend"] == "cuda"
             for case in report["cases"] if reports.is_plain(case) and reports.is_measured(case)}
    comparisons, reasons, timed = [], defaultdict(list), set()

    def compare(name, fields, direction, ours_us, peer_us, same_run, note=""):
        cases = [plain.get((*fields, part)) for part in direction.split("+")]
        stream = sum(map(reports.stream_us, cases)) if all(cases) else None
        case = {"problem": "linear {} {} {} b{} t{} c{}".format(direction, fields[1], fields[0], *fields[2:])}
        comparisons.append(Comparison(peer_row(name, fields[1], fields[3]), name, case, direction, ours_us, peer_us,
                                      stream, target_ratio(name, fields[1], fields[3]), same_run, note))

    for report in results.peers:
        for case in report["cases"]:
            ours = next(result for result in case["results"] if result["name"] == "flashscan")
            for result in case["results"]:
                if "median_us" not in result:
                    reasons[result["name"], result["note"]].append(case["problem"].removeprefix("linear "))
                elif result is not ours:
                    timed.add((result["name"], case_fields(case)))
                    compare(result["name"], case_fields(case), case["pass"], ours["median_us"], result["median_us"], True,
                            result["note"])
    for entry, direction, peer_us in reports.quoted_results(reports.load_quoted(results)):
        fields = case_fields(entry)
        cases = [plain.get((*fields, part)) for part in direction.split("+")]
        if (entry["name"], fields) not in timed and all(cases):
            compare(entry["name"], fields, direction, sum(case["median_us"] for case in cases), peer_us, False)
    return comparisons, reasons


# ---- Markdown ----

def table(header, rows, texts=1):
    """`texts`: how many columns hold text; the others are aligned to the right."""
    lines = [header, ["---"] * texts + ["---:"] * (len(header) - texts), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines) + "\n"


def us_text(us):
    return "–" if us is None else f"{us:.2f}" if us < 10 else f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def met_text(item):
    return "" if item.met is None else " met" if item.met else " **missed**"


def code(text):
    return f"`{text}`"


def summary_row(title, target, items, worst):
    measured = [item for item in items if item.met is not None]
    missed = [item for item in measured if not item.met]
    beyond = sum(item.out_of_reach for item in missed)
    return [title, target, len(items), len(measured) - len(missed), len(missed), beyond or "–",
            len(items) - len(measured) or "–", worst(measured) if measured else "–"]


def worst_judgement(row):
    def text(items):
        ceiling = row in ("large", "medium", "long", "ragged", "packed", "cpu")
        item = (min if ceiling else max)(items, key=lambda item: item.measured)
        unit = "us" if row in ("tiny", "host") else "%"
        return f"{item.measured:{'+' if row == 'features' else ''}.1f} {unit}, {code(item.case['problem'][7:])}"
    return text


def worst_comparison(items):
    item = min(items, key=lambda item: item.ratio / item.target)
    return f"{item.ratio:.2f} times, {code(item.case['problem'][7:])}"


def write_summary(judgements, comparisons):
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
    header = ["problem", "set", "target"] + [f"{name}{column}" for name in ("forward", "backward") for column in columns]
    return table(header, [[code(problem), set_name, target, *cells(passes.get("fwd")), *cells(passes.get("bwd"))]
                          for (set_name, problem, target), passes in by_problem(judgements).items()], 2)


def write_tiny(judgements):
    rows = []
    for item in judgements:
        value = item.note if item.measured is None else f"{item.measured:.2f} us{met_text(item)}"
        gpu = item.row == "tiny"
        rows.append([code(item.case["problem"][7:]), "GPU" if gpu else "host", item.target, value,
                     us_text(item.case.get("burst_us") or None if gpu else None),
                     us_text(reports.stream_us(item.case) if gpu else None)])
    return table(["problem", "time of", "target", "median", "in a graph, caches warm, us", "plain stream, us"], rows, 2)


def write_comparisons(comparisons):
    rows = []
    for item in comparisons:
        target = f"{item.target:g}" if item.target else "–"
        reachable = f"{item.reachable:.2f}" if item.reachable else "–"
        peer = item.peer + (f" ({item.note})" if item.note else "")
        rows.append([code(item.case["problem"][7:]), peer, us_text(item.peer_us), us_text(item.ours_us),
                     f"{item.ratio:.2f}{met_text(item)}", target, reachable])
    return table(["problem", "package", "its us", "flashscan us", "times faster", "target", "at the stream ceiling"],
                 rows, 2)


def write_runs(results):
    rows = [[code(report["file"]), report["device"], report.get("driver") or f"torch {report.get('torch', '?')}",
             report["library_version"], code(report["commit"]) if report.get("commit") else "not given", report["date"]]
            for report in [*results.benches, *results.peers]]
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
    text = ("# Results beside their targets\n\n"
            "Written by `bench/targets.py`. Times are medians of single calls with cold caches. The stream is the fastest "
            "of several\nplain kernels that move arrays of the same size in the same run, with 2 reads and 1 write "
            "(forward) or 3 reads and 2\nwrites (backward); 100 % is its bandwidth. Out of reach: the stream itself, "
            "which computes nothing, would miss the target.\n\n")
    text += write_runs(results) + "## Summary\n\n" + write_summary(judgements, comparisons)
    for key, (title, target) in ROWS.items():
        items = [item for item in judgements if item.row == key or key == "tiny" and item.row == "host"]
        if not items or key == "host":
            continue
        if key == "tiny":
            text += "## Tiny problem: ≤ 4 us on the GPU, ≤ 3 us on the host\n\n" + write_tiny(items)
        elif key == "features":
            text += f"## {title}: {target}\n\n"
            text += write_pairs(items, feature_cells, [" us", ", of the stream", ", over plain"])
        else:
            text += f"## {title}: {target}\n\n" + write_pairs(items, ceiling_cells, [" us", ", of the stream"])
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
