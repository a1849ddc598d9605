# SPDX-License-Identifier: Apache-2.0
"""Judges results: against the targets of the problem sets, and against other packages."""

import dataclasses
from collections import defaultdict
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
    "rnn": ("Recurrent networks", "us a step, each its own"),
    "custom": ("Custom operators", "≤ 30 % over the same built in"),
    "gated": ("Gated layers", "≥ 85 % of the stream"),
    "gated_cpu": ("Gated layers on the CPU, f32", "≥ 60 % of the stream"),
    "step": ("Steps of decoding, time on the GPU", "≤ 3 us"),
}
PEER_ROWS = {
    "accelerated-short": ("accelerated-scan, f32, T ≤ 2048", "1.5 times faster"),
    "accelerated-long": ("accelerated-scan, f32, T > 2048", "as fast"),
    "accelerated-16": ("accelerated-scan, 16-bit", "2 times faster"),
    "sequential": ("sequential_scan", "25 times faster"),
    "chunk_hgrn": ("fla chunk_hgrn", "4 times faster"),
    "cumsum": ("torch.cumsum, one long row", "as fast"),
    "other": ("Others", None),
}


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
    out_of_reach: bool  # a plain stream of the same bytes, or a launch of nothing, would miss it too


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
        return "features" if reports.is_linear(case) else "custom"
    if unit == "us/step":
        return "rnn"
    if unit == "us":
        return "host" if kind == "host" else "step" if reports.is_layer(case) else "tiny"
    if reports.is_layer(case):
        return "gated_cpu" if backend == "cpu" else "gated"
    if backend == "cpu":
        return "cpu"
    options = reports.options_of(case)
    if any(option.startswith("sequences") for option in options):
        return "packed"
    if case["batch"] * case["channels"] < 1024:
        return "long"
    if "strided" in options or "place-misaligned" in options or case["time"] % 2 or case["channels"] % 2:
        return "ragged"
    return "large" if case["array_bytes"] >= 64e6 else "medium"


def target_text(target):
    _, number, unit = reports.TARGET.fullmatch(target).groups()
    return f"{number} {unit}"


def judge(case, set_name, target, backend, note=""):
    text = target["target"]
    row, limit = row_of(case, text, backend), float(reports.TARGET.fullmatch(text).group(2))
    measured = target.get("measured")
    stream = reports.stream_us(case)
    least = {"tiny": stream, "step": stream, "host": case.get("launch_us")}.get(row)
    return Judgement(row, case, set_name, target_text(text), limit, measured, target.get("met"),
                     note if measured is None else "", least is not None and least > limit)


def judgements_of(results):
    """Every target of the results as the driver judged it, then those of problems that the results lack."""
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
    sets = ["ceiling", "peers", "ragged", "long", "tiny", "features", "rnn", "operator_custom"] if backends != {"cpu"} else []
    for name in sets + (["cpu"] if "cpu" in backends else []):
        for case in reports.load_problem_set(name):
            key = name, reports.problem_key(case)
            if key not in seen:
                judgements += [judge(case, name, target, "cpu" if name == "cpu" else "cuda",
                                     notes.get(key, "not in the results")) for target in case["targets"]]
    return judgements


# ---- other packages ----

def peer_row(name, dtype, time):
    if name == "torch.cumsum" and target_ratio(name, dtype, time):
        return "cumsum"
    if name.startswith("accelerated-scan"):
        return "accelerated-16" if dtype != "f32" else "accelerated-short" if time <= 2048 else "accelerated-long"
    return "sequential" if name.startswith("sequential_scan") else "chunk_hgrn" if name == "fla chunk_hgrn" else "other"


def comparisons_of(results):
    """(comparisons, reasons): those of the same run, then quoted times of what was not timed in it;
    reasons: (package, why) -> the problems that it was not timed on."""
    measured = {case["problem"]: case for case in reports.measured_cases(results)}
    comparisons, reasons = [], defaultdict(list)

    def cases_of(problem, direction):
        return [measured.get(problem.replace(f" {direction} ", f" {part} ")) for part in direction.split("+")]

    def compare(name, case, direction, ours_us, peer_us, same_run, note=""):
        cases = cases_of(case["problem"], direction)
        stream = sum(map(reports.stream_us, cases)) if all(cases) else None
        named = name, case["dtype"], case["time"]
        comparisons.append(Comparison(peer_row(*named), name, case, direction, ours_us, peer_us, stream,
                                      target_ratio(*named), same_run, note))

    for report in results.peers:
        for case in report["cases"]:
            ours = next(result for result in case["results"] if result["name"] == "flashscan")
            for result in case["results"]:
                if "median_us" not in result:
                    reasons[result["name"], result["note"]].append(case["problem"].removeprefix("linear "))
                elif result is not ours:
                    compare(result["name"], case, case["pass"], ours["median_us"], result["median_us"], True,
                            result["note"])
    for entry, direction, peer_us in reports.quoted_results(results):
        problem = "linear {} {dtype} {layout} b{batch} t{time} c{channels}".format(direction, **entry)
        cases = cases_of(problem, direction)
        if all(cases):
            compare(entry["name"], {**entry, "problem": problem}, direction, sum(case["median_us"] for case in cases),
                    peer_us, False)
    return comparisons, reasons
