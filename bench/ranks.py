# SPDX-License-Identifier: Apache-2.0
"""Simulates a linear recurrence whose time is cut over 2 to 64 GPUs: three ways to carry states from GPU to GPU.

    python3 bench/ranks.py [--array-mb 256] [--rows 8192]

Nothing is run: times come from a cost model, whose numbers are measured on H200s where MEASURED says so and assumed where
ASSUMED does. Each GPU has the same number of steps, so that the whole grows with the number of GPUs.

all-gather  Each GPU reads what a summary of its steps takes, all GPUs gather the summaries, and each runs its pass.
wavefront   Rows are in groups, a kernel each. A GPU starts a group when the one before it has finished it and sent its state;
            each array is read or written once. The last GPU starts behind one group of each GPU before it.
one kernel  The same in a single kernel that waits for states by itself, which the library does not have: groups can be small.
"""

import argparse
from dataclasses import dataclass

from tables import table, us_text

MB = 1 << 20
MEASURED = """a stream of 2 reads and 1 write of arrays of 16 MB to 1 GB takes 3.8 us and its bytes at 4.39 TB/s, one of
3 reads and 2 writes 5.0 us and 4.12 TB/s (a straight line through the ends, within 5 % of the sizes
between; memory of 4.8 TB/s); NCCL's all-gather on two
GPUs takes 8.8 us and the bytes of a rank at 105 GB/s; a group's state is in the other GPU 10 us after its end, a group takes 3 us
and 8 % more than its share of a stream (fitted to wavefronts of 256 MB and 1 GB over two GPUs, within 4 %); a state of 4 KB in
peer memory arrives in 1.9 us, of 32 KB in 2.7"""
ASSUMED = """each further GPU adds one hop of 1.34 us (a flag in peer memory, measured) and the bytes of its rank to an
all-gather; hosts have 8 GPUs, and between them an all-gather has 50 GB/s and a hop or a state takes 10 us more; a kernel
that waits for states of other GPUs by itself streams as one that does not, in groups of at least 16 MB of all its arrays"""


@dataclass(frozen=True)
class Pass:
    """Arrays that the pass moves, those that a summary reads, and what a stream of as many costs."""

    name: str
    arrays: int
    summary: int
    fixed_us: float
    bytes_per_us: float
    reads_edges: bool  # the states before the steps of a GPU, which are gathered

    def stream_us(self, size):
        return self.fixed_us + size / self.bytes_per_us


PASSES = [Pass("forward", 3, 2, 3.8, 4.39e6, False), Pass("backward", 5, 2, 5.0, 4.12e6, True)]
GPUS = [2, 4, 8, 16, 32, 64]
HOST_GPUS = 8
BETWEEN_HOSTS_US = 10.0
LEAST_GROUP = 16 * MB
# Of the library, as src/core/rank_schedule.cpp has them.
LEAST_ROWS, MOST_GROUPS = 1024, 64
GROUP_US, ARRIVAL_US, GROUP_SHARE = 3.0, 10.0, 1.08


def hosts_of(gpus):
    return -(-gpus // HOST_GPUS)


def gather_us(gpus, size):
    """An all-gather of ``size`` bytes of each GPU."""
    hosts = hosts_of(gpus)
    bytes_per_us = 105e3 if hosts == 1 else 50e3
    return 8.8 + 1.34 * (gpus - 2) + BETWEEN_HOSTS_US * (hosts - 1) + (gpus - 1) * size / bytes_per_us


def state_us(size):
    """A state of ``size`` bytes on its way to the next GPU of the host."""
    return 1.78 + size / 35.8e3


def whole_us(work, gpus, array):
    """All of it on one GPU, were its memory large enough."""
    return work.stream_us(gpus * work.arrays * array)


def all_gather_us(work, gpus, array, rows):
    """``array``: bytes of one array on one GPU; two numbers of 4 bytes for each row are gathered."""
    summary = work.stream_us(work.summary * array)
    return summary + gather_us(gpus, 8 * rows) + work.stream_us(work.arrays * array)


def groups_of(work, array, rows):
    """Returns the largest number of groups that the rows and the least size of a group allow."""
    return max(1, min(rows, int(work.arrays * array // LEAST_GROUP)))


def wavefront_groups_us(work, gpus, array, rows, groups):
    own = work.arrays * array / work.bytes_per_us * (GROUP_SHARE if groups > 1 else 1)
    states = (gpus - 1) * ARRIVAL_US + (hosts_of(gpus) - 1) * BETWEEN_HOSTS_US
    edges = gather_us(gpus, 4 * rows) if work.reads_edges else 0
    return work.fixed_us + own * (groups + gpus - 1) / groups + GROUP_US * groups + states + edges


def wavefront_us(work, gpus, array, rows):
    most = min(max(rows // LEAST_ROWS, 1), MOST_GROUPS)
    return min(wavefront_groups_us(work, gpus, array, rows, groups) for groups in range(1, most + 1))


def one_kernel_us(work, gpus, array, rows):
    groups = groups_of(work, array, rows)
    own = work.arrays * array / work.bytes_per_us
    states = (gpus - 1) * state_us(4 * rows / groups) + (hosts_of(gpus) - 1) * BETWEEN_HOSTS_US
    return work.fixed_us + own + (gpus - 1) * own / groups + states


def rows_of_table(work, array, rows):
    for gpus in GPUS:
        whole = whole_us(work, gpus, array)
        cells = [work.name, gpus, us_text(whole)]
        for cost in (all_gather_us, wavefront_us, one_kernel_us):
            us = cost(work, gpus, array, rows)
            cells += [us_text(us), f"{us / whole:.3f}", f"{100 * whole / (gpus * us):.0f}"]
        yield cells


def write(array, rows):
    """The assumptions and the table, as Markdown."""
    header = ["pass", "GPUs", "one GPU, us"]
    for way in ("all-gather", "wavefront", "one kernel"):
        header += [f"{way}, us", "of one GPU", "efficiency, %"]
    lines = [cells for work in PASSES for cells in rows_of_table(work, array, rows)]
    text = " ".join(f"Measured: {MEASURED}. Assumed: {ASSUMED}.".split())
    groups = " and ".join(f"{groups_of(work, array, rows)} ({work.name})" for work in PASSES)
    return (f"Simulated, not run: arrays of {array / MB:g} MB on each GPU, {rows} rows of f32, groups of one kernel: "
            f"{groups}. {text}\n\n" + table(header, lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--array-mb", type=float, default=256, help="of each array, on each GPU")
    parser.add_argument("--rows", type=int, default=8192, help="batch times channels")
    options = parser.parse_args()
    if options.array_mb <= 0 or options.rows < 1:
        parser.error(f"--array-mb is {options.array_mb}, --rows is {options.rows}; accepted are more than 0")
    print(write(int(options.array_mb * MB), options.rows), end="")


if __name__ == "__main__":
    main()
