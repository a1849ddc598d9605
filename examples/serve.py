#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the answers to many prompts at once: sequences come and go, their states live in a pool.

    python serve.py                                      64 prompts, 16 at a time, on the CPU
    python serve.py --device cuda --batch 256 --rows 1024 --prompts 2000 --width 512
    python serve.py --check                              each answer beside the one that is written alone

The language model of char_lm.py, with minGRU layers, is trained for a moment first. Then every step of decoding is one
batch: each of its slots holds a sequence or is padding, and ``state_indices`` says in which row of the pool the state of
a slot is, -1 for padding. ``gated_step`` updates these rows where they are. A prompt is read in one scan, whose final
states go into a free row; a sequence that is done gives its row back. Rows outnumber slots: a sequence that has had its
share of steps waits with its state in the pool while others have theirs. Prints what is done, and draws the slots in use.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import char_lm
import torch
from torch.nn import functional

from flashscan.torch import gated_step


@dataclass
class Sequence:
    number: int
    prompt: list[int]
    wanted: int  # bytes to write
    written: list[int] = field(default_factory=list)
    row: int = -1  # of the pool

    @property
    def done(self):
        return len(self.written) == self.wanted


def decode(model, last, pool, rows):
    """Logits of the byte after each of ``last`` [slots]. Updates ``rows`` [slots] of the pool [blocks, rows, width]."""
    x = model.embedding(last)
    for block, states in zip(model.blocks, pool):
        gate, candidate = block.recurrent.projection(block.norm1(x)).chunk(2, -1)
        x = x + gated_step(gate, candidate, states, layer="mingru", state_indices=rows)
        gate, value = block.inner(block.norm2(x)).chunk(2, -1)
        x = x + block.outer(functional.gelu(gate) * value)
    return model.logits(model.norm(x))


