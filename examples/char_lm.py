#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a language model on bytes, with recurrences by flashscan: RG-LRU, minGRU, sLSTM or GRU layers, or Mamba's block.

    python char_lm.py                        this repository's documents, on the CPU
    python char_lm.py --layer slstm --device cuda --bf16 --width 512 --text book.txt
    python char_lm.py --check                the losses beside those of the same model in plain PyTorch
    torchrun --nproc-per-node=2 char_lm.py --context-parallel --layer mingru
                                             windows are cut in time over two processes; --check here too

A model is embedding, blocks of a recurrent layer and a gated MLP, each behind a norm and beside a skip connection, and
logits of the next byte. Prints bits per byte, draws the loss curve, and ends with text of its own.
"""

from __future__ import annotations

import argparse
import copy
import math
import os
import sys
import time
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from flashscan.torch import GRU, RGLRU, SLSTM, Mamba, MinGRU


def plain_rglru(layer, x):
    """What RGLRU computes (arXiv 2402.19427, section 2.4; the first step as in RecurrentGemma), step by step."""
    heads = x.unflatten(-1, (layer.num_heads, -1))
    gates = torch.sigmoid(torch.einsum("bthd,ghed->gbthe", heads, layer.gate_weight) + layer.gate_bias[:, None, None])
    recurrence, entry = gates.flatten(-2)
    a = torch.sigmoid(layer.Lambda) ** (layer.c * recurrence)
    x = entry * x
    h, output = x[:, 0], [x[:, 0]]
    for t in range(1, x.shape[1]):
        h = a[:, t] * h + torch.sqrt(1 - a[:, t] ** 2) * x[:, t]
        output.append(h)
    return torch.stack(output, 1)


def plain_slstm(layer, x):
    """What SLSTM computes (arXiv 2405.04517, section 2.2), step by step."""
    R = layer.weight_hh_l0
    Wx = functional.linear(x, layer.weight_ih_l0).unflatten(-1, R.shape[:3])  # [B, T, G, H, D]
    h = c = n = m = torch.zeros_like(Wx[:, 0, 0])
    output = []
    for t in range(x.shape[1]):
        i, f, z, o = (Wx[:, t] + torch.einsum("ghde,bhe->bghd", R, h) + layer.bias_l0).unbind(1)
        log_f = functional.logsigmoid(f) + m
        m = i if t == 0 else torch.maximum(i, log_f)
        c = torch.exp(log_f - m) * c + torch.exp(i - m) * torch.tanh(z)
        n = torch.exp(log_f - m) * n + torch.exp(i - m)
        h = torch.sigmoid(o) * c / n
        output.append(h)
    return torch.stack(output, 1).flatten(-2)


def plain_gru(layer, x):
    """What GRU computes, as torch.nn.GRU does, step by step."""
    R, bias = layer.weight_hh_l0, layer.bias_l0
    Wx = functional.linear(x, layer.weight_ih_l0).unflatten(-1, R.shape[:3])  # [B, T, G, H, D]
    h, output = torch.zeros_like(Wx[:, 0, 0]), []
    for t in range(x.shape[1]):
        recurrent = torch.einsum("ghde,bhe->bghd", R, h)
        r, z = torch.sigmoid(Wx[:, t, :2] + recurrent[:, :2] + bias[:2]).unbind(1)
        n = torch.tanh(Wx[:, t, 2] + bias[2] + r * (recurrent[:, 2] + bias[3]))
        h = (1 - z) * n + z * h
        output.append(h)
    return torch.stack(output, 1).flatten(-2)


def plain_mingru(layer, x):
    """What MinGRU computes (arXiv 2410.01201, section 3.1), step by step."""
    gate, candidate = layer.projection(x).chunk(2, -1)
    z = torch.sigmoid(gate)
    candidate = torch.where(candidate >= 0, candidate + 0.5, torch.sigmoid(candidate))
    h, output = torch.zeros_like(z[:, 0]), []
    for t in range(x.shape[1]):
        h = (1 - z[:, t]) * h + z[:, t] * candidate[:, t]
        output.append(h)
    return torch.stack(output, 1)


def plain_mamba(block, x):
    """What Mamba computes (arXiv 2312.00752, section 3.4), step by step behind the convolution."""
    x, z = block.in_proj(x).chunk(2, -1)
    padded = functional.pad(x.transpose(1, 2), (block.d_conv - 1, 0))
    u = functional.silu(block.conv1d(padded)).transpose(1, 2)
    rank, B, C = block.x_proj(u).split((block.dt_rank, block.d_state, block.d_state), -1)
    delta, A = functional.softplus(block.dt_proj(rank)), -torch.exp(block.A_log)
    h, output = torch.zeros_like(u[:, 0, :, None]), []
    for t in range(x.shape[1]):
        h = torch.exp(delta[:, t, :, None] * A) * h + (delta * u)[:, t, :, None] * B[:, t, None]
        output.append((h * C[:, t, None]).sum(-1))
    return block.out_proj((torch.stack(output, 1) + block.D * u) * functional.silu(z))


def mingru_over_ranks(layer, x):
    """Computes MinGRU for a window whose steps go on in the next process."""
    from flashscan.distributed import gated_scan

    return gated_scan(*layer.projection(x).chunk(2, -1), layer="mingru")


# How a layer is made, and how its output is computed in other ways than its own.
LAYERS = {
    "rglru": (lambda width, heads: RGLRU(width, heads), {"plain": plain_rglru}),
    "mingru": (lambda width, heads: MinGRU(width, width), {"plain": plain_mingru, "ranks": mingru_over_ranks}),
    "mamba": (lambda width, heads: Mamba(width), {"plain": plain_mamba}),
    "slstm": (lambda width, heads: SLSTM(width, width, num_heads=heads, batch_first=True), {"plain": plain_slstm}),
    # Heads of one unit: long windows of few rows run parallel in time on a GPU.
    "gru": (lambda width, heads: GRU(width, width, num_heads=width, batch_first=True), {"plain": plain_gru}),
}


class Block(nn.Module):
    def __init__(self, layer, width, heads):
        super().__init__()
        make, self.other_ways = LAYERS[layer]
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.recurrent = make(width, heads)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)

    def forward(self, x, state, way):
        y = self.norm1(x)
        y, state = (self.other_ways[way](self.recurrent, y), None) if way else self.recurrent(y, state)
        x = x + y
        gate, value = self.inner(self.norm2(x)).chunk(2, -1)
        return x + self.outer(functional.gelu(gate) * value), state


class Model(nn.Module):
    def __init__(self, layer, width, heads, blocks):
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.blocks = nn.ModuleList(Block(layer, width, heads) for _ in range(blocks))
        self.norm, self.logits = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, text, states=None, way=None):
        """Bytes [B, T] and the blocks' states to logits of the next bytes [B, T, 256] and states. ``way``: None for that
        of flashscan's layers, or "plain" or "ranks"."""
        x, after = self.embedding(text), []
        for block, state in zip(self.blocks, states or [None] * len(self.blocks)):
            x, state = block(x, state, way)
            after.append(state)
        return self.logits(self.norm(x)), after


