# SPDX-License-Identifier: Apache-2.0
"""Measures on the card at hand the thresholds by which the CUDA backend chooses between ways of a linear recurrence.

    python3 bench/sweep.py --bench build/cuda/bench/flashscan_bench [--only NAME] [--json FILE] [--other PATH]

For each constant it times two ways over a ladder of shapes, and prints the value with which the ladder takes the
least time beside the one in the source. The description of a case's plan says which way it took. Some constants choose
between two ways of one kernel, which cannot be forced: a build has one of them on either side of the constant. For
these, --other names flashscan_bench of builds with other values (1, and one above the ladder), which time what is
missing.
"""

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINEAR, DECODE = "src/cuda/linear/tuning.cpp", "src/cuda/linear/decode.cpp"
CHAINED = "src/cuda/launch/chained_tuning.cpp"
BYTES, STRIP_ROWS = {"bf16": 2, "f32": 4, "f64": 8}, {"bf16": 64, "f32": 32, "f64": 32}

# `kernel` is forced, "" is the choice of the library; `says` stands in what the plan says of the pass.
Way = namedtuple("Way", "name kernel says")
WAVES, ROWS = Way("few_long_rows", "few_long_rows", "blocks walk"), Way("rows", "rows", "groups a set")
DECODES, COLUMNS = Way("decode", "decode", "a thread for"), Way("columns", "columns", "groups a set")
CHUNKED, CHAIN, GROUPS = Way("chunked", "chunked", ""), "groups a set(?!.*carries by groups)", "carries by groups"


