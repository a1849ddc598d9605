# SPDX-License-Identifier: Apache-2.0
"""Tests of targets.py, plot.py, publish.py and compare.py: on every folder of bench/results, and on made-up results.

    python3 bench/test_reports.py
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

import calls
import compare
import plot
import publish
import reports
import targets
from judgements import ROWS, comparisons_of, judgements_of

# Some folders hold what tests and fuzzers printed, and no timings.
FOLDERS = sorted({file.parent for file in (reports.HERE / "results").glob("*/*.json")
                  if reports.program_of(reports.load(file)) == "flashscan_bench"})


def bench_case(line, set_name, us, ceiling_percent, targets_of_case=(), **fields):
    """As flashscan_bench writes it; targets_of_case: (text, measured, met)."""
    case = {**reports.parse_problem(line), "set": set_name, "outcome": "measured", "note": "", "median_us": us,
            "ceiling_percent": ceiling_percent, "burst_us": 0, "host_us": 2.5, **fields}
    if line.startswith("operator "):
        words = line.split()
        dim = next((int(word[1:]) for word in words if word[0] == "d" and word[1:].isdigit()), 0)
        case.update(operator=words[1], dim=dim, mode="reduction" if "reduction" in words else "inclusive")
    case.update({"plan_cold_us": 50.0, "plan_warm_us": 5.0, **fields})
    case["required_bytes"] = case["array_bytes"] * (3 if case["pass"] == "fwd" else 5)
    case["ceiling_gbps"] = case["required_bytes"] / us * 1e-3 / ceiling_percent * 100
    case["targets"] = [{"target": text, "limit": 0, "measured": measured, "met": met}
                       for text, measured, met in targets_of_case]
    return case


def bench_report(cases, **fields):
    return {"format": "flashscan_bench 1", "library_version": "0.1.0", "commit": "c" * 40, "backend": "cuda",
            "date": "2026-01-02T03:04:05Z", "device": "NVIDIA H200, 132 SMs", "driver": "1, CUDA 13", "cases": cases,
            "first_plan_us": 8000.0, **fields}


def peers_report(case, results):
    return {"format": "flashscan_peers 1", "library_version": "0.1.0", "commit": "", "date": "2026-01-02T03:04:05Z",
            "device": "NVIDIA H200", "torch": "2", "missing": {"fla chunk_hgrn": "not installed (fla)"},
            "cases": [{**reports.parse_problem(case), "results": results}]}


def made_up():
    wrong = bench_case("linear fwd f32 BCT b1 t1048576 c16", "long", 1.0, 1.0)
    wrong.update(outcome="wrong", note="WRONG: error 1")
    return [
        bench_case("linear fwd f32 BTC b4 t4096 c1024", "ceiling", 50.0, 96.5, [("@95%", 96.5, True)]),
        bench_case("linear bwd f32 BTC b4 t4096 c1024", "ceiling", 90.0, 71.25, [("@95%", 71.25, False)]),
        bench_case("linear fwd f32 BTC b8 t4096 c1024 states", "features", 100.0, 90.0, [("@plain+3%", None, None)]),
        bench_case("linear fwd f32 BTC b1 t256 c64", "tiny", 6.0, 80.0,
                   [("@4us", 6.0, False), ("@host3us", 2.5, True)]),
        *(bench_case(f"linear {direction} f32 BCT b8 t{time} c1536", "peers", time / 20, 80.0)
          for direction in ("fwd", "bwd") for time in (128, 256, 512, 1024)),
        bench_case("rnn lstm fwd bf16 b16 t1024 h1 d768", "rnn", 1331.2, 0.1, [("@1.2us/step", 1.3, False)],
                   floor_percent=67.8),
        bench_case("gated fwd bf16 BTC b8 t4096 c2560 rglru no-bias", "layers", 200.0, 88.5, [("@85%", 88.5, True)]),
        bench_case("gated fwd bf16 BTC b64 t1 c4096 mingru no-bias state-in state-out", "layers", 2.75, 20.0,
                   [("@3us", 2.75, True)]),
        bench_case("rnn lstm fwd bf16 b16 t1024 h1 d768 training", "rnn", 1126.4, 0.1, [("@1.2us/step", 1.1, True)]),
        wrong,
    ]


class Folder(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.path = Path(scratch.name)

    def write(self, name, report):
        (self.path / name).write_text(report if isinstance(report, str) else json.dumps(report), encoding="utf-8")
        return self.path / name

    def results(self):
        return reports.load_results([self.path])

    def run_main(self, module, *arguments):
        with mock.patch.object(sys, "argv", [module.__name__, *map(str, arguments)]), \
                contextlib.redirect_stdout(io.StringIO()) as output:
            module.main()
        return output.getvalue()

    def expect_pictures(self, paths):
        for path in paths:
            content = Path(path).read_bytes()
            self.assertEqual(content[:8], b"\x89PNG\r\n\x1a\n", path)
            self.assertLess(len(content), 150_000, path)


class CommittedResults(Folder):
    def test_there_are_some(self):
        self.assertTrue(FOLDERS)

    def test_every_target_is_judged_as_the_driver_did(self):
        folders = 0
        for folder in FOLDERS:
            results = reports.load_results([folder])
            written = [target["met"] for report in results.benches for case in report["cases"]
                       for target in case["targets"] if target["met"] is not None]
            judged = [item.met for item in judgements_of(results) if item.met is not None]
            if not written and not judged:
                continue  # lines that were timed without targets
            folders += 1
            self.assertTrue(judged, folder)
            self.assertEqual(sorted(written), sorted(judged), folder)
        self.assertGreater(folders, 0)

    def test_folders_without_timings_say_so(self):
        folders = {file.parent for file in (reports.HERE / "results").glob("*/*.json")}
        self.assertTrue(folders.difference(FOLDERS))
        for folder in folders.difference(FOLDERS):
            with self.assertRaisesRegex(SystemExit, "no result of flashscan_bench"):
                self.run_main(targets, folder)

    def test_page_and_pictures(self):
        drawn = 0
        for folder in FOLDERS:
            output = self.run_main(targets, folder)
            for row in {item.row for item in judgements_of(reports.load_results([folder]))}:
                self.assertIn(f"| {ROWS[row][0]} | {ROWS[row][1]} |", output)
        for folder in FOLDERS[-3:]:  # a folder takes seconds to draw
            paths = self.run_main(plot, folder, "--out", self.path).split()
            drawn += len(paths)  # a folder of a few lines may have none
            self.expect_pictures(paths)
        self.assertGreater(drawn, 0)


class MadeUpResults(Folder):
    def test_cells(self):
        self.write("some.json", bench_report(made_up()))
        page = targets.write(self.results())
        self.assertIn("| `f32 BTC b4 t4096 c1024` | ceiling | 95 % | 50.0 | 96.5 % met | 90.0 | 71.2 % **missed** |",
                      page)
        self.assertIn("| `lstm bf16 b16 t1024 h1 d768` | 1.30 / 1.2 **missed**, 68 % | 1.10 / 1.2 met | ", page)
        self.assertIn("| 100.0 | – | the plain case is not in the results |", page)
        self.assertIn("wrong: WRONG: error 1", page)
        self.assertIn("| 6.00 us **missed** | – | 4.80 |", page)
        self.assertIn("| `bf16 BTC b8 t4096 c2560 rglru no-bias` | layers | 85 % | 200.0 | 88.5 % met | – | – |", page)
        self.assertIn("c4096 mingru no-bias state-in state-out` | GPU | 3 us | 2.75 us met |", page)
        self.assertIn("| 2.50 us met |", page)

    def test_lines_that_were_not_measured_are_counted(self):
        self.write("some.json", bench_report(made_up()))
        large = [item for item in judgements_of(self.results()) if item.row == "large"]
        self.assertEqual([item.met for item in large if item.measured is not None], [True, False])
        lines = sum(target["target"] == "@95%" for name in ("ceiling", "peers", "features")
                    for case in reports.load_problem_set(name) for target in case["targets"])
        self.assertEqual(len(large), lines)
        self.assertIn(f"| {lines} | 1 | 1 | – | {lines - 2} | 71.2 %, `bwd f32 BTC b4 t4096 c1024` |",
                      targets.write(self.results()))

    def test_what_a_stream_would_miss_is_out_of_reach(self):
        self.write("some.json", bench_report(made_up()))
        tiny, = (item for item in judgements_of(self.results()) if item.row == "tiny" and item.measured is not None)
        self.assertTrue(tiny.out_of_reach)  # 80 % of the ceiling in 6 us: the stream takes 4.8 us

    def test_what_an_empty_launch_would_miss_is_out_of_reach(self):
        for launch_us, out_of_reach in ((3.2, True), (2.4, False)):
            self.write("some.json", bench_report([bench_case(
                "linear fwd f32 BTC b1 t256 c64", "tiny", 6.0, 80.0, [("@host3us", 3.5, False)], launch_us=launch_us)]))
            host, = (item for item in judgements_of(self.results()) if item.row == "host" and item.measured is not None)
            self.assertEqual(host.out_of_reach, out_of_reach)

    def test_same_run_stands_before_quoted(self):
        self.write("some.json", bench_report(made_up()))
        quoted, _ = comparisons_of(self.results())
        self.assertFalse(any(item.same_run for item in quoted))
        chosen = lambda items: [(item.same_run, item.ratio) for item in items if item.direction == "fwd" and
                                item.peer == "accelerated-scan warp" and item.case["problem"].split()[5] == "t512"]
        self.assertEqual(chosen(quoted), [(False, 39.6 / 25.6)])
        self.write("packages.json", peers_report("linear fwd f32 BCT b8 t512 c1536", [
            {"name": "flashscan", "median_us": 20.0, "note": ""},
            {"name": "accelerated-scan warp", "median_us": 50.0, "note": ""},
            {"name": "accelerated-scan scalar", "note": "OutOfMemoryError: made up"}]))
        measured, reasons = comparisons_of(self.results())
        self.assertEqual(chosen(measured), [(True, 2.5)])
        self.assertEqual(list(reasons), [("accelerated-scan scalar", "OutOfMemoryError: made up")])
        page = targets.write(self.results())
        self.assertIn("| accelerated-scan warp | 50.0 | 20.0 | 2.50 met | 1.5 | 2.44 |", page)
        self.assertIn("- fla chunk_hgrn, `packages.json`: not installed (fla)", page)

    def test_nothing_is_quoted_beside_another_card(self):
        self.write("some.json", bench_report(made_up(), device="NVIDIA A100"))
        self.assertEqual(comparisons_of(self.results())[0], [])
        self.assertNotIn("quoted", targets.write(self.results()))

    def test_operators(self):
        cases = [
            bench_case("operator add fwd f32 b8 t8192 c1024", "operator_custom", 150.0, 80.0),
            bench_case("operator add fwd f32 b8 t8192 c1024 custom", "operator_custom", 165.0, 73.0,
                       [("@plain+30%", 10.0, True)], plan_cold_us=1.5e6, plan_warm_us=12.0),
            bench_case("operator matmul fwd f32 b1 t1000 c1 d32", "operator", 50.0, 8.0, plan_warm_us=250.0),
            bench_case("operator matmul fwd f32 b1 t1000 c1 d32 reduction", "operator", 40.0, 8.0),
            bench_case("linear fwd f32 BTC b8 t8192 c1024", "peers", 200.0, 95.0)]
        self.write("operator.json", bench_report(cases))
        self.write("chains.json", {"torch": "2", "device": "NVIDIA H200", "rows": [
            {"n": 1000, "d": 32, "what": "prefix", "peer_us": 1000.0, "flashscan_us": 80.0},
            {"n": 1000, "d": 32, "what": "reduce", "peer_us": 600.0, "flashscan_us": 60.0},
            {"n": 1000, "d": 512, "what": "prefix", "peer_us": 70000.0, "flashscan_us": 7000.0}]})
        page = targets.write(self.results())
        self.assertIn("| Custom operators | ≤ 30 % over the same built in | ", page)
        self.assertIn("| `add f32 b8 t8192 c1024 custom` | operator_custom | 30 % | 165.0 | 73.0 % | +10.0 % met |", page)
        self.assertIn("| 1000 x 32 x 32 | 50.0 | 1000 | 20.0 (12.5) met | 20 | 40.0 | 600.0 | 15.0 (10.0) met | 10 |", page)
        self.assertIn("| 1000 x 512 x 512 | 7000 | 70000 | 10.0 (10.0) met | 8 | – | – | – | – |", page)
        self.assertIn("| Plan made again | `matmul fwd f32 b1 t1000 c1 d32` | ≤ 100 us | 250.0 **missed** |", page)
        self.assertIn("new source | `add fwd f32 b8 t8192 c1024 custom` | ≤ 1 s | 1500000 **missed** |", page)
        self.assertIn("known source | `add fwd f32 b8 t8192 c1024 custom` | ≤ 1 ms | 12.0 met |", page)
        plain, = reports.plain_cases(self.results())
        self.assertEqual(plain["problem"], "linear fwd f32 BTC b8 t8192 c1024")

    def test_rows_of_other_programs_are_passed_over(self):
        self.write("some.json", bench_report(made_up()))
        page = targets.write(self.results())
        self.write("layers.json", {"rows": [{"family": "gated", "layer": "rglru", "forward_us": 321.1}]})
        self.write("table.json", {"rows": ["1 2", "3 4"]})
        self.assertEqual(targets.write(self.results()), page)
        self.write("chains.json", {"numpy": "1", "rows": [{"n": 64, "d": 4, "numpy_us": 80.0, "flashscan_us": 8.0}]})
        self.assertIn("| 64 x 4 x 4 | 8.00 | 80.0 | 10.0 (10.0) met | 5 |", targets.write(self.results()))

    def test_targets_of_chains(self):
        targets_of = lambda what: [calls.chain_target(what, d) for d in (2, 4, 16, 64, 128, 256, 512)]
        self.assertEqual(targets_of("prefix"), [100, 100, 20, 20, 20, 20, 8])
        self.assertEqual(targets_of("reduce"), [10, 10, 10, 10, 2, 1, 1])

    def test_calls_from_python(self):
        self.write("overhead.json", {"microseconds": {
            "NumPy": {"rnn": 7.5, "affine_scan": {"call": 14.0, "library": 2.0, "memory": 0.5, "overhead": 11.5}},
            "torch cuda": {"rnn": 30.0}}})
        checks = calls.checks_of(self.results())
        self.assertEqual([(check.name, check.met) for check in checks],
                         [("NumPy, rnn", True), ("NumPy, affine_scan", False)])
        page = targets.write(self.results())
        self.assertIn("| NumPy | affine_scan | 14.0 | 2.00 | 0.50 | 11.5 **missed** |", page)
        self.assertIn("| torch cuda | rnn | 30.0 | – | – | – |", page)

    def test_cpu(self):
        cases = [bench_case("linear fwd f32 BTC b4 t4096 c1024", "cpu", 5000.0, 85.0, [("@80%", 85.0, True)])]
        self.write("cpu.json", bench_report(cases, backend="cpu", device="a CPU", driver=""))
        self.assertEqual({item.row for item in judgements_of(self.results())}, {"cpu"})
        self.assertIn("| 4 | 1 | 0 | – | 3 |", targets.write(self.results()))
        self.expect_pictures(plot.plot(self.results(), self.path))

    def test_packages_alone(self):
        results = [{"name": "flashscan", "median_us": 20.0, "note": ""},
                   {"name": "other", "median_us": 50.0, "note": ""}]
        self.write("packages.json", peers_report("linear fwd f32 BTC b8 t512 c1536", results))
        self.assertIn("| other | 50.0 | 20.0 | 2.50 | – | – |", targets.write(self.results()))
        paths = plot.plot(self.results(), self.path)
        self.assertEqual([path.name for path in paths], ["packages_BTC.png"])
        self.expect_pictures(paths)

    def test_prefixes_of_packages(self):
        row = "operator add fwd f32 b1 t67108864 c1"
        results = [{"name": "flashscan", "median_us": 200.0, "note": ""},
                   {"name": "torch.cumsum", "median_us": 210.0, "note": ""},
                   {"name": "CUB DeviceScan", "median_us": 220.0, "note": ""}]
        self.write("some.json", bench_report([bench_case(row, "operator", 190.0, 80.0)]))
        self.write("prefix.json", peers_report(row, results))
        page = targets.write(self.results())
        self.assertIn("### torch.cumsum, one long row: target as fast, same run", page)
        self.assertIn("| `add fwd f32 b1 t67108864 c1` | torch.cumsum | 210.0 | 200.0 | 1.05 met | 1 | 1.38 |", page)
        self.assertIn("| `add fwd f32 b1 t67108864 c1` | CUB DeviceScan | 220.0 | 200.0 | 1.10 | – | 1.45 |", page)
        rows = "operator add fwd f32 b8 t8192 c1024 BCT"
        self.write("prefix.json", peers_report(rows, results))
        self.assertEqual({item.row for item in comparisons_of(self.results())[0] if item.same_run}, {"other"})
        self.assertFalse([path for path in plot.plot(self.results(), self.path) if "packages" in path.name])

    def test_publish(self):
        self.write("some.json", bench_report(made_up()))
        self.write("tests.json", {"suites": {}})
        self.run_main(publish, self.path)
        names = {path.name for path in self.path.iterdir()}
        self.assertLessEqual({"targets.md", "time_BCT_b8_c1536.png", "share_BCT_b8_c1536.png", "ceiling.png",
                              "ceiling_ceiling.png", "time_tiny.png"}, names)
        self.expect_pictures(self.path.glob("*.png"))

    def test_compare(self):
        old = self.write("old.json", bench_report(made_up()))
        slower = made_up()
        slower[0]["median_us"] *= 1.5
        new = self.write("new.json", bench_report(slower))
        self.assertIn("1 slower or broken", self.run_main(compare, old, new))


class BadInput(Folder):
    def expect_exit(self, words, *paths):
        with self.assertRaises(SystemExit) as caught:
            reports.load_results(paths)
        self.assertIn(words, str(caught.exception))

    def test_what_cannot_be_read_is_named(self):
        self.expect_exit("no result of flashscan_bench", self.path)
        self.expect_exit("absent.json", self.path / "absent.json")
        self.expect_exit("not a result", self.write("other.json", {"suites": {}}))
        self.expect_exit("holds no JSON object", self.write("list.json", []))
        self.expect_exit("broken.json", self.write("broken.json", "{"))


if __name__ == "__main__":
    unittest.main()
