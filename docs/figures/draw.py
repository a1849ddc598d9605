#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the figures of docs/ as SVG files beside this script; `--check` fails if one is not what would be drawn."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent
BLUE, ORANGE, GREEN, GREY, WHITE = "#a6c8e4", "#f4c08a", "#b5dcae", "#dddddd", "#ffffff"
LINE = "#333333"


class Figure:
    """Boxes, texts and arrows on a white page."""

    def __init__(self, width: int, height: int) -> None:
        self.size = width, height
        self.parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, text: str = "", fill: str = WHITE) -> None:
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" stroke="{LINE}"/>'
        )
        if text:
            self.text(x + width / 2, y + height / 2 + 4.5, text, "middle")

    def text(self, x: float, y: float, text: str, anchor: str = "start", size: int = 13) -> None:
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}" fill="{LINE}">{escape(text)}</text>'
        )

    def arrow(self, x1: float, y1: float, x2: float, y2: float, dashed: bool = False) -> None:
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<path d="M {x1:g} {y1:g} L {x2:g} {y2:g}" stroke="{LINE}" fill="none" marker-end="url(#head)"{dash}/>'
        )

    def svg(self, title: str) -> str:
        width, height = self.size
        head = '<marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        head += f'<path d="M 0 0 L 8 4 L 0 8 z" fill="{LINE}"/></marker>'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="Helvetica, Arial, sans-serif">',
            f"<title>{escape(title)}</title>",
            f"<defs>{head}</defs>",
            f'<rect width="{width}" height="{height}" fill="{WHITE}"/>',
            *self.parts,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def layouts() -> str:
    """Where element (t, c) lies in both layouts, and in one half of a fused projection."""
    figure, cell = Figure(820, 250), 44
    names = [[f"t{t} c{c}" for c in range(3)] for t in range(4)]
    colours = (BLUE, ORANGE, GREEN, GREY)

    def row(y: int, label: str, order: list[tuple[int, int]], note: str) -> None:
        figure.text(10, y - 9, label)
        for place, (t, c) in enumerate(order):
            figure.box(10 + place * cell, y, cell, 28, names[t][c], colours[t])
        figure.text(20 + len(order) * cell, y + 19, note)

    row(30, "BTC [B, T, C]: channel innermost", [(t, c) for t in range(4) for c in range(3)], "strides T: 3, C: 1")
    row(105, "BCT [B, C, T]: time innermost", [(t, c) for c in range(3) for t in range(4)], "strides T: 1, C: 4")
    figure.text(10, 171, "one half of a fused projection [B, T, 2 C]: read in place, T: 6, C: 1")
    for t in range(3):
        for c in range(6):
            text, colour = (f"t{t} c{c}", colours[t]) if c < 3 else ("", WHITE)
            figure.box(10 + (t * 6 + c) * 36, 180, 36, 28, text, colour)
    figure.text(10, 230, "Colours are steps. Numbers are in elements; memory runs from left to right.")
    return figure.svg("Layouts in memory")


def packed() -> str:
    """Three sequences in one row, and what offsets say."""
    figure, cell = Figure(820, 200), 50
    lengths, colours = (4, 3, 5), (BLUE, ORANGE, GREEN)
    figure.text(10, 22, "one row, B = 1, T = 14")
    place = 0
    for number, (length, colour) in enumerate(zip(lengths, colours)):
        x = 10 + place * cell
        for step in range(length):
            figure.box(x + step * cell, 34, cell, 30, f"x[{place + step}]", colour)
        figure.arrow(x + 6, 130, x + 6, 68)
        figure.text(x + 2, 146, f"STATE_IN[{number}]")
        figure.arrow(x + length * cell - 6, 66, x + length * cell - 6, 92)
        figure.text(x + length * cell + 2, 108, f"STATE_OUT[{number}]", "end")
        place += length
    for step in range(2):
        figure.box(10 + (place + step) * cell, 34, cell, 30, "", GREY)
    figure.text(10 + place * cell + 4, 82, "belongs to none")
    figure.text(10, 184, "SEQ_OFFSETS = 0, 4, 7, 12: sequence n is steps offsets[n] to offsets[n+1] - 1")
    return figure.svg("Packed sequences")