def show_progress(done, steps, bits, start):
    bar = "#" * (24 * done // steps)
    text = f"[{bar:24}] {done}/{steps}  {bits:.3f} bits/byte  {time.monotonic() - start:.0f} s"
    if sys.stdout and sys.stdout.isatty():
        print(f"\r{text}", end="" if done < steps else "\n", flush=True)
    elif done == steps or done % max(1, steps // 10) == 0:
        print(text, flush=True)


def add_over_ranks(loss, parameters):
    """Each process has the part of the loss, and of gradients, that its own steps add."""
    loss = loss.detach()
    for tensor in (loss, *(parameter.grad for parameter in parameters)):
        dist.all_reduce(tensor)
    return loss


def train(model, text, args, way=None):
    """The loss of every step, in bits per byte. Windows are drawn by ``args.seed`` alone. The way "ranks" gives each
    process some of a window's steps."""
    rank, ranks = (dist.get_rank(), dist.get_world_size()) if way == "ranks" else (0, 1)
    mine = slice(args.length * rank // ranks, args.length * (rank + 1) // ranks)
    generator = torch.Generator().manual_seed(args.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    narrow = torch.autocast(args.device, torch.bfloat16) if args.bf16 else nullcontext()
    losses, start = [], time.monotonic()
    for step in range(args.steps):
        for group in optimizer.param_groups:
            group["lr"] = args.lr * min(1, (step + 1) / 20)
        places = torch.randint(len(text) - args.length, (args.batch,), generator=generator)
        window = torch.stack([text[p : p + args.length + 1] for p in places.tolist()]).long().to(args.device)
        given, wanted = window[:, :-1][:, mine], window[:, 1:][:, mine]
        with narrow:
            logits, _ = model(given, way=way)
        logits = logits.flatten(0, 1).to(model.norm.weight.dtype)
        loss = functional.cross_entropy(logits, wanted.flatten(), reduction="sum") / (args.batch * args.length)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if way == "ranks":
            loss = add_over_ranks(loss, model.parameters())
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item() / math.log(2))
        show_progress(step + 1, args.steps, losses[-1], start)
    return losses


@torch.no_grad()
def write_text(model, prompt, count, args):
    """Continues a prompt byte by byte, with the states carried on."""
    generator = torch.Generator().manual_seed(args.seed)
    written, states = list(prompt), None
    window = torch.tensor([written], device=args.device)
    for _ in range(count):
        logits, states = model(window, states)
        probabilities = torch.softmax(logits[0, -1].double().cpu() / 0.8, -1)
        written.append(torch.multinomial(probabilities, 1, generator=generator).item())
        window = torch.tensor([written[-1:]], device=args.device)
    return bytes(written).decode(errors="replace")


def plot(losses, path, title):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.figure(figsize=(6, 4))
    pyplot.plot(range(1, len(losses) + 1), losses)
    pyplot.xlabel("step")
    pyplot.ylabel("bits per byte")
    pyplot.title(title)
    pyplot.grid(alpha=0.3)
    pyplot.savefig(path, dpi=120, bbox_inches="tight")
    print(f"loss curve: {path}")


def documents():
    """The repository's own documents, one after the other."""
    root = Path(__file__).resolve().parents[1]
    files = sorted(root.glob("**/*.md"))
    return b"\n".join(file.read_bytes() for file in files if "build" not in file.relative_to(root).parts)


def check(model, text, args):
    """The losses of the model beside those of its copy in plain PyTorch, or on many processes, on the same windows.
    Returns whether they agree."""
    way, name = "plain", "plain PyTorch"
    if args.context_parallel:
        way, name = "ranks", f"windows cut over {dist.get_world_size()} processes"
    other = copy.deepcopy(model)
    ours, theirs = train(model, text, args), train(other, text, args, way)
    difference = max(abs(one - two) for one, two in zip(ours, theirs))
    limit = 1e-8 if args.double else 1e-4
    print(f"losses: {', '.join(f'{loss:.9f}' for loss in ours[-3:])}\n{name}: {', '.join(f'{loss:.9f}' for loss in theirs[-3:])}")
    print(f"greatest difference from {name} in {args.steps} steps: {difference:.2e} bits/byte, of {limit:g}")
    return difference <= limit


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layer", choices=LAYERS, default="rglru")
    parser.add_argument("--text", type=Path, help="a file; default: the documents of this repository")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=256, help="bytes of a window")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4, help="of rglru and slstm")
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    precision = parser.add_mutually_exclusive_group()
    precision.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    precision.add_argument("--double", action="store_true", help="float64")
    parser.add_argument("--plot", type=Path, default=Path("char_lm.png"), help="where the loss curve goes")
    parser.add_argument("--sample", type=int, default=300, help="bytes to write in the end")
    parser.add_argument("--check", action="store_true", help="compare losses with those of plain PyTorch, or of one "
                        "process, instead; 1 if they differ")
    parser.add_argument("--context-parallel", action="store_true", help="cut windows in time over torchrun's processes")
    args = parser.parse_args(arguments)
    if args.context_parallel and "ranks" not in LAYERS[args.layer][1]:
        parser.error(f"--layer is {args.layer}; accepted with --context-parallel is mingru")
    if args.context_parallel and "RANK" not in os.environ:
        parser.error("--context-parallel is for the processes of torchrun: torchrun --nproc-per-node=2 char_lm.py ...")
    return args


def run(args):
    data = args.text.read_bytes() if args.text else documents()
    if len(data) <= args.length:
        raise SystemExit(f"the text has {len(data)} bytes; accepted are more than --length, {args.length}")
    text = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    torch.manual_seed(args.seed)
    model = Model(args.layer, args.width, args.heads, args.blocks).to(args.device)
    if args.double:
        model.double()
    print(f"{len(data)} bytes of text, {sum(p.numel() for p in model.parameters())} parameters, on {args.device}")
    if args.check:
        return 0 if check(model, text, args) else 1
    losses = train(model, text, args, "ranks" if args.context_parallel else None)
    if not args.context_parallel or dist.get_rank() == 0:
        plot(losses, args.plot, f"{args.layer}, {args.blocks} blocks of width {args.width}")
        print(write_text(model, b"The ", args.sample, args))
    return 0


def main(arguments=None):
    args = parse(arguments)
    if not args.context_parallel:
        return run(args)
    if args.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo")
    try:
        with nullcontext() if dist.get_rank() == 0 else redirect_stdout(None):
            return run(args)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
