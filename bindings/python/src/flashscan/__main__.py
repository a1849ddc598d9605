# SPDX-License-Identifier: Apache-2.0
"""``python -m flashscan info``: the version, the backends, their devices and kernels."""

import argparse

from ._info import info


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m flashscan", description="Recurrences over sequences.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="print the version, the backends, their devices and kernels")
    parser.parse_args()
    print(info())


if __name__ == "__main__":
    main()
