# SPDX-License-Identifier: Apache-2.0
"""Compares two results of flashscan_bench: prints the cases whose median time changed.

    python3 bench/compare.py old.json new.json [--threshold 3] [--fail]
"""

import argparse
import sys

import reports


def load(path):
    report = reports.load(path)
    if reports.program_of(report) != "flashscan_bench":
        sys.exit(f"{path}: no result of flashscan_bench")
    return report, {case["problem"]: case for case in report["cases"]}


def targets(case):
    return sum(1 for target in case["targets"] if target["met"] is False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--threshold", type=float, default=3.0, help="percent of change that is printed (default 3)")
    parser.add_argument("--fail", action="store_true", help="exit with 1 when something became slower or broke")
    options = parser.parse_args()
    (old_report, old), (new_report, new) = load(options.old), load(options.new)
    for label, report in (("old", old_report), ("new", new_report)):
        print(f"{label}: {report['device']}, {report['date']}, {report['commit'] or 'no commit given'}")
    if old_report["device"] != new_report["device"]:
        print("the devices differ: compare the percentages of the ceiling, not the times")
    worse = better = 0
    common = [problem for problem in new if problem in old]
    print(f"\n{'problem':<60} {'old us':>10} {'new us':>10} {'change':>8}  {'ceiling old -> new':>19}")
    for problem in common:
        before, after = old[problem], new[problem]
        if before["outcome"] != after["outcome"]:
            print(f"{problem:<60} {before['outcome']} -> {after['outcome']} {after['note']}")
            worse += before["outcome"] == "measured"
            continue
        if after["outcome"] != "measured":
            continue
        change = (after["median_us"] / before["median_us"] - 1) * 100
        missed = targets(after) - targets(before)
        if abs(change) <= options.threshold and missed == 0:
            continue
        worse += change > options.threshold or missed > 0
        better += change < -options.threshold
        note = "  target missed now" if missed > 0 else "  target met now" if missed < 0 else ""
        print(f"{problem:<60} {before['median_us']:>10.2f} {after['median_us']:>10.2f} {change:>+7.1f}%"
              f"  {before['ceiling_percent']:>7.1f}% -> {after['ceiling_percent']:>6.1f}%{note}")
    print(f"\n{len(common)} cases in both, {worse} slower or broken, {better} faster by more than {options.threshold:g} %;"
          f" {len(old) - len(common)} only in old, {len(new) - len(common)} only in new")
    return 1 if options.fail and worse else 0


if __name__ == "__main__":
    sys.exit(main())
