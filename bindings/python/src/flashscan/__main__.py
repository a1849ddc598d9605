# SPDX-License-Identifier: Apache-2.0
"""``python -m flashscan info``: the version, the backends, their devices and kernels. ``python -m flashscan prefix``: the
folder with lib/ and include/, for programs in other languages."""

import argparse
import sys

from ._info import info, prefix


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m flashscan", description="Recurrences over sequences.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="print the version, the backends, their devices and kernels")
    commands.add_parser("prefix", help="print the folder with lib/ and include/, for programs in other languages")
    try:
        print({"info": info, "prefix": prefix}[parser.parse_args().command]())
    except FileNotFoundError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
