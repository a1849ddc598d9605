# SPDX-License-Identifier: Apache-2.0
"""Writes what goes with the JSON of a results folder: targets.md and all plots. Prints the short table for README.md.

    python3 bench/publish.py bench/results/FOLDER
"""

import argparse
from pathlib import Path

import plot
import reports
import targets


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    results = reports.load_results([folder])
    page = folder / "targets.md"
    page.write_text(targets.write(results), encoding="utf-8")
    for path in [page, *plot.plot(results, folder)]:
        print(path)
    print("\n" + targets.write_short(results), end="")


if __name__ == "__main__":
    main()
