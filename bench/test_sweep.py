# SPDX-License-Identifier: Apache-2.0
"""Tests of sweep.py: the choice of a threshold, constants in the sources, plans in words, and a run of a made-up bench.

    python3 bench/test_sweep.py
"""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))

import reports
import sweep

# Takes 9.5 us in a chain and 1 us for each 32 rows in groups. The number behind the name is the constant
# of its build: with fewer rows, chunks are gathered in groups.
BENCH = """#!{python}
import json, sys
words = list(zip(sys.argv[1::2], sys.argv[2::2]))
cases = []
for line in (value for key, value in words if key == "--problem"):
    rows = int(line.split()[-1][1:])
    grouped = rows < int(sys.argv[0].rpartition("_")[2])
    plan = f"{{rows}} groups of 1 rows x 9 chunks of 8192 steps, {{rows}} groups a set, time innermost, aligned"
    plan += ", carries by groups of 128 chunks" if grouped else ""
    cases.append({{"problem": line, "pass": line.split()[1], "outcome": "measured", "note": "", "batch": 1,
                  "channels": rows, "median_us": rows / 32 if grouped else 9.5,
                  "description": f"linear\\nkernel rows: forward {{plan}}; backward {{plan}}; where x: y\\n"}})
report = {{"device": "GPU", "driver": "1", "library_version": "1.0.0", "date": "2026-01-02T03:04:05Z", "cases": cases}}
with open(dict(words)["--json"], "w") as file:
    json.dump(report, file)
"""
PLAN = """linear f32 BTC b1 t262144 c128
kernel few_long_rows: forward by chunked (f32): 4 groups of 32 rows x 1024 chunks, look-back over 16 x 16; \
backward 4 x 33 blocks walk 4 x 2731 chunks of 32 rows x 96 steps in waves; where there are states: chunked
scratch forward 0 backward 0 bytes
"""


class Sources(unittest.TestCase):
    def test_have_every_constant(self):
        for name, file, *_ in sweep.CONSTANTS:
            self.assertGreater(sweep.read_constant(name, file), 0, name)

    def test_have_the_place_that_is_named(self):
        text = "constexpr int64_t a[2] = {128, 192}, ab = 64, b = 8;\nconst int64_t c = x == Layout::btc ? 4 : 1;\n"
        with mock.patch.object(sweep.Path, "read_text", return_value=text):
            self.assertEqual([sweep.read_constant(name, "x") for name in ("a[0]", "a[1]", "ab", "b", "c[0]", "c[1]")],
                             [128, 192, 64, 8, 4, 1])


class Ladders(unittest.TestCase):
    def test_are_of_whole_rows_of_like_size(self):
        for _, file, *_, ladders in sweep.CONSTANTS:
            for *_, problems in ladders:
                self.assertEqual(len(problems), len(set(problems)))
                for case in map(reports.parse_problem, problems):
                    self.assertTrue(case["time"] % 8 == 0 or file == sweep.DECODE, case["problem"])
                    self.assertTrue(case["array_bytes"] % (1 << 18) == 0, case["problem"])

    def test_have_the_value_of_the_source_between_their_ends(self):
        for name in ("wave_most_rows[0]", "wave_most_rows[1]", "wave_few_rows"):
            _, file, _, _, ladders = next(constant for constant in sweep.CONSTANTS if constant[0] == name)
            rows = [reports.parse_problem(line)["channels"] for *_, problems in ladders for line in problems]
            self.assertTrue(min(rows) < sweep.read_constant(name, file) < max(rows), name)


class Choice(unittest.TestCase):
    def test_takes_the_least_time(self):
        rungs = [(1.5, 9, 5), (2.5, 7, 6), (3.25, 5, 7), (4, 4, 8)]
        self.assertEqual(sweep.total_us(rungs, "least", 3), 5 + 6 + 5 + 4)
        self.assertEqual([sweep.best_values(rungs, "least", source) for source in (1, 3, 8)], [[3, 3]] * 3)
        falling = [(x, second, first) for x, first, second in rungs]
        self.assertEqual(sweep.total_us(falling, "most", 3), 5 + 6 + 5 + 4)
        self.assertEqual([sweep.best_values(falling, "most", source) for source in (1, 3, 8)], [[3, 3]] * 3)

    def test_gives_all_values_that_take_it(self):
        rungs = [(16, 1, 2), (64, 1, 2), (128, 3, 2)]
        self.assertEqual([sweep.best_values(rungs, "most", source) for source in (2, 100, 500)], [[64, 127]] * 3)
        rungs = [(16, 2, 1), (64, 2, 1), (128, 2, 3)]
        self.assertEqual([sweep.best_values(rungs, "least", source) for source in (2, 100, 500)], [[65, 128]] * 3)

    def test_may_take_one_way_throughout(self):
        rungs = [(4, 1, 2), (8, 1, 2)]
        self.assertEqual(sweep.best_values(rungs, "least", 32)[1], 4)
        self.assertEqual(sweep.best_values([(4, 2, 1), (8, 2, 1)], "least", 32), [9, 32])
        self.assertEqual(sweep.best_values([(4, 2, 1), (8, 2, 1)], "most", 8)[1], 3)


