# SPDX-License-Identifier: Apache-2.0
"""The tests of many processes share these functions."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402

needs_gloo = pytest.mark.skipif(
    not (dist.is_available() and getattr(dist, "is_gloo_available", lambda: True)()), reason="PyTorch has no gloo"
)


def run(worker, ranks, tmp_path, *arguments):
    """``worker(rank, ranks, *arguments)`` in processes of a group; any of them that raises fails the test."""
    multiprocessing.spawn(_in_group, (worker, ranks, f"file://{tmp_path / 'store'}", arguments), nprocs=ranks)


def _in_group(rank, worker, ranks, store, arguments):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    try:
        worker(rank, ranks, *arguments)
        dist.barrier()
    finally:
        dist.destroy_process_group()