class Server:
    """Sequences that wait, those that have a row of the pool, and the slots of the next step."""

    def __init__(self, model, sequences, args):
        self.model, self.args = model, args
        weight = model.logits.weight
        wide = torch.float64 if weight.dtype == torch.float64 else torch.float32
        self.pool = torch.zeros(args.blocks, args.rows, args.width, dtype=wide, device=args.device)
        self.free, self.waiting, self.ready = deque(range(args.rows)), deque(sequences), deque()
        self.busy = []  # slots in use, by steps

    def admit(self):
        """Reads prompts as long as there are rows for their states."""
        while self.free and self.waiting:
            sequence = self.waiting.popleft()
            sequence.row = self.free.popleft()
            logits, states = self.model(torch.tensor([sequence.prompt], device=self.args.device))
            self.pool[:, sequence.row] = torch.cat(states)
            sequence.written.append(logits[0, -1].argmax().item())
            self.retire_or_queue(sequence)

    def retire_or_queue(self, sequence):
        if sequence.done:
            self.free.append(sequence.row)
        else:
            self.ready.append(sequence)

    def turn(self):
        """``args.share`` steps of as many sequences as there are slots."""
        slots = [self.ready.popleft() for _ in range(min(self.args.batch, len(self.ready)))]
        for _ in range(self.args.share):
            alive = [sequence for sequence in slots if not sequence.done]
            if not alive:
                break
            padding = self.args.batch - len(alive)  # a step has one shape, as a CUDA graph of it would need
            rows = torch.tensor([one.row for one in alive] + [-1] * padding, dtype=torch.int32, device=self.args.device)
            last = torch.tensor([one.written[-1] for one in alive] + [0] * padding, device=self.args.device)
            logits = decode(self.model, last, self.pool, rows)
            for sequence, byte in zip(alive, logits.argmax(-1).tolist()):
                sequence.written.append(byte)
            self.busy.append(len(alive))
        for sequence in slots:
            self.retire_or_queue(sequence)

    @torch.no_grad()
    def run(self):
        total, start, shown = len(self.waiting), time.monotonic(), 0
        while self.waiting or self.ready:
            self.admit()
            self.turn()
            done = total - len(self.waiting) - len(self.ready)
            if done == total or done - shown >= total / 10:
                shown, seconds = done, time.monotonic() - start
                bar = "#" * (24 * done // total)
                rate = sum(self.busy) / seconds
                print(f"[{bar:24}] {done}/{total} answers  {rate:.0f} bytes/s  {seconds:.1f} s", flush=True)


@torch.no_grad()
def alone(model, sequence, args):
    """The answer that the model writes with nothing beside it."""
    window, states, written = torch.tensor([sequence.prompt], device=args.device), None, []
    while len(written) < sequence.wanted:
        logits, states = model(window, states)
        written.append(logits[0, -1].argmax().item())
        window = torch.tensor([written[-1:]], device=args.device)
    return written


def draw_sequences(text, args):
    generator = torch.Generator().manual_seed(args.seed)
    pick = lambda low, high: torch.randint(low, high + 1, (), generator=generator).item()
    sequences = []
    for number in range(args.prompts):
        length = pick(4, args.longest_prompt)
        place = pick(0, len(text) - length)
        sequences.append(Sequence(number, text[place : place + length].tolist(), pick(1, args.longest)))
    return sequences


def plot(busy, path, title):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.figure(figsize=(6, 4))
    pyplot.step(range(1, len(busy) + 1), busy)
    pyplot.xlabel("step")
    pyplot.ylabel("slots in use")
    pyplot.ylim(bottom=0)
    pyplot.title(title)
    pyplot.grid(alpha=0.3)
    pyplot.savefig(path, dpi=120, bbox_inches="tight")
    print(f"slots: {path}")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, help="a file; default: the documents of this repository")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--steps", type=int, default=100, help="of training")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--longest-prompt", type=int, default=40, help="bytes")
    parser.add_argument("--longest", type=int, default=120, help="bytes of an answer")
    parser.add_argument("--batch", type=int, default=16, help="slots: sequences of a step")
    parser.add_argument("--rows", type=int, default=24, help="of the pool: sequences that have begun")
    parser.add_argument("--share", type=int, default=32, help="steps that a sequence has before others have theirs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--double", action="store_true", help="float64")
    parser.add_argument("--plot", type=Path, default=Path("serve.png"), help="where the slots in use go")
    parser.add_argument("--check", action="store_true", help="compare with answers written alone; 1 if one differs")
    args = parser.parse_args(arguments)
    for name in ("prompts", "longest", "batch", "rows", "share"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} is {getattr(args, name)}; accepted are 1 and more")
    return args


def main(arguments=None):
    args = parse(arguments)
    data = args.text.read_bytes() if args.text else char_lm.documents()
    same = [f"--{name}={getattr(args, name)}" for name in ("device", "steps", "seed")]
    training = char_lm.parse(["--layer=mingru", "--batch=4", "--length=128", *same])
    least = max(training.length, args.longest_prompt)
    if len(data) <= least:
        raise SystemExit(f"the text has {len(data)} bytes; accepted are more than {least}")
    text = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    torch.manual_seed(args.seed)
    model = char_lm.Model("mingru", args.width, training.heads, args.blocks).to(args.device)
    if args.double:
        model.double()
    char_lm.train(model, text, training)
    sequences = draw_sequences(text, args)
    server = Server(model, sequences, args)
    server.run()
    if args.check:
        wrong = [one.number for one in sequences if one.written != alone(model, one, args)]
        print(f"{len(sequences) - len(wrong)} of {len(sequences)} answers are those of sequences written alone")
        return 1 if wrong else 0
    plot(server.busy, args.plot, f"{args.prompts} answers, {args.batch} slots, a pool of {args.rows} rows")
    for sequence in sequences[:3]:
        prompt, answer = (bytes(part).decode(errors="replace") for part in (sequence.prompt, sequence.written))
        print(f"{prompt!r} -> {answer!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