class Plans(unittest.TestCase):
    def test_say_what_a_pass_does(self):
        case = {"description": PLAN, "outcome": "measured", "pass": "bwd"}
        self.assertEqual(sweep.text_of(case), "4 x 33 blocks walk 4 x 2731 chunks of 32 rows x 96 steps in waves")
        self.assertAlmostEqual(sweep.waves_of(sweep.text_of(case)), 4 * 2731 / 132)
        forward = sweep.text_of({**case, "pass": "fwd"})
        self.assertNotRegex(forward, sweep.WAVES.says)
        self.assertEqual(sweep.waves_of(forward), 0)
        self.assertEqual(sweep.text_of({**case, "outcome": "failed"}), "")
        self.assertEqual(sweep.text_of({**case, "description": ""}), "")

    def test_of_results_are_understood(self):
        file = reports.HERE / "results" / "2026-11-27-h200" / "few_long_rows_after_1.json"
        for case in reports.load(file)["cases"]:
            if case["kernel"] == "few_long_rows" and case["layout"] == "BCT":
                self.assertGreater(sweep.UNITS["waves"](case, sweep.text_of(case)), 3)


@mock.patch("sys.stderr", io.StringIO())
class Run(unittest.TestCase):
    def sweep(self, folder, *words):
        benches = [Path(folder) / f"bench_{value}" for value in (256, 1, 4096)]
        for bench in benches:
            bench.write_text(BENCH.format(python=sys.executable), encoding="utf-8")
            bench.chmod(0o755)
        words = [word if isinstance(word, str) else str(benches[word]) for word in words]
        file = Path(folder) / "sweep.json"
        command = ["sweep.py", "--bench", str(benches[0]), "--json", str(file), "--commit", "c0ffee", *words]
        out = io.StringIO()
        with mock.patch("sys.argv", command), contextlib.redirect_stdout(out):
            sweep.main()
        return json.loads(file.read_text(encoding="utf-8")), out.getvalue()

    def test_needs_other_builds_for_two_ways_of_a_kernel(self):
        with tempfile.TemporaryDirectory() as folder:
            found, text = self.sweep(folder, "--only", "rows_least_groups")
            self.assertIn("No shape ran both ways", text)
            [constant] = found["constants"]
            self.assertNotIn("best", constant)
            us = {rung["x"]: rung["us"] for rung in constant["ladders"][0]["rungs"]}
            self.assertEqual((us[240], us[256]), ([None, 7.5], [9.5, None]))

    def test_finds_the_threshold(self):
        with tempfile.TemporaryDirectory() as folder:
            found, text = self.sweep(folder, "--only", "rows_least_groups", "--other", 1, "--other", 2)
            [constant] = found["constants"]
            self.assertEqual((constant["source"], constant["best"]), (256, [257, 320]))
            self.assertEqual(constant["source_us"] - constant["best_us"], 4 * (9.5 - 256 / 32))
            self.assertIn("With 257 to 320 the ladder takes", text)
            self.assertEqual((found["commit"], found["device"], found["date"][:10]), ("c0ffee", "GPU", "2026-01-02"))

    def test_writes_what_other_scripts_pass_over(self):
        with tempfile.TemporaryDirectory() as folder:
            self.sweep(folder, "--only", "rows_least_groups")
            self.assertEqual(reports.program_of(reports.load(f"{folder}/sweep.json")), "flashscan_sweep")
            bench = {"format": "flashscan_bench 1", "cases": []}
            Path(folder, "bench.json").write_text(json.dumps(bench), encoding="utf-8")
            self.assertEqual([report["file"] for report in reports.load_results([folder]).benches], ["bench.json"])

    def test_ends_where_the_bench_does(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(SystemExit, "ended with"):
            bench = Path(folder, "broken")
            bench.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('no device')\n", encoding="utf-8")
            bench.chmod(0o755)
            with mock.patch("sys.argv", ["sweep.py", "--bench", str(bench)]):
                sweep.main()


if __name__ == "__main__":
    unittest.main()