def states() -> str:
    """A sequence cut in two and carried on, and a reset."""
    figure = Figure(820, 230)
    figure.text(10, 22, "A sequence cut in two: the final state of the first call is the initial state of the second.")
    figure.box(90, 36, 260, 34, "steps 0 to 499", BLUE)
    figure.box(470, 36, 260, 34, "steps 500 to 999", ORANGE)
    figure.arrow(20, 53, 88, 53)
    figure.text(18, 86, "STATE_IN")
    figure.arrow(352, 53, 468, 53)
    figure.text(410, 86, "STATE_OUT = STATE_IN", "middle")
    figure.arrow(732, 53, 800, 53)
    figure.text(802, 86, "STATE_OUT", "end")
    figure.text(10, 124, "RESET: the carried state is 0 before a step; its input still enters, and no gradient passes.")
    for step in range(10):
        reset = step in (4, 7)
        figure.box(10 + step * 78, 140, 56, 32, f"h[{step}]", ORANGE if reset else BLUE)
        figure.text(38 + step * 78, 192, "1" if reset else "0", "middle")
        if step < 9 and step + 1 not in (4, 7):
            figure.arrow(66 + step * 78, 156, 87 + step * 78, 156)
    figure.text(10, 216, "reset[t]; where the arrow is missing nothing is carried")
    return figure.svg("States and resets")


def chunks() -> str:
    """How time is done in parallel, with an order of operations that is fixed."""
    figure = Figure(820, 270)
    for chunk in range(4):
        x = 20 + chunk * 200
        figure.box(x, 30, 180, 34, f"chunk {chunk} of time", (BLUE, ORANGE, GREEN, GREY)[chunk])
        figure.arrow(x + 90, 66, x + 90, 96)
        figure.box(x + 10, 98, 160, 34, f"summary A{chunk}, X{chunk}")
        figure.arrow(x + 90, 134, x + 90, 164)
        figure.box(x + 10, 166, 160, 34, "h = A h_in + X")
        if chunk < 3:
            figure.arrow(x + 172, 183, x + 208, 183)
        figure.arrow(x + 90, 202, x + 90, 226)
        figure.text(x + 90, 243, "steps, from their carry", "middle")
    figure.text(20, 20, "All chunks at once: each is summarised as one map h -> A h + X.")
    figure.text(20, 262, "The order in which summaries are composed depends on their place alone: the same bits on every run.")
    return figure.svg("Time in parallel")


def memory() -> str:
    """What lives how long between two passes."""
    figure = Figure(820, 300)
    rows = (
        ("plan", 170, 800, GREY, "made once, immutable, for any number of threads and streams"),
        ("INPUT", 260, 480, BLUE, "yours, only read"),
        ("GATE, WEIGHT, STATE_IN", 260, 790, BLUE, "yours, only read, by both passes"),
        ("OUTPUT", 310, 790, BLUE, "yours; backward reads it"),
        ("RESERVE (training)", 310, 790, ORANGE, "yours: forward fills it, backward reads it"),
        ("GRAD|INPUT, ...", 600, 800, BLUE, "yours, written"),
    )
    for y, (name, start, end, colour, note) in enumerate(rows):
        figure.text(10, 60 + y * 34, name, size=12)
        figure.box(start, 42 + y * 34, end - start, 26, note, colour)
    figure.text(10, 60 + 6 * 34, "SCRATCH", size=12)
    figure.box(260, 42 + 6 * 34, 220, 26, "in forward", GREEN)
    figure.box(600, 42 + 6 * 34, 190, 26, "in backward", GREEN)
    figure.text(370, 26, "forward", "middle")
    figure.text(695, 26, "backward", "middle")
    figure.text(10, 290, "SCRATCH lives inside one call: the library's own, your allocator's, or an argument.")
    return figure.svg("Memory of two passes")


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = []
    for draw in (layouts, packed, states, chunks, memory):
        path, text = HERE / f"{draw.__name__}.svg", draw()
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(path.name)
    if stale:
        print(f"{', '.join(stale)}: not what docs/figures/draw.py draws; run it", file=sys.stderr)
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main())
