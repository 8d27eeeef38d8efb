"""Private inference with the papers' networks beside SecretFlow SPU's, taking turns in one run.

Three parties in this process, trio, 64 bits, 16 fraction bits, exact truncation; unmodified torch
modules with random weights, batch normalisation folded. Every output is compared with the plain
network's. SPU: see benchmarks/peer.py. Seconds are of the slowest party.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch
from benchmarks.measure import Row
from benchmarks.peer import Peer
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


@dataclass
class Measured:
    seconds: float
    megabytes: float
    rounds: int
    error: float


def party(
    session: tacit.Session,
    case: Case,
    models: list[nn.Module],
    picture: Tensor,
    turn: threading.Barrier,
    peer: Peer,
) -> Measured:
    """Runs a network and lets SPU run between the repetitions. The first one is left out."""
    plain = models[-1](picture).detach()
    model = session.share(models[session.rank], owner=0)
    x = session.share(picture, owner=1)
    seconds = []
    with torch.no_grad(), session.stats.scope(case.name) as cost:
        for _ in range(REPETITIONS + 1):
            turn.wait()
            begin = time.perf_counter()
            out = model(x)
            session.numbers.settled(out.value)
            turn.wait()
            seconds.append(time.perf_counter() - begin)
            if session.rank == 0:
                peer.run(case.peer)
    times = REPETITIONS + 1
    error = float((session.reveal(out) - plain).abs().max() / plain.abs().max())
    megabytes = cost.bytes_sent / times / 1e6
    return Measured(median(seconds[1:]), megabytes, cost.rounds // times, error)


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
    picture = torch.rand(case.shape) * 2 - 1
    with torch.no_grad():
        measured = tacit.run(party, case, copies(case), picture, threading.Barrier(3), peer)
    source, answer = peer.result(case.peer)
    ours, error = max(m.seconds for m in measured), max(m.error for m in measured)
    if error > 1e-2:
        raise SystemExit(f"{case.name}: an output is off by {error:.3f} of the largest")
    sent = ", ".join(f"{m.megabytes:.1f}" for m in measured)
    return Row(
        name=case.name,
        value=1 / ours,
        unit="runs/s",
        baseline=source,
        baseline_value=1 / answer["seconds"],
        target=case.target,
        note=f"{ours:.3f} s to {answer['seconds']:.3f}; {sent} MB sent by the dealer and the "
        f"evaluators to {answer['megabytes']:.1f} by each party; {measured[1].rounds} rounds; "
        f"largest error {error:.1e} of the largest output",
    )


def rows() -> list[Row]:
    peer = Peer()
    try:
        return [row(case, peer) for case in CASES]
    finally:
        peer.close()
