# SPDX-License-Identifier: Apache-2.0
"""Prints the counts of every test runner from the JUnit files and logs in a folder, then their sum.

A ctest test that is a GoogleTest executable counts as the cases that its summary names, any other as one.
"""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

SUMMARY = {
    "passed": re.compile(r"^\[  PASSED  \] (\d+) tests?\.", re.MULTILINE),
    "failed": re.compile(r"^\[  FAILED  \] (\d+) tests?, listed below", re.MULTILINE),
    "skipped": re.compile(r"^\[  SKIPPED \] (\d+) tests?, listed below", re.MULTILINE),
}
# What runners without JUnit files print.
LOGS = {
    "cargo": re.compile(r"^test result: .*? (?P<passed>\d+) passed; (?P<failed>\d+) failed; (?P<skipped>\d+) ignored", re.M),
    "julia": re.compile(r"^FlashScan +\| +(?P<passed>\d+) +\d+ *$", re.M),
}


def count_log(path: Path) -> dict[str, int]:
    found = [match.groupdict() for match in LOGS[path.stem].finditer(path.read_text())]
    return {what: sum(int(counts.get(what, 0)) for counts in found) for what in SUMMARY}


def count_case(case: ElementTree.Element) -> dict[str, int]:
    wrong = case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail"
    idle = case.find("skipped") is not None or case.get("status") in ("notrun", "disabled")
    output = case.findtext("system-out") or ""
    counts = {what: sum(map(int, pattern.findall(output))) for what, pattern in SUMMARY.items()}
    if not any(counts.values()):
        return {"passed": int(not wrong and not idle), "failed": int(wrong), "skipped": int(idle and not wrong)}
    # A crash after the summary, or a sanitizer's report, fails a test whose cases all passed.
    if wrong and counts["failed"] == 0:
        counts["failed"] = 1
    return counts


def main() -> int:
    total = dict.fromkeys(SUMMARY, 0)
    empty = []
    folder = Path(sys.argv[1])
    for path in sorted([*folder.glob("*.xml"), *(folder / f"{name}.log" for name in LOGS)]):
        if path.suffix == ".log":
            counts = count_log(path) if path.exists() else dict.fromkeys(SUMMARY, 0)
        else:
            cases = [count_case(case) for case in ElementTree.parse(path).getroot().iter("testcase")]
            counts = {what: sum(case[what] for case in cases) for what in SUMMARY}
        print(f"{path.stem}: " + ", ".join(f"{number} {what}" for what, number in counts.items()))
        empty += [path.stem] if not any(counts.values()) else []
        total = {what: total[what] + counts[what] for what in total}
    for name in empty:
        print(f"{name} ran no test")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if empty or total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
