"""One party may cheat, beside protocols without such a party, taking turns.

Four parties (`quad`) beside three of `trio`; three (`replicated-malicious`) beside `replicated`.
Threads of this process, then processes with TLS. Seconds are of the slowest party, and include the
verification of everything; processor seconds are of all parties together. Quad multiplies 12 times
where trio does 5 times: 3 products at each of four parties. `--only malicious` leaves out quad.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import torch
from benchmarks.measure import Row, chosen
from torch import Tensor, nn

import tacit
from tacit import zoo
from tacit.nn import fold_batch_norm

TURNS = 3
PARTIES = {"trio": 3, "quad": 4, "replicated": 3, "replicated-malicious": 3}
REPETITIONS = {"relu": 5, "lenet": 9, "vgg16": 5, "resnet18": 1, "few": 5}
NAMES = {
    "relu": "ReLU of 1,000,000",
    "lenet": "LeNet, batch 1",
    "vgg16": "VGG-16, CIFAR-10, batch 1",
    "resnet18": "ResNet-18, 224 x 224, batch 1",
    "few": "ReLU of 100,000",
}


class Measured(NamedTuple):
    """Median seconds of a call at one party, and processor seconds of its process.

    sent, rounds: the megabytes that it sends, and the rounds that it waits for, in the last call.
    """

    seconds: float
    processor: float
    sent: float
    rounds: float


def network(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> Callable[..., Any]:
    def prepared(session: tacit.Session) -> Callable[[], Tensor]:
        torch.manual_seed(3)
        model = session.share(fold_batch_norm(make().eval()).eval(), owner=0)
        x = session.share(torch.rand(shape) * 2 - 1, owner=1)
        return lambda: model(x)

    return prepared


def relu(session: tacit.Session, count: int = 1_000_000) -> Callable[[], Tensor]:
    x = session.share(torch.randn(count) * 4, owner=0)
    return lambda: torch.relu(x)


CASES: dict[str, Callable[..., Any]] = {
    "relu": relu,
    "lenet": network(zoo.lenet, (1, 1, 28, 28)),
    "vgg16": network(zoo.small_vgg, (1, 3, 32, 32)),
    "resnet18": network(zoo.resnet18, (1, 3, 224, 224)),
    "few": partial(relu, count=100_000),
}


def party(session: tacit.Session, case: str) -> Measured:
    """Times a case at one party; the first two calls, which encode weights, are not measured."""
    torch.set_num_threads(1)
    seconds, processor = [], []
    with torch.no_grad():
        call = CASES[case](session)
        for repetition in range(-2, REPETITIONS[case]):
            session.mesh.compare()
            begin, used = time.perf_counter(), time.process_time()
            with session.stats.scope("call") as spent:
                session.numbers.settled(call().value)  # type: ignore[attr-defined]
                session.protocol.verify()
            if repetition >= 0:
                seconds.append(time.perf_counter() - begin)
                processor.append(time.process_time() - used)
    sent = sum(cost.bytes_sent for cost in spent.peers.values()) / 1e6
    return Measured(median(seconds), median(processor), sent, spent.rounds)


def measured(case: str, protocol: str, transport: str) -> Measured:
    settings: dict[str, Any] = {"protocol": protocol, "parties": PARTIES[protocol]}
    found = tacit.run(party, case, transport=transport, deadline=300.0, **settings)
    seconds, processor, sent, rounds = zip(*found, strict=True)
    used = sum(processor) if transport == "processes" else max(processor)
    return Measured(max(seconds), used, max(sent), max(rounds))


def row(case: str, transport: str, protocols: tuple[str, str]) -> Row:
    """Beside a protocol of honest parties, one in which a party may cheat."""
    turns = [[measured(case, protocol, transport) for protocol in protocols] for _ in range(TURNS)]
    honest, verified = (
        Measured(*map(median, zip(*column, strict=True))) for column in zip(*turns, strict=True)
    )
    return Row(
        name=f"{NAMES[case]}, {transport}" + (f", {THREE[1]}" if protocols == THREE else ""),
        value=verified.seconds,
        unit="s",
        baseline=protocols[0],
        baseline_value=honest.seconds,
        lower_is_better=True,
        note="processor seconds of all parties: "
        f"{verified.processor:.3g} to {honest.processor:.3g}; "
        f"the busiest party sends {verified.sent:.4g} MB to {honest.sent:.4g}; "
        f"{verified.rounds:.0f} rounds to {honest.rounds:.0f}",
    )


FOUR, FOUR_CASES = ("trio", "quad"), ("relu", "lenet", "vgg16", "resnet18")
THREE, THREE_CASES = ("replicated", "replicated-malicious"), ("few", "lenet", "vgg16")
TRANSPORTS = ("threads", "processes")


def rows(only: Sequence[str] = ()) -> Iterator[Row]:
    """All cases, or those of the protocols with one of these texts in their names."""
    groups = [(FOUR[1], (FOUR, FOUR_CASES)), (THREE[1], (THREE, THREE_CASES))]
    for _, (protocols, cases) in chosen(groups, only):
        yield from (row(case, way, protocols) for case in cases for way in TRANSPORTS)
