# SPDX-License-Identifier: Apache-2.0
"""Reads what the programs of this folder wrote, the problem sets, and the quoted times of other packages."""

import dataclasses
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PASS_NAMES = {"fwd": "forward", "bwd": "backward"}
DTYPE_BYTES = {"f32": 4, "bf16": 2, "f16": 2, "f64": 8, "c64": 8, "c128": 16, "i32": 4, "i64": 8, "u8": 1}
# Words of problem lines in results up to 2026-11-24, and of today; tests/support/words.cpp has the same table.
RENAMED = {"states": "state-in state-out", "log": "form-log", "logit": "form-logit", "misaligned": "place-misaligned"}
TARGET = re.compile(r"@(plain\+|host)?([\d.]+)(%|us/step|us)")


@dataclasses.dataclass
class Results:
    benches: list  # reports of flashscan_bench
    peers: list  # reports of peers.py
    chains: list = dataclasses.field(default_factory=list)  # of peers_operator.py
    overheads: list = dataclasses.field(default_factory=list)  # of python_overhead.py


def load(path):
    """A report as a dict with its file's name in "file"; ends the program where the file cannot be read."""
    try:
        report = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        sys.exit(f"{path}: {error}")
    if not isinstance(report, dict):
        sys.exit(f"{path}: holds no JSON object")
    report["file"] = Path(path).name
    if program_of(report) == "flashscan_bench":
        for case in report["cases"]:
            case["problem"] = in_todays_words(case["problem"])
    return report


def in_todays_words(problem):
    return " ".join(RENAMED.get(word, word) for word in problem.split())


def program_of(report):
    """The program that wrote a report, by its format or, where it has none, by what two programs alone write."""
    if "format" in report:
        return str(report["format"]).partition(" ")[0]
    if "microseconds" in report:
        return "flashscan_python_overhead"
    rows = report.get("rows")
    chains = isinstance(rows, list) and all(isinstance(row, dict) and "flashscan_us" in row for row in rows)
    return "flashscan_peers_operator" if chains else ""


def load_results(paths):
    """Reports of files, and of all files of folders; what has another format is passed over in a folder."""
    results = Results([], [])
    known = {"flashscan_bench": results.benches, "flashscan_peers": results.peers,
             "flashscan_peers_operator": results.chains, "flashscan_python_overhead": results.overheads}
    for path in map(Path, paths):
        for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
            report = load(file)
            if program_of(report) in known:
                known[program_of(report)].append(report)
            elif not path.is_dir():
                sys.exit(f"{file}: not a result of {', '.join(known)}")
    if not any(known.values()):
        sys.exit(f"{', '.join(map(str, paths))}: no result of {', '.join(known)}")
    return results


def parse_problem(line):
    """The fields of a problem line that a case of the JSON has too; `line` as in problems/*.txt."""
    words = in_todays_words(line).split()
    problem = " ".join(word for word in words if not word.startswith("@"))
    targets = [{"target": word} for word in words if word.startswith("@")]
    if words[0] == "rnn":
        _, cell, direction, dtype, batch, time, heads, dim = words[:8]
        batch, time, heads, dim = (int(word[1:]) for word in (batch, time, heads, dim))
        return {"problem": problem, "pass": direction, "dtype": dtype, "cell": cell, "batch": batch, "time": time,
                "heads": heads, "head_dim": dim, "channels": heads * dim,
                "array_bytes": batch * time * heads * dim * DTYPE_BYTES[dtype], "targets": targets}
    if words[0] == "operator":
        direction, dtype, layout = words[2], words[3], "BCT" if "BCT" in words else "BTC"
        batch, time, channels = words[4:7]
    else:
        direction, dtype, layout, batch, time, channels = words[1:7]
    batch, time, channels = (int(word[1:]) for word in (batch, time, channels))
    return {"problem": problem, "pass": direction, "dtype": dtype, "layout": layout, "batch": batch, "time": time,
            "channels": channels, "array_bytes": batch * time * channels * DTYPE_BYTES[dtype],
            "targets": targets}


def load_problem_set(name):
    lines = (HERE / "problems" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [parse_problem(line) for line in lines if line.strip() and not line.lstrip().startswith("#")]


def is_rnn(case):
    return case["problem"].startswith("rnn ")


def is_linear(case):
    return case["problem"].startswith("linear ")


def is_layer(case):
    """Whether it is a gated layer or a selective scan."""
    return case["problem"].startswith(("gated ", "selective "))


def moves_numbers(case):
    """Whether a stream of the same bytes is what the case is measured by."""
    return is_linear(case) or case["problem"].startswith("gated ") or case.get("dim") == 0


def options_of(case):
    """The words after the extents: state-in, reset, strided, ..."""
    return case["problem"].split()[8 if is_rnn(case) else 7:]


def problem_key(case):
    """The same for a line of a set and for its case, whatever the order of the options."""
    options = options_of(case)
    words = case["problem"].split()
    return (*words[:len(words) - len(options)], *sorted(options))


def short_name(case):
    """The problem without the words that a table or chart says elsewhere: its family and the pass."""
    return " ".join(word for word in case["problem"].split()[1:] if word not in PASS_NAMES)


def is_plain(case):
    return not options_of(case)


def is_measured(case):
    return case["outcome"] == "measured"


def measured_cases(results):
    """Cases measured on a GPU."""
    return [case for report in results.benches if report["backend"] == "cuda" for case in report["cases"]
            if is_measured(case)]


def plain_cases(results):
    """Linear recurrences without options measured on a GPU: what other packages compute too."""
    return [case for case in measured_cases(results) if is_plain(case) and is_linear(case)]


def stream_us(case):
    """Microseconds of the fastest plain stream with as many reads and writes of arrays of the same size."""
    return case["required_bytes"] / case["ceiling_gbps"] * 1e-3 if case.get("ceiling_gbps") else None


def caption(report):
    parts = [report["device"], "flashscan " + report["library_version"], report["date"][:10]]
    if report.get("driver"):
        parts.insert(1, "driver " + report["driver"])
    if report.get("commit"):
        parts.append(report["commit"][:10])
    return " · ".join(parts)


def load_quoted(results):
    """quoted_times.json where all results of GPUs come from the card it speaks of, else None."""
    quoted = load(HERE / "quoted_times.json")
    devices = [report["device"] for report in [*results.benches, *results.peers] if report.get("backend") != "cpu"]
    return quoted if devices and all(device.startswith(quoted["device"]) for device in devices) else None


def shape_of(case):
    return case["layout"], case["dtype"], case["batch"], case["time"], case["channels"]


def quoted_results(results):
    """(entry, pass or "fwd+bwd", microseconds) of the quoted times of what was not timed beside flashscan."""
    quoted = load_quoted(results)
    timed = {(result["name"], shape_of(case)) for report in results.peers for case in report["cases"]
             for result in case["results"] if "median_us" in result}
    for entry in quoted["times"] if quoted else []:
        for direction in ("fwd", "bwd", "fwd+bwd"):
            if f"{direction}_us" in entry and (entry["name"], shape_of(entry)) not in timed:
                yield entry, direction, entry[f"{direction}_us"]