def ladder(heads, channels, megabytes=(), times=(), batch=1, strips=False):
    """Problems of each head (pass, dtype, layout) with each number of channels (or of strips of them) and each number
    of steps, or size of an array."""
    problems = []
    for dtype, head, number in ((head.split()[1], head, number) for head in heads for number in channels):
        c = number * (STRIP_ROWS[dtype] if strips else 1)
        times_of_c = times or [(size << 20) // BYTES[dtype] // c for size in megabytes]
        problems += [f"linear {head} b{batch} t{t} c{c}" for t in times_of_c]
    return problems


def waves_of(text):
    found = re.search(r"(\d+) x (\d+) blocks walk (\d+) x (\d+) chunks", text)
    teams, blocks, sequences, chunks = map(int, found.groups()) if found else (1, 1, 0, 0)
    return sequences * chunks / (teams * blocks)


def has_few_waves(text):
    least, of_many = (read_constant(name, LINEAR) for name in ("wave_least_waves", "wave_least_waves_of_many"))
    return least <= waves_of(text) < of_many


# Functions of a case and its plan's text that give what a constant is compared with; 0 where the case does not depend on the constant.
UNITS = {"rows": lambda case, text: case["batch"] * case["channels"],
         "rows of few waves": lambda case, text: case["channels"] if has_few_waves(text) else 0,
         "waves": lambda case, text: waves_of(text),
         "groups": lambda case, text: int(re.search(r"(\d+) groups of", text)[1]),
         "steps": lambda case, text: case["time"]}
BCT = ["fwd f32 BCT", "bwd f32 BCT", "fwd bf16 BCT", "bwd bf16 BCT"]
BTC = ["fwd f32 BTC", "bwd f32 BTC", "fwd f64 BTC", "bwd f64 BTC", "fwd bf16 BTC", "bwd bf16 BTC"]
WAVES_BTC = ["bwd f32 BTC", "fwd bf16 BTC", "bwd bf16 BTC"]  # f32 forward has no kernel
FEW = [4, 8, 16, 24, 32, 48]
# Name, file, sense, unit, ladders: two ways and their problems. The first way is taken with at "least" or at "most" as
# many units as the constant says.
CONSTANTS = [
    ("wave_most_rows[0]", LINEAR, "most", "rows", [
        (WAVES, CHUNKED, ladder(WAVES_BTC, [32, 64, 96, 128, 160, 192], [60]))]),
    ("wave_most_rows[1]", LINEAR, "most", "rows", [(WAVES, ROWS, ladder(BCT, [96, 128, 160, 192, 240, 320], [60]))]),
    ("wave_few_rows", LINEAR, "most", "rows of few waves", [
        (WAVES, ROWS, ladder(BCT, [16, 32, 48, 64, 96, 192], [9]))]),
    ("wave_least_waves", LINEAR, "least", "waves", [
        (WAVES, ROWS, ladder(BCT, [16], [3, 4, 6, 8, 12, 18])),
        (WAVES, CHUNKED, ladder(WAVES_BTC, [16], [2, 3, 4, 6, 9, 14]))]),
    ("wave_least_waves_of_many", LINEAR, "least", "waves", [
        (WAVES, ROWS, ladder(BCT, [128], [8, 12, 16, 20, 28, 40]))]),
    ("rows_least_groups", CHAINED, "least", "groups", [
        (Way("rows in a chain", "rows", CHAIN), Way("rows in groups", "rows", GROUPS),
         ladder(BCT, [128, 192, 240, 256, 320, 384, 512], [60]))]),
    ("columns_least_strips", CHAINED, "least", "groups", [
        (Way("columns in a chain", "columns", CHAIN), CHUNKED,  # with 8 chunks, which are never gathered in groups
         ladder(["fwd bf16 BTC"], FEW, times=[2048], strips=True)
         + ladder(["bwd bf16 BTC", "fwd f64 BTC"], FEW, times=[1024], strips=True)
         + ladder(["bwd f64 BTC"], FEW, times=[512], strips=True)),
        (Way("columns in a chain", "", CHAIN), Way("columns in groups", "", GROUPS),
         ladder(BTC, FEW[1:], [48], strips=True))]),
    ("columns_least_grouped", CHAINED, "least", "groups", [
        (Way("columns in groups", "", GROUPS), CHUNKED, ladder(BTC, [4, 6, 8, 12, 16, 24], [48], strips=True))]),
    ("most[0]", DECODE, "most", "steps", [
        (DECODES, COLUMNS, ladder(["fwd f32 BTC", "fwd bf16 BTC"], [2048], times=[1, 2, 3, 4, 6, 8, 12], batch=64))]),
    ("most[1]", DECODE, "most", "steps", [
        (DECODES, CHUNKED, ladder(["fwd f32 BCT", "fwd bf16 BCT"], [2048], times=[1, 2, 4, 6, 8, 12, 16], batch=64))]),
]


def read_constant(name, file):
    """The value in the source of NAME or NAME[PLACE]; in decode.cpp place 0 is BTC, 1 is BCT."""
    word, place = re.match(r"(\w+)(?:\[(\d)\])?", name).groups()
    found = re.search(rf"\b{word}(?:\[\d\] = {{(\d+), (\d+)}}| = (\d+)| = .*Layout::btc \? (\d+) : (\d+);)",
                      (ROOT / file).read_text(encoding="utf-8"))
    return int([value for value in found.groups() if value][int(place or 0)])


def text_of(case):
    """What the plan says of the pass, where nothing keeps it from the first variant; "" where it was not measured."""
    kernel = re.search(r"^kernel \w+: forward (.*?); backward (.*)", case["description"], re.MULTILINE)
    return kernel[1 + (case["pass"] == "bwd")].split("; where ")[0] if kernel and case["outcome"] == "measured" else ""


def total_us(rungs, sense, value):
    return sum(first if (x >= value if sense == "least" else x <= value) else second for x, first, second in rungs)


def best_values(rungs, sense, source):
    """The first and the last integer with which rungs (x, us of the first way, us of the second) take the least time;
    of several such ranges, the one near `source`."""
    values = sorted({source, *(math.floor(x) + i for x, _, _ in rungs for i in (-1, 0, 1))})
    times = [total_us(rungs, sense, value) for value in values]
    first = last = min(range(len(values)), key=lambda i: (times[i], abs(values[i] - source)))
    while first > 0 and times[first - 1] == times[first]:
        first -= 1
    while last + 1 < len(values) and times[last + 1] == times[last]:
        last += 1
    return [values[first], values[last]]


def run_bench(bench, kernel, problems, options):
    print(f"{bench}, {kernel or 'the choice of the library'}: {len(problems)} problems", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.json"
        command = [bench, "--backend", "cuda", "--runs", options.runs, "--budget-s", options.budget_s, "--json", file]
        command += ["--kernel", kernel] if kernel else []
        command += [word for problem in problems for word in ("--problem", problem)]
        run = subprocess.run([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        report = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"cases": []}
    wrong = [case["problem"] + ": " + case["note"] for case in report["cases"] if case["outcome"] == "wrong"]
    if wrong or len(report["cases"]) != len(problems):
        sys.exit(f"{bench} ended with {run.returncode}: " + ("; ".join(wrong) or run.stderr.strip()[-1000:]))
    return report


def measure(constants, options):
    """The first report, and {(way, problem): (case, what the plan says)} of the ways that ran."""
    wanted = {(way, line) for *_, ladders in constants for *ways, lines in ladders for way in ways for line in lines}
    ran, first = {}, None
    for bench in [options.bench, *options.other]:
        for kernel in sorted({way.kernel for way, _ in wanted}):
            missing = [(way, line) for way, line in wanted if way.kernel == kernel and (way, line) not in ran]
            problems = sorted({line for _, line in missing})
            report = run_bench(bench, kernel, problems, options) if problems else {"cases": []}
            first, cases = first or report, dict(zip(problems, report["cases"]))
            for way, line in missing:
                text = text_of(cases[line])
                if text and re.search(way.says, text):
                    ran[way, line] = cases[line], text
    return first, ran


def rungs_of(unit, ways, problems, ran):
    rungs = []
    for line in problems:
        found = [ran.get((way, line)) for way in ways]
        x = next((UNITS[unit](*one) for one in found if one), 0)
        if x:
            rungs.append({"problem": line, "x": round(x, 2), "us": [one and one[0]["median_us"] for one in found]})
    return sorted(rungs, key=lambda rung: rung["x"])


def weigh(constant, ran):
    """Prints the ladders of a constant and returns what was found, for the JSON."""
    name, file, sense, unit, ladders = constant
    source = read_constant(name, file)
    result = {"name": name, "file": file, "sense": sense, "unit": unit, "source": source, "ladders": []}
    print(f"\n{name} = {source} in {file}: {ladders[0][0].name} where there are at {sense} so many {unit}")
    for *ways, problems in ladders:
        rungs = rungs_of(unit, ways, problems, ran)
        result["ladders"].append({"ways": [way.name for way in ways], "rungs": rungs})
        print(f"  {unit:>17}  {'problem':<36}" + "".join(f" {way.name:>18}" for way in ways) + "  ratio")
        for rung in rungs:
            cells = "".join(f" {us:>18.2f}" if us else f" {'-':>18}" for us in rung["us"])
            ratio = f"  {rung['us'][0] / rung['us'][1]:.3f}" if all(rung["us"]) else ""
            print(f"  {rung['x']:>17}  {rung['problem']:<36}{cells}{ratio}")
    compared = [(rung["x"], *rung["us"]) for part in result["ladders"] for rung in part["rungs"] if all(rung["us"])]
    if not compared:
        print("  No shape ran both ways; --other names builds that run the other one.")
        return result
    best = best_values(compared, sense, source)
    least, now = (total_us(compared, sense, value) for value in (best[0], source))
    words = str(best[0]) if best[0] == best[1] else f"{best[0]} to {best[1]}"
    for way, end in ((1, sense == "least"), (2, sense == "most")):
        if least == sum(rung[way] for rung in compared):  # one way throughout
            words = f"{best[1]} or less" if end else f"{best[0]} or more"
    print(f"  With {words} the ladder takes {least:.1f} us; "
          f"with {source}, as in the source, {now:.1f} us, {now / least - 1:+.2%}.")
    return {**result, "best": best, "best_us": round(least, 2), "source_us": round(now, 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/cuda/bench/flashscan_bench")
    parser.add_argument("--other", action="append", default=[], help="of another build, may be repeated")
    parser.add_argument("--only", action="append", choices=[name for name, *_ in CONSTANTS], help="may be repeated")
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--commit", default="", help="noted in the JSON")
    parser.add_argument("--runs", type=int, default=8, help="timed runs of each case, default 8")
    parser.add_argument("--budget-s", type=float, default=0.05, help="of flashscan_bench, default 0.05")
    options = parser.parse_args()
    constants = [constant for constant in CONSTANTS if not options.only or constant[0] in options.only]
    report, ran = measure(constants, options)
    about = {key: report[key] for key in ("device", "driver", "library_version", "date")}
    print(", ".join(about.values()) + f"; medians of {options.runs} runs in us")
    found = {"format": "flashscan_sweep 1", **about, "commit": options.commit, "runs": options.runs,
             "constants": [weigh(constant, ran) for constant in constants]}
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
