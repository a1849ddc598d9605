# SPDX-License-Identifier: Apache-2.0
"""Tables of Markdown and the texts in them."""


def table(header, rows, texts=1):
    """`texts`: how many columns hold text; the others are aligned to the right."""
    lines = [header, ["---"] * texts + ["---:"] * (len(header) - texts), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines) + "\n"


def us_text(us):
    return "–" if us is None else f"{us:.2f}" if us < 10 else f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def met_text(item):
    return "" if item.met is None else " met" if item.met else " **missed**"


def code(text):
    return f"`{text}`"


def without_family(problem):
    return problem.partition(" ")[2]
