# SPDX-License-Identifier: Apache-2.0
"""What the charts share: axes, layout of a page, files."""

import io
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from PIL import Image

import reports


def plain_number(value, _=None):
    return f"{value:g}"


def number_axis(axis, marks=(1,)):
    """Plain numbers on a logarithmic axis, at these multiples of the powers of ten."""
    axis.set_major_locator(LogLocator(10, subs=marks))
    axis.set_major_formatter(FuncFormatter(plain_number))
    axis.set_minor_formatter(NullFormatter())


def save(figure, out, name):
    """With a palette, which makes the file a third as large."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=110)
    plt.close(figure)
    path = Path(out) / name
    Image.open(buffer).convert("RGB").quantize(128, method=Image.Quantize.MEDIANCUT).save(path, optimize=True)
    return path


def finish(figure, report, bottom, title):
    """Title above, the run in small print below, and `bottom` inches for a legend between it and the axes."""
    height = figure.get_figheight()
    heading = figure.suptitle(title, y=1 - 0.1 / height, va="top", fontsize=11)
    heading.set_in_layout(False)
    figure.text(0.5, 0.08 / height, reports.caption(report), ha="center", fontsize=7, color="0.4").set_in_layout(False)
    figure.tight_layout(rect=(0.01, bottom / height, 0.99, 1 - 0.5 / height))
