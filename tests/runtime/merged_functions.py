"""Functions whose rounds merge on a GPU, replayed while users allocate and free its memory.

Both the pretended GPU and real ones run them (tests/gpu/test_merged_rounds.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from tests.runtime.test_plans_with_merged_rounds import Attention, Branches, Residual
from torch import nn

from tacit.tensor import SecretTensor

CALLS = 5
MOST_FREED = 3  # of each size, one after another
SIZES = [16, 100, 128, 300, 1000, 5000, 20_000, 1 << 18]  # of tensors of users, in elements
INPUTS = torch.rand(CALLS, 8, 4, generator=torch.Generator().manual_seed(5)) + 0.5


class Case(NamedTuple):
    """A function, what it is called with, and the weights that it changes."""

    function: Callable[..., Any]
    inputs: list[Any]
    weights: list[SecretTensor]


class Found(NamedTuple):
    """What the calls gave, and the weights after them; and the rounds of replays and calls."""

    results: list[torch.Tensor]
    rounds: int = 0
    rounds_of_call: int = 0


class Deep(nn.Module):
    """Two residual blocks, each with branches, and a layer for scores."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(Residual(), nn.Conv2d(4, 2, 1), Residual())
        self.scores = nn.Linear(4 * 25, 3)

    def forward(self, x):
        return self.scores(self.blocks(x).flatten(1))


def network(session: Any, module: type[nn.Module], shape: tuple[int, ...]) -> Case:
    torch.manual_seed(7)
    model = session.share(module().eval(), owner=0)
    inputs = [session.share(x, owner=1) for x in torch.randn(CALLS, *shape)]
    return Case(lambda x: model(x).detach(), inputs, [])


def training(session: Any, optimizer: type[torch.optim.Optimizer]) -> Case:
    """Every gradient is far from zero: where one is not, Adam's step depends on rounding."""
    torch.manual_seed(3)
    model = session.share(nn.Linear(4, 1), owner=0)
    steps = optimizer(model.parameters(), lr=0.05)  # type: ignore[call-arg]

    def step(x):
        steps.zero_grad()
        loss = (model(x) - 5).square().mean()
        loss.backward()
        steps.step()
        return loss.detach()

    return Case(step, [session.share(x, owner=1) for x in INPUTS], [*model.parameters()])


def shared_and_revealed(session: Any) -> Case:
    """Shares its argument, and reveals the sum to all and a product to party 1."""
    weight = session.share(torch.arange(4.0), owner=0)

    def function(x):
        secret = session.share(x, owner=1)
        return session.reveal(secret.sum(0)), session.reveal(secret @ weight, to=1)

    return Case(function, [x if session.rank == 1 else torch.zeros_like(x) for x in INPUTS], [])


CASES: dict[str, Callable[[Any], Case]] = {
    "shared and revealed": shared_and_revealed,
    "Adam": partial(training, optimizer=torch.optim.Adam),
    "NAdam": partial(training, optimizer=torch.optim.NAdam),
    "branches": partial(network, module=Branches, shape=(2, 6)),
    "attention": partial(network, module=Attention, shape=(1, 4, 6)),
    "residual": partial(network, module=Deep, shape=(1, 2, 5, 5)),
}


@contextmanager
def allocations(device: torch.device, kept: list[torch.Tensor]) -> Iterator[None]:
    """Tensors of users, half of which are freed at once; the others must stay what they are."""
    made = [
        torch.full((size,), number, dtype=torch.int32, device=device)
        for size in SIZES
        for number in range(2 * MOST_FREED)
    ]
    kept += made[::2]
    made.clear()
    yield
    for x in kept:
        found = x.cpu()
        assert bool((found == found[0]).all()), "a replay has written to a user's tensor"
        assert int(found[0]) in range(2 * MOST_FREED), "a replay has written to a user's tensor"


def called(session: Any, name: str, *, is_recorded: bool) -> Found:
    """Calls a function with each of its inputs, amid allocations."""
    case, kept = CASES[name](session), []
    function = session.repeated(case.function) if is_recorded else case.function
    results: list[Any] = []
    for x in case.inputs:
        with allocations(session.device, kept):
            made = function(x)
            results += made if isinstance(made, tuple) else [made]
    shown = [session.reveal(x) if isinstance(x, SecretTensor) else x for x in results]
    shown += [session.reveal(x.detach()) for x in case.weights]
    found = [x.cpu() for x in shown if x is not None]
    if not is_recorded:
        return Found(found)
    [summary] = function.recordings
    assert summary.num_replays >= CALLS - 3
    return Found(found, summary.rounds, summary.rounds_of_call)


def compared(session: Any, name: str) -> tuple[int, int]:
    """Returns the rounds of replays and calls, after both gave the same but for rounding."""
    plain, merged = (called(session, name, is_recorded=one) for one in (False, True))
    assert len(plain.results) == len(merged.results) > 0
    for one, other in zip(merged.results, plain.results, strict=True):
        torch.testing.assert_close(one, other, atol=5e-3, rtol=0)
    return merged.rounds, merged.rounds_of_call
