"""Time and bytes of a network by kind of layer, as in table 5 of PIGEON's paper.

The clock is that of the slowest party. A division that a convolution leaves pending belongs to the
layer that does it, most often a ReLU; batch normalisation is folded into convolutions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import torch
from benchmarks.measure import Row
from torch import Tensor, nn

import tacit

KINDS: dict[type[nn.Module], str] = {
    nn.Conv2d: "convolutions",
    nn.ReLU: "ReLUs",
    nn.AvgPool2d: "average pools",
    nn.AdaptiveAvgPool2d: "average pools",
    nn.Linear: "linear layers",
}
TOTAL = "all"


class Spent(NamedTuple):
    """What a party spent in the layers of one kind: seconds, bytes sent, rounds."""

    seconds: float = 0.0
    sent: int = 0
    rounds: int = 0


@contextmanager
def measured_layers(session: tacit.Session, model: nn.Module) -> Iterator[dict[str, float]]:
    """Fills the seconds of each kind of layer; its bytes are in the session's scopes."""
    seconds: dict[str, float] = {}
    opened: dict[nn.Module, tuple[ExitStack, float]] = {}

    def begin(layer: nn.Module, _inputs: object) -> None:
        scope = ExitStack()
        scope.enter_context(session.stats.scope(KINDS[type(layer)]))
        opened[layer] = scope, time.perf_counter()

    def end(layer: nn.Module, _inputs: object, _result: object) -> None:
        scope, begun = opened.pop(layer)
        kind = KINDS[type(layer)]
        seconds[kind] = seconds.get(kind, 0.0) + time.perf_counter() - begun
        scope.close()

    handles = []
    for layer in model.modules():
        if type(layer) in KINDS:
            handles += [layer.register_forward_pre_hook(begin), layer.register_forward_hook(end)]
    try:
        yield seconds
    finally:
        for handle in handles:
            handle.remove()


def spent(session: tacit.Session, model: nn.Module, x: Tensor) -> dict[str, Spent]:
    """Returns what the second inference spends in each kind of layer, and in all."""
    with torch.no_grad():
        model(x)
        session.mesh.compare()
        with session.stats.scope(TOTAL), measured_layers(session, model) as seconds:
            begin = time.perf_counter()
            session.numbers.settled(model(x).value)
            session.verify()
            seconds[TOTAL] = time.perf_counter() - begin
    found = {}
    for kind, own in seconds.items():
        cost = session.stats.scopes[TOTAL if kind == TOTAL else f"{TOTAL}/{kind}"]
        found[kind] = Spent(own, cost.bytes_sent, cost.rounds)
    return found


def rows(
    case: str, found: Sequence[Mapping[str, Spent]], published: Mapping[str, float]
) -> list[Row]:
    """The megabytes that a party sends on average for a picture, beside the published ones.

    Where there are none, the baseline is what it sends for all layers.
    """
    slowest = max(found, key=lambda one: one[TOTAL].seconds)
    each = {kind: sum(one[kind].sent for one in found) / len(found) / 1e6 for kind in slowest}
    return [
        Row(
            name=f"{case}: {kind}",
            value=each[kind],
            unit="MB a party",
            baseline="PIGEON's paper" if kind in published else "all layers",
            baseline_value=published.get(kind, each[TOTAL]),
            lower_is_better=True,
            note=f"{spent.seconds:.3g} s, {_gigabits(spent):.3g} Gbit/s sent by that party, "
            f"{spent.rounds} rounds",
        )
        for kind, spent in sorted(slowest.items(), key=lambda item: -item[1].seconds)
    ]


def _gigabits(spent: Spent) -> float:
    return spent.sent * 8e-9 / spent.seconds if spent.seconds else 0.0
