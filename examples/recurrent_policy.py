#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a policy with memory by policy gradients: episodes end in the middle of sequences, and resets keep them apart.

    python recurrent_policy.py                       until the cue is remembered, on the CPU
    python recurrent_policy.py --layer rglru --device cuda --environments 1024 --steps 256
    python recurrent_policy.py --check               losses and gradients beside those of the same network in a loop

An episode shows a cue, +1 or -1, at its first step, then noise, and at its last step asks for the action that the cue
names; the return is +1 for that action, else -1. Environments run side by side, episodes have random lengths, and an
update takes the same number of steps of each. Acting calls the layer's ``step``; learning runs it over all steps at
once, with ``reset`` where episodes start, from the state that the last update left. Prints the mean return, and draws it.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from flashscan.torch import HGRN, RGLRU, Mamba, MinGRU, linear_scan

LAYERS = {
    "mingru": lambda width: MinGRU(width, width),
    "hgrn": lambda width: HGRN(width, width),
    "rglru": lambda width: RGLRU(width),
    "mamba": lambda width: Mamba(width, d_state=8),
}
OBSERVED, ACTIONS = 3, 2  # the cue, whether an action is asked for, noise


class Recall:
    """Environments that each show a cue and ask for it ``shortest`` to ``longest`` steps later, over and over."""

    def __init__(self, count, shortest, longest, args):
        self.generator = torch.Generator().manual_seed(args.seed)
        self.shortest, self.longest, self.args = shortest, longest, args
        self.at = torch.zeros(count, dtype=torch.long)
        self.length, self.cue = torch.ones_like(self.at), torch.ones_like(self.at)
        self._start(torch.ones(count, dtype=torch.bool))

    def _draw(self, low, high):
        return torch.randint(low, high, self.at.shape, generator=self.generator)

    def _start(self, which):
        self.at[which] = 0
        self.length = torch.where(which, self._draw(self.shortest, self.longest + 1), self.length)
        self.cue = torch.where(which, self._draw(0, 2), self.cue)

    def observe(self):
        """What is seen [environments, OBSERVED], and where an episode starts."""
        starts = self.at == 0
        noise = torch.randn(self.at.shape, generator=self.generator)
        seen = torch.stack([torch.where(starts, 2.0 * self.cue - 1, 0.0), (self.at == self.length - 1).float(), noise], 1)
        return seen.to(self.args.device, self.args.dtype), starts.to(self.args.device)

    def act(self, actions):
        """The rewards, and where an episode ends."""
        ends = self.at == self.length - 1
        rewards = torch.where(ends, torch.where(actions.cpu() == self.cue, 1.0, -1.0), 0.0)
        self.at += 1
        self._start(ends)
        return rewards.to(self.args.device, self.args.dtype), ends.to(self.args.device)


class Policy(nn.Module):
    """Logits of actions and an estimate of the return, of all that the episode has shown."""

    def __init__(self, layer, width):
        super().__init__()
        self.encoder = nn.Linear(OBSERVED, width)
        self.layer = LAYERS[layer](width)
        self.heads = nn.Linear(width, ACTIONS + 1)

    def _heads(self, y):
        heads = self.heads(y)
        return heads[..., :ACTIONS], heads[..., ACTIONS]

    def step(self, seen, state, starts):
        y, state = self.layer.step(torch.tanh(self.encoder(seen)), state, reset=starts)
        return *self._heads(y), state

    def forward(self, seen, state, starts):
        """All steps at once: [environments, steps, ...]."""
        y, state = self.layer(torch.tanh(self.encoder(seen)), state, reset=starts)
        return *self._heads(y), state

    def in_a_loop(self, seen, state, starts):
        """What ``forward`` computes, step by step."""
        logits, values = [], []
        for t in range(seen.shape[1]):
            one, value, state = self.step(seen[:, t], state, starts[:, t])
            logits.append(one), values.append(value)
        return torch.stack(logits, 1), torch.stack(values, 1), state


@torch.no_grad()
def play(policy, environments, state, args):
    """``args.steps`` steps of every environment by name, [environments, steps, ...], and the state after them."""
    columns = {name: [] for name in ("seen", "starts", "actions", "rewards", "ends")}
    for _ in range(args.steps):
        seen, starts = environments.observe()
        logits, _, state = policy.step(seen, state, starts)
        chances = torch.softmax(logits.double(), -1).cpu()
        actions = torch.multinomial(chances, 1, generator=environments.generator)[:, 0].to(args.device)
        rewards, ends = environments.act(actions)
        for name, value in zip(columns, (seen, starts, actions, rewards, ends)):
            columns[name].append(value)
    return {name: torch.stack(values, 1) for name, values in columns.items()}, state


