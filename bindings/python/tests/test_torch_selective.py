# SPDX-License-Identifier: Apache-2.0
"""flashscan.torch.selective_scan, and mamba_ssm's signatures on it."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import flashscan  # noqa: E402
from flashscan.compat.mamba_ssm import selective_scan_fn, selective_scan_ref, selective_state_update  # noqa: E402
from flashscan.torch import selective_scan  # noqa: E402


def random(*shape, dtype=torch.float64, grad=False, seed=[0]):
    seed[0] += 1
    numbers = torch.tensor(np.random.default_rng(seed[0]).standard_normal(shape)).to(dtype)
    return numbers.requires_grad_(grad)


def arguments(groups=None, dtype=torch.float64, complex_=False, grad=False):
    """[B, T, C] = [2, 5, 4], N = 2."""
    steps = (2, 5, 2) if groups is None else (2, 5, groups, 2)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    A = -torch.exp(random(4, 2, dtype=wide))
    B, C = random(*steps, dtype=dtype), random(*steps, dtype=dtype)
    if complex_:
        A, B, C = (torch.complex(real, torch.randn_like(real)) for real in (A, B, C))
    given = {"u": random(2, 5, 4, dtype=dtype), "delta": random(2, 5, 4, dtype=dtype), "A": A, "B": B, "C": C}
    given.update(D=random(4, dtype=wide), z=random(2, 5, 4, dtype=dtype), delta_bias=random(4, dtype=wide))
    return {name: tensor.detach().requires_grad_(grad) for name, tensor in given.items()}


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("groups", [None, 2])
def test_gradients(groups, complex_):
    given = arguments(groups, complex_=complex_, grad=True)
    state = torch.randn(2, 4, 2, dtype=given["A"].dtype, requires_grad=True)

    def run(*tensors):
        return selective_scan(*tensors, delta_softplus=True, return_final_state=True)

    assert torch.autograd.gradcheck(run, (*given.values(), state))


def test_only_what_needs_a_gradient_has_one():
    given = arguments()
    given["u"].requires_grad_()
    del given["z"]
    selective_scan(**given).sum().backward()
    assert given["u"].grad is not None and given["A"].grad is None


def test_equals_numpy_and_keeps_dtypes():
    given = arguments(2, torch.bfloat16)
    y, last = selective_scan(**given, delta_softplus=True, return_final_state=True)
    assert y.dtype == torch.bfloat16 and last.dtype == torch.float32
    wide = flashscan.selective_scan(**{name: tensor.double().numpy() for name, tensor in given.items()}, delta_softplus=True)
    torch.testing.assert_close(y.double(), torch.tensor(wide), rtol=1e-2, atol=1e-2)


def test_packed_sequences_are_their_parts():
    given = {name: tensor[:1] if tensor.dim() == 3 else tensor for name, tensor in arguments().items()}
    y, last = selective_scan(**given, seq_offsets=[0, 2, 5], return_final_state=True)
    parts = [{name: t[:, cut] if t.dim() == 3 else t for name, t in given.items()} for cut in (slice(0, 2), slice(2, 5))]
    expected = [selective_scan(**part, return_final_state=True) for part in parts]
    torch.testing.assert_close(y, torch.cat([one for one, _ in expected], 1), rtol=0, atol=0)
    torch.testing.assert_close(last, torch.cat([state for _, state in expected]), rtol=0, atol=0)


def test_second_derivatives_are_refused():
    given = arguments(grad=True)
    (first,) = torch.autograd.grad(selective_scan(**given).sum(), given["delta"], create_graph=True)
    with pytest.raises(NotImplementedError, match="selective_scan"):
        first.sum().backward()


def test_what_is_no_tensor_is_named():
    given = arguments()
    with pytest.raises(TypeError, match="A is a list"):
        selective_scan(**{**given, "A": [[1.0, 2.0]]})
    with pytest.raises(ValueError, match="delta has shape"):
        selective_scan(**{**given, "delta": given["delta"][:, :4]})


def mamba(given):
    """Arguments of mamba_ssm, with time innermost."""
    return {name: tensor.movedim(1, -1) if tensor.dim() > 2 else tensor for name, tensor in given.items()}


def published(u, delta, A, B, C, D, z, delta_bias, delta_softplus):
    """The equations of the paper, step by step."""
    d = delta + delta_bias[:, None]
    d = torch.nn.functional.softplus(d) if delta_softplus else d
    if B.dim() == 4:
        B, C = (matrix.repeat_interleave(u.shape[1] // B.shape[1], 1) for matrix in (B, C))
    else:
        B, C = B[:, None], C[:, None]
    h, out = 0, []
    for t in range(u.shape[-1]):
        h = torch.exp(d[..., t, None] * A) * h + (d * u)[..., t, None] * B[..., t]
        y = (C[..., t] * h).sum(-1)
        out.append(2 * y.real if y.is_complex() else y)
    return (torch.stack(out, -1) + D[:, None] * u) * z * torch.sigmoid(z), h


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("groups", [None, 2])
@pytest.mark.parametrize("softplus", [False, True])
def test_mamba_scan(groups, complex_, softplus):
    given = mamba(arguments(groups, complex_=complex_))
    expected, state = published(**given, delta_softplus=softplus)
    out, last = selective_scan_fn(**given, delta_softplus=softplus, return_last_state=True)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(last, state)
    out = selective_scan_ref(**given, delta_softplus=softplus)
    torch.testing.assert_close(out, expected)
    if complex_:  # as mamba_ssm has them
        for name in ("B", "C"):
            given[name] = torch.view_as_real(given[name]).flatten(-2)
        torch.testing.assert_close(selective_scan_fn(**given, delta_softplus=softplus), expected)


@pytest.mark.parametrize("heads", [False, True])
def test_mamba_step(heads):
    given = mamba(arguments(2))
    out, last = selective_scan_fn(**given, delta_softplus=True, return_last_state=True)
    split = (lambda tensor, axis: tensor.unflatten(axis, (2, 2))) if heads else (lambda tensor, axis: tensor)
    state = split(torch.zeros(2, 4, 2, dtype=torch.float64), 1)
    channel = {name: split(given[name], 0) for name in ("A", "D")}
    for t in range(5):
        x, dt, z = (split(given[name][..., t], 1) for name in ("u", "delta", "z"))
        b, c = given["B"][..., t], given["C"][..., t]
        step = selective_state_update(
            state, x, dt, channel["A"], b, c, channel["D"], z, split(given["delta_bias"], 0), dt_softplus=True
        )
        torch.testing.assert_close(step.reshape(2, 4), out[..., t])
    torch.testing.assert_close(state.reshape(2, 4, 2), last)


@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16])
def test_mamba_step_of_mixed_dtypes_is_in_float32(narrow):
    given = mamba(arguments())
    x, dt, z, b, c = (given[name][..., 0].float() for name in ("u", "delta", "z", "B", "C"))
    x, A, D = x.to(narrow), given["A"].float(), given["D"].float()
    state, expected_state = torch.zeros(2, 4, 2), torch.zeros(2, 4, 2)
    out = selective_state_update(state, x, dt, A, b, c, D, z, dt_softplus=True)
    expected = selective_state_update(expected_state, x.float(), dt, A, b, c, D, z, dt_softplus=True)
    assert out.dtype == narrow
    assert torch.equal(out, expected.to(narrow))
    assert torch.equal(state, expected_state)


def test_mamba_step_on_a_pool():
    given = mamba(arguments())
    pool = random(6, 4, 2)
    before, rows = pool.clone(), torch.tensor([4, -1], dtype=torch.int32)
    x, dt, b, c = (given[name][..., 0] for name in ("u", "delta", "B", "C"))
    out = selective_state_update(pool, x, dt, given["A"], b, c, state_batch_indices=rows)
    alone = before[4:5].clone()
    expected = selective_state_update(alone, x[:1], dt[:1], given["A"], b[:1], c[:1])
    torch.testing.assert_close(out[:1], expected, rtol=0, atol=0)
    assert out[1].eq(0).all()
    torch.testing.assert_close(pool[4:5], alone, rtol=0, atol=0)
    assert pool[[0, 1, 2, 3, 5]].eq(before[[0, 1, 2, 3, 5]]).all()
    with pytest.raises(ValueError, match="state has shape"):
        selective_state_update(pool, x[:, :3], dt, given["A"], b, c)
    narrow = before.bfloat16()  # converted to and fro
    out = selective_state_update(narrow, x, dt, given["A"], b, c, state_batch_indices=rows)
    torch.testing.assert_close(out[:1], expected, rtol=2e-2, atol=2e-2)
    assert out[1].eq(0).all()
    torch.testing.assert_close(narrow[4:5].double(), alone, rtol=2e-2, atol=2e-2)
    assert narrow[[0, 1, 2, 3, 5]].eq(before.bfloat16()[[0, 1, 2, 3, 5]]).all()
