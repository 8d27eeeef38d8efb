"""Private inference with the papers' networks beside SecretFlow SPU's, taking turns in one run.

Three parties in this process, trio, 64 bits, 16 fraction bits, exact truncation; unmodified torch
modules with random weights, batch normalisation folded. Every output is compared with the plain
network's. SPU: see benchmarks/peer.py. Seconds are of the slowest party.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import torch
from benchmarks.measure import Row
from benchmarks.peer import Match, Peer, Turns
from torch import Tensor, nn

import tacit
from tacit import zoo
from tacit.nn import fold_batch_norm

REPETITIONS = 3


@dataclass(frozen=True)
class Case:
    name: str
    peer: str
    target: float
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]


CIFAR = (1, 3, 32, 32)


def max_alexnet() -> nn.Module:
    """SPU's, and ours, with max-pooling before the ReLU or after: the same numbers."""
    return zoo.small_alexnet(pool="max")


CASES = [
    Case("LeNet, batch 1", "lenet1", 10, zoo.lenet, (1, 1, 28, 28)),
    Case("LeNet, batch 64", "lenet64", 10, zoo.lenet, (64, 1, 28, 28)),
    Case(
        "AlexNet, CIFAR-10", "alexnet", 2.5, lambda: zoo.small_alexnet(pool="max"), (1, 3, 32, 32)
    ),
    Case("VGG-16, CIFAR-10", "vgg16", 12, zoo.small_vgg, (1, 3, 32, 32)),
    Case("ResNet-18, 64 x 64", "resnet18", 12, zoo.resnet18, (1, 3, 64, 64)),
]


def party(
    session: tacit.Session, case: Case, models: list[nn.Module], picture: Tensor, match: Match
) -> tuple[Turns, float]:
    """What was measured, and the largest error of an output, in parts of the largest output."""
    plain = models[-1](picture).detach()
    model = session.share(models[session.rank], owner=0)
    x = session.share(picture, owner=1)
    outs: list[Tensor] = []

    def run() -> None:
        with torch.no_grad():
            outs[:] = [model(x)]
            session.numbers.settled(outs[0].value)  # type: ignore[attr-defined]

    turns = match.play(session, run)
    error = (session.reveal(outs[0]) - plain).abs().max() / plain.abs().max()
    return turns, float(error)


def copies(case: Case) -> list[nn.Module]:
    """The network for each party, and one to compare with."""
    torch.manual_seed(3)
    model = fold_batch_norm(case.make().eval()).eval()
    made = [model]
    for _ in range(3):
        other = fold_batch_norm(case.make().eval()).eval()
        other.load_state_dict(model.state_dict())
        made.append(other)
    return made


def row(case: Case, peer: Peer) -> Row:
    match = Match(case.name, case.peer, case.target, REPETITIONS, threading.Barrier(3), peer)
    picture = torch.rand(case.shape) * 2 - 1
    measured, errors = zip(*tacit.run(party, case, copies(case), picture, match), strict=True)
    if max(errors) > 1e-2:
        raise SystemExit(f"{case.name}: an output is off by {max(errors):.3f} of the largest")
    return match.row(measured, f"largest error {max(errors):.1e} of the largest output")


def rows() -> list[Row]:
    peer = Peer()
    try:
        return [row(case, peer) for case in CASES]
    finally:
        peer.close()
