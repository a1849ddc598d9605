# SPDX-License-Identifier: Apache-2.0
"""The tests of many processes share these functions."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from flashscan import _library as lib  # noqa: E402
import flashscan.torch as ft  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as multiprocessing  # noqa: E402
from torch_support import Numbers, close  # noqa: E402

needs_gloo = pytest.mark.skipif(
    not (dist.is_available() and getattr(dist, "is_gloo_available", lambda: True)()), reason="PyTorch has no gloo"
)
needs_two_gpus = pytest.mark.skipif(
    torch.cuda.device_count() < 2 or lib.device_count(lib.CUDA) < 2, reason="no two GPUs, or a library without CUDA"
)

# Options of linear_scan, for matches_whole.
LINEAR_CASES = [
    dict(),
    dict(reverse=True),
    dict(gate_form="logit"),
    dict(layout="bct", gate_form="log"),
    dict(dtype=torch.bfloat16),
    dict(dtype=torch.complex128, reverse=True),
    dict(resets=True, reverse=True, layout="bct"),
    dict(gate_time=1),
]


def run(worker, ranks, tmp_path, *arguments, backend="gloo"):
    """``worker(rank, ranks, *arguments)`` in processes of a group; any of them that raises fails the test."""
    multiprocessing.spawn(_in_group, (worker, ranks, f"file://{tmp_path / 'store'}", backend, arguments), nprocs=ranks)


def _in_group(rank, worker, ranks, store, backend, arguments):
    torch.set_num_threads(1)
    if backend != "gloo":
        torch.cuda.set_device(rank)
    dist.init_process_group(backend, init_method=store, rank=rank, world_size=ranks)
    try:
        worker(rank, ranks, *arguments)
        dist.barrier()
    finally:
        dist.destroy_process_group()


class Case:
    """A whole problem: arrays that are cut in time, parameters that every rank has, and the first rank's state."""

    def __init__(
        self, function="linear_scan", dtype=torch.float32, gate_time=41, resets=False, state=True, device="cpu", **options
    ):
        numbers, wide = Numbers("cpu", seed=7), torch.float32 if dtype == torch.bfloat16 else dtype
        numbers.device = device  # which any GPU may be
        draw = lambda *shape, dtype=dtype: numbers.uniform(*shape, low=0.1, high=0.9, dtype=dtype)
        self.function, self.options, self.parameters, self.reset = function, options, {}, None
        self.axis, self.initial, final, shape = 1, "initial_state", "return_final_state", (2, 5)
        if function == "prefix_scan":
            self.axis, self.initial, final = options.setdefault("axis", 1), "initial", "return_final"
            self.cut = {"x": draw(*((41, 2, 5) if self.axis == 0 else (2, 41, 5)))}
        elif function == "selective_scan":
            self.cut = {"u": draw(2, 41, 5), "delta": draw(2, 41, 5), "B": draw(2, 41, 3), "z": draw(2, 41, 5)}
            self.parameters = {"A": -draw(5, 3, dtype=wide), "C": draw(5, 3, dtype=wide), "D": draw(5, dtype=wide)}
            shape = (2, 5, 3)
        else:
            self.cut = {"input": draw(2, 41, 5)}
            gate = draw(2, gate_time, 5)
            (self.cut if gate_time == 41 else self.parameters)["gate"] = gate
        if function == "gated_scan":
            layer, epilogue = options.get("layer"), options.get("epilogue", "none")
            more = {"second_gate": layer == "minlstm", "input_gate": layer == "rglru"}
            more["output_gate"] = layer == "qrnn" or epilogue != "none"
            self.cut.update({name: draw(2, 41, 5) for name, there in more.items() if there})
            self.parameters["bias"] = draw(5)
            if layer in ("hgrn", "rglru"):
                self.parameters["param"] = draw(5)
        if options.get("layout") == "bct":
            self.cut = {name: each.transpose(1, 2).contiguous() for name, each in self.cut.items()}
            self.axis = 2
        self.state = draw(*shape, dtype=wide) if state else None
        if resets:
            self.reset = torch.arange(82, device=device).reshape(2, 41) % 11 == 3
        self.weight = draw(*next(iter(self.cut.values())).shape)
        self.state_weight = draw(*shape, dtype=wide)
        self.options[final] = True

    def run(self, package, arrays, parameters, state, reset, weight, **group):
        """Results, and gradients by name."""
        leaf = lambda each: each.clone().requires_grad_()
        given = {name: leaf(each) for name, each in {**arrays, **parameters}.items()}
        if state is not None:
            given[self.initial] = leaf(state)
        more = {} if reset is None else {"reset": reset}
        results = getattr(package, self.function)(**given, **more, **self.options, **group)
        loss = (results[0] * weight.conj()).sum()
        if results[1] is not None:
            loss = loss + (results[1] * self.state_weight.conj()).sum()
        gradients = torch.autograd.grad(loss.real if loss.is_complex() else loss, list(given.values()))
        return results, dict(zip(given, gradients))


def matches_whole(rank, ranks, lengths, case, device="cpu", **options):
    from flashscan import distributed

    """Fails where a rank's results or gradients are not its part of the whole's."""
    case = Case(**case, device=device)
    want, want_gradients = case.run(ft, case.cut, case.parameters, case.state, case.reset, case.weight)
    begin = sum(lengths[:rank])
    part = lambda each, axis=case.axis: each.narrow(axis, begin, lengths[rank]).contiguous()
    first, last = (ranks - 1, 0) if case.options.get("reverse") else (0, ranks - 1)
    arrays = {name: part(each) for name, each in case.cut.items()}
    reset = None if case.reset is None else part(case.reset, 1)
    state = case.state if rank == first else None
    for _ in range(2):  # on GPUs plans are kept
        got, gradients = case.run(distributed, arrays, case.parameters, state, reset, part(case.weight), **options)
    close(got[0], part(want[0]))
    assert (got[1] is None) == (rank != last)
    if rank == last:
        close(got[1], want[1])
    for name in case.parameters:
        total = gradients[name].double()  # not every gloo adds 16-bit numbers
        dist.all_reduce(total)
        gradients[name] = total.to(gradients[name].dtype)
    for name, gradient in gradients.items():
        close(gradient, part(want_gradients[name]) if name in arrays else want_gradients[name])
