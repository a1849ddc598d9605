# SPDX-License-Identifier: Apache-2.0
"""Draws results of flashscan_bench and peers.py as PNG files.

    python3 bench/plot.py bench/results/FOLDER [--out DIRECTORY]

Files: time_<layout>_b<B>_c<C>.png  time against sequence length, for every (B, C) with at least four lengths
       share_<layout>_b<B>_c<C>.png the same as percent of what a plain stream of such arrays reaches
       packages_<layout>.png        flashscan and other packages at the other shapes
       ceiling.png                  percent of the stream ceiling, a line for each kind of problem
       ceiling_<set>.png            the same, a line for each problem of a set
       time_tiny.png                microseconds of the tiny problems
"""

import argparse
from pathlib import Path

import ceiling_charts
import package_charts
import reports


def plot(results, out, dtypes=("f32", "bf16")):
    """Draws everything; returns the paths."""
    return package_charts.plot(results, out, dtypes) + ceiling_charts.plot(results, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", help="folders, or JSON files of flashscan_bench and peers.py")
    parser.add_argument("--out", help="directory for the PNG files (default: that of the results)")
    parser.add_argument("--dtypes", default="f32,bf16", help="of the charts of time against length (default f32,bf16)")
    options = parser.parse_args()
    first = Path(options.results[0])
    out = Path(options.out) if options.out else first if first.is_dir() else first.parent
    results = reports.load_results(options.results)
    out.mkdir(parents=True, exist_ok=True)
    for path in plot(results, out, options.dtypes.split(",")):
        print(path)


if __name__ == "__main__":
    main()
