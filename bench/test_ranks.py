# SPDX-License-Identifier: Apache-2.0
"""Tests of ranks.py: the model gives what it was measured from, and its limits.

    python3 bench/test_ranks.py
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import ranks

FORWARD, BACKWARD = ranks.PASSES
KB, MB = 1 << 10, 1 << 20


class Model(unittest.TestCase):
    def test_is_near_what_was_measured(self):
        streams = [(FORWARD, {16: 3.3, 64: 3.9, 256: 4.25, 1024: 4.37}), (BACKWARD, {16: 3.3, 64: 3.7, 256: 4.0, 1024: 4.1})]
        for work, measured in streams:
            for size, terabytes in measured.items():
                moved = work.arrays * size * MB
                self.assertAlmostEqual(moved / work.stream_us(moved) / 1e6, terabytes, delta=0.05 * terabytes)
        for size, us in {4: 8.8, 64: 9.7, 512: 13.9, 2048: 28.6}.items():
            self.assertAlmostEqual(ranks.gather_us(2, size * KB), us, delta=0.06 * us)
        for size, us in {4: 1.9, 32: 2.7}.items():
            self.assertAlmostEqual(ranks.state_us(size * KB), us, delta=0.02)

    def test_a_wavefront_over_two_gpus_is_near_what_was_measured(self):
        for work, measured in ((FORWARD, {256: 264, 1024: 911}), (BACKWARD, {256: 439, 1024: 1577})):
            for size, us in measured.items():
                self.assertAlmostEqual(ranks.wavefront_us(work, 2, size * MB, 8192), us, delta=0.05 * us)

    def test_limits_are_those_of_passes_and_groups(self):
        large, rows = 1 << 50, 4096
        for work in ranks.PASSES:
            one = ranks.whole_us(work, 2, large)
            self.assertAlmostEqual(ranks.all_gather_us(work, 2, large, rows) / one, (work.arrays + work.summary) / work.arrays / 2, 6)
            for gpus in ranks.GPUS:
                whole = ranks.whole_us(work, gpus, large)
                share = ranks.one_kernel_us(work, gpus, large, rows) / whole
                self.assertAlmostEqual(share, (rows + gpus - 1) / rows / gpus, 6)

    def test_a_wavefront_has_no_more_groups_than_rows_and_none_too_small(self):
        self.assertEqual(ranks.groups_of(FORWARD, 256 * MB, 8192), 48)
        self.assertEqual(ranks.groups_of(FORWARD, 256 * MB, 3), 3)
        self.assertEqual(ranks.groups_of(FORWARD, MB, 8192), 1)

    def test_nothing_is_faster_than_the_share_of_the_whole(self):
        for line in (line.split("|")[1:-1] for line in ranks.write(256 * MB, 8192).splitlines() if line.startswith("| forward")
                     or line.startswith("| backward")):
            self.assertTrue(all(0 < float(percent) <= 100 for percent in (line[5], line[8], line[11])), line)

    def test_the_docs_quote_the_table(self):
        page = (Path(__file__).resolve().parents[1] / "docs" / "distributed.md").read_text(encoding="utf-8")
        rows = [line for line in ranks.write(256 * MB, 8192).splitlines() if line.startswith(("| forward", "| backward"))]
        self.assertEqual(len(rows), 12)
        for row in rows:
            self.assertIn(row, page)


if __name__ == "__main__":
    unittest.main()