def loss_of(run, played, state, args):
    """The loss of a policy gradient with a learned baseline. ``run`` is the policy's ``forward`` or its ``in_a_loop``."""
    logits, values, _ = run(played["seen"], state, played["starts"])
    # The return from each step on is a scan from the last step to the first, cut where episodes end.
    going_on = args.discount * (~played["ends"]).to(values.dtype)
    first_unseen = values.detach()[:, -1:]  # stands for the rest of episodes that the last step does not end
    returns = linear_scan(going_on[..., None], played["rewards"][..., None], first_unseen, reverse=True)[..., 0]
    chances = torch.log_softmax(logits, -1).gather(-1, played["actions"][..., None])[..., 0]
    entropy = -(torch.softmax(logits, -1) * torch.log_softmax(logits, -1)).sum(-1).mean()
    gain = (chances * (returns - values.detach())).mean()
    return functional.mse_loss(values, returns) / 2 - gain - 0.01 * entropy


def show_progress(done, updates, mean, start):
    if done == updates or done % max(1, updates // 10) == 0:
        bar = "#" * (24 * done // updates)
        print(f"[{bar:24}] {done}/{updates}  mean return {mean:+.3f}  {time.monotonic() - start:.0f} s", flush=True)


def gradients(policy, run, played, state, args):
    """The loss, its gradients, and the seconds that they took."""
    start = time.monotonic()
    loss = loss_of(run, played, state, args)
    grads = torch.autograd.grad(loss, list(policy.parameters()))
    values = [value.item() for value in (loss, *(grad.abs().max() for grad in grads))]  # waits for a GPU
    return values[0], grads, max(values[1:]), time.monotonic() - start


def check(policy, environments, args):
    """Whether losses and gradients are those of the network in a loop, on every update of a training."""
    limit = 1e-9 if args.double else 1e-4
    optimizer = torch.optim.Adam(policy.parameters(), lr=args.lr)
    state, worst, seconds = None, 0.0, [0.0, 0.0]
    for _ in range(args.updates):
        played, after = play(policy, environments, state, args)
        loss, grads, scale, took = gradients(policy, policy.forward, played, state, args)
        other, others, _, took_in_loop = gradients(policy, policy.in_a_loop, played, state, args)
        differences = [abs(loss - other), *((a - b).abs().max().item() / max(1, scale) for a, b in zip(grads, others))]
        worst, seconds = max(worst, *differences), [seconds[0] + took, seconds[1] + took_in_loop]
        for parameter, grad in zip(policy.parameters(), grads):
            parameter.grad = grad
        optimizer.step()
        state = after
    print(f"greatest difference of losses and gradients from the loop in {args.updates} updates: {worst:.2e}, of {limit:g}")
    print(f"all steps at once: {seconds[0]:.2f} s; in a loop: {seconds[1]:.2f} s")
    return worst <= limit


def train(policy, environments, args):
    """The mean return of the episodes that ended in each update."""
    optimizer = torch.optim.Adam(policy.parameters(), lr=args.lr)
    state, means, start = None, [], time.monotonic()
    for update in range(args.updates):
        played, after = play(policy, environments, state, args)
        loss = loss_of(policy.forward, played, state, args)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        state = after
        means.append((played["rewards"].sum() / played["ends"].sum().clamp_min(1)).item())
        show_progress(update + 1, args.updates, means[-1], start)
    return means


def plot(means, path, title):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.figure(figsize=(6, 4))
    pyplot.plot(range(1, len(means) + 1), means)
    pyplot.xlabel("update")
    pyplot.ylabel("mean return")
    pyplot.title(title)
    pyplot.grid(alpha=0.3)
    pyplot.savefig(path, dpi=120, bbox_inches="tight")
    print(f"returns: {path}")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layer", choices=LAYERS, default="mingru")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--environments", type=int, default=64)
    parser.add_argument("--steps", type=int, default=48, help="of each environment in an update")
    parser.add_argument("--updates", type=int, default=150)
    parser.add_argument("--shortest", type=int, default=3, help="steps of an episode")
    parser.add_argument("--longest", type=int, default=12)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--discount", type=float, default=0.98)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--double", action="store_true", help="float64")
    parser.add_argument("--plot", type=Path, default=Path("recurrent_policy.png"), help="where the returns go")
    parser.add_argument("--check", action="store_true", help="compare with the network in a loop instead; 1 if they differ")
    args = parser.parse_args(arguments)
    if not 2 <= args.shortest <= args.longest:
        parser.error(f"episodes have {args.shortest} to {args.longest} steps; accepted are 2 and more, the shortest first")
    args.dtype = torch.float64 if args.double else torch.float32
    return args


def main(arguments=None):
    args = parse(arguments)
    torch.manual_seed(args.seed)
    policy = Policy(args.layer, args.width).to(args.device, args.dtype)
    environments = Recall(args.environments, args.shortest, args.longest, args)
    if args.check:
        return 0 if check(policy, environments, args) else 1
    means = train(policy, environments, args)
    plot(means, args.plot, f"{args.layer} of width {args.width}, episodes of {args.shortest} to {args.longest} steps")
    return 0


if __name__ == "__main__":
    sys.exit(main())
