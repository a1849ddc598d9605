# SPDX-License-Identifier: Apache-2.0
"""Judges what is not a time beside a stream: chains of matrices beside other packages, what plans cost to make, and what
Python adds to a call; and writes the tables."""

import dataclasses
from typing import Optional

import reports
from tables import code, met_text, table, us_text, without_family

ROWS = {  # key: (title, target)
    "prefix": ("Prefix products, torch_parallel_scan", "100 times faster for d ≤ 4, 20 for d ≤ 256, 8 above"),
    "reduce": ("Reductions of products, torch_parallel_scan", "10 times faster for d ≤ 64, 2 for d ≤ 128, 1 above"),
    "numpy": ("Prefix products, NumPy's tree", "5 times faster"),
    "first plan": ("First plan of a process", "≤ 20 ms"),
    "warm plan": ("Plan made again", "≤ 100 us"),
    "new source": ("Plan of a custom operator, new source", "≤ 1 s"),
    "known source": ("Plan of a custom operator, known source", "≤ 1 ms"),
    "python": ("Call from Python, beside the library and memory", "< 10 us"),
}


@dataclasses.dataclass
class Check:
    row: str
    name: str
    measured: float
    limit: float
    faster: bool = False  # measured: how many times faster than something; else microseconds
    ours_us: Optional[float] = None
    peer_us: Optional[float] = None
    python: Optional[float] = None  # times faster as a caller in Python sees it
    out_of_reach = False

    met = property(lambda self: self.measured >= self.limit if self.faster else self.measured <= self.limit)
    distance = property(lambda self: self.limit / self.measured if self.faster else self.measured / self.limit)


def chain_target(what, d):
    if what == "prefix":
        return 100 if d <= 4 else 20 if d <= 256 else 8
    return 10 if d <= 64 else 2 if d <= 128 else 1


def chain_checks(results):
    """Our time is the driver's, caches cold, where the same chain is in its results, else that of the same process."""
    driver = {}
    for report in results.benches:
        for case in report["cases"]:
            if case.get("operator") == "matmul" and reports.is_measured(case) and report["backend"] == "cuda":
                key = case["time"], case["dim"], case["mode"]
                if case["pass"] == "fwd" and case["dtype"] == "f32" and "custom" not in reports.options_of(case):
                    driver.setdefault(key, case["median_us"])
    checks = []
    for report in results.chains:
        for row in report["rows"]:
            what = row.get("what", "numpy")
            peer_us = row.get("peer_us") or row["numpy_us"]
            mode = "reduction" if what == "reduce" else "inclusive"
            ours_us = driver.get((row["n"], row["d"], mode)) if "peer_us" in row else None
            ours_us = ours_us or row["flashscan_us"]
            limit = 5 if what == "numpy" else chain_target(what, row["d"])
            checks.append(Check(what, f"{row['n']} x {row['d']} x {row['d']}", peer_us / ours_us, limit, True, ours_us,
                                peer_us, peer_us / row["flashscan_us"]))
    return checks


def plan_checks(results):
    checks = []
    for report in results.benches:
        if report["first_plan_us"] > 0:
            checks.append(Check("first plan", report["file"], report["first_plan_us"], 20e3))
        for case in filter(reports.is_measured, report["cases"]):
            name = without_family(case["problem"])
            if "custom" not in reports.options_of(case):
                checks.append(Check("warm plan", name, case["plan_warm_us"], 100))
                continue
            # The driver keeps compiled sources: of later problems with the same one the first plan is quick too.
            if case["plan_cold_us"] > 100 * case["plan_warm_us"]:
                checks.append(Check("new source", name, case["plan_cold_us"], 1e6))
            checks.append(Check("known source", name, case["plan_warm_us"], 1e3))
    return checks


def python_checks(results):
    """Results without the parts of a call say what all of it takes: on a GPU launching, which is not Python's."""
    checks = []
    for report in results.overheads:
        for kind, calls in report["microseconds"].items():
            for name, parts in calls.items():
                if not isinstance(parts, dict):
                    parts = {"call": parts} if "cuda" in kind else {"overhead": parts}
                if "overhead" in parts:
                    checks.append(Check("python", f"{kind}, {name}", parts["overhead"], 10))
    return checks


def checks_of(results):
    return chain_checks(results) + plan_checks(results) + python_checks(results)


def worst(items):
    item = max(items, key=lambda item: item.distance)
    value = f"{item.measured:.1f} times" if item.faster else f"{us_text(item.measured)} us"
    return f"{value}, {code(item.name)}"


# ---- tables ----

def write_chains(checks):
    text = ""
    for keys, title, note in (
            (("prefix", "reduce"), "Chains of matrices beside torch_parallel_scan with torch.matmul, f32",
             "Ours: the driver's median with cold caches; its: `peers_operator.py`. In brackets as a caller in Python "
             "sees it, both in one process."),
            (("numpy",), "Prefix products of matrices beside a tree in NumPy, f32", "Both in one process.")):
        chosen = [check for check in checks if check.row in keys]
        if not chosen:
            continue
        names = {"prefix": "prefix", "reduce": "reduction", "numpy": "prefix"}
        columns = [f"{names[key]}{part}" for key in keys for part in (", us", ", its us", ", times faster", ", target")]
        rows = []
        for name in dict.fromkeys(check.name for check in chosen):
            cells = []
            for key in keys:
                check = next((check for check in chosen if check.name == name and check.row == key), None)
                cells += [us_text(check.ours_us), us_text(check.peer_us),
                          f"{check.measured:.1f} ({check.python:.1f}){met_text(check)}", check.limit] if check else ["–"] * 4
            rows.append([name, *cells])
        text += f"## {title}\n\n{note}\n\n" + table(["n x d x d", *columns], rows)
    return text


def write_plans(checks):
    rows = []
    for key in ("first plan", "warm plan", "new source", "known source"):
        chosen = sorted((check for check in checks if check.row == key), key=lambda check: -check.measured)
        rows += [[ROWS[key][0], code(check.name), ROWS[key][1], f"{us_text(check.measured)}{met_text(check)}"]
                 for check in chosen[:3]]
    return "## Plans: the slowest\n\n" + table(["what", "problem or file", "target", "us"], rows, 3) if rows else ""


def write_python(results):
    """Every call, judged or not."""
    rows = []
    for report in results.overheads:
        judged = {check.name: check for check in python_checks(results)}
        for kind, calls in report["microseconds"].items():
            for name, parts in calls.items():
                parts = parts if isinstance(parts, dict) else {"call": parts}
                check = judged.get(f"{kind}, {name}")
                rows.append([kind, name, *(us_text(parts.get(part)) for part in ("call", "library", "memory")),
                             us_text(check.measured) + met_text(check) if check else "–"])
    return ("## Calls from Python, arrays of a few elements: overhead < 10 us\n\n"
            "Overhead is what the library's call and making the arrays that are returned do not take. Where a result "
            "does not tell them apart, on a CPU, it is the whole call.\n\n"
            + table(["arrays", "call", "us", "the library's", "memory", "overhead"], rows, 2)) if rows else ""
