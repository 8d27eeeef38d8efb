"""What differs between parties is caught: PublicMismatch at every party, and no value returned."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.runtime.mismatches import PROTOCOLS, Give, check
from torch import nn
from torch.nn import functional as F

import tacit
from tacit.errors import PartyFailed
from tacit.runtime.session import Session


def own(session: Session) -> torch.Generator:
    """A generator with a seed of this party's own."""
    return torch.Generator().manual_seed(session.rank)


def secret(session: Session) -> torch.Tensor:
    return session.share(torch.arange(24.0).reshape(8, 3) / 8, owner=1)


# What a new user does wrong -----------------------------------------------------------------------


def own_order(s: Session, give: Give) -> None:
    x = secret(s)
    give(s.reveal(x[torch.randperm(8, generator=own(s))]))


def own_labels(s: Session, give: Give) -> None:
    labels = torch.randint(0, 3, (8,), generator=own(s))
    give(s.reveal(F.cross_entropy(secret(s), labels)))


def forgotten_share(s: Session, give: Give) -> None:
    model = nn.Linear(3, 2)
    for weight in model.parameters():
        weight.data.copy_(torch.randn(weight.shape, generator=own(s)))
    give(s.reveal(model(secret(s)).detach()))


def forgotten_large_share(s: Session, give: Give) -> None:
    weight = torch.zeros(3, 5000)
    weight[2, 4321] = 1e-3 * s.rank  # one element of many
    give(s.reveal(secret(s) @ weight, to=2))


def own_noise(s: Session, give: Give) -> None:
    give(s.reveal(secret(s) + torch.randn(3, generator=own(s))))


def rank_as_factor(s: Session, give: Give) -> None:
    give(s.reveal(secret(s) * (1 + s.rank)))


def rank_as_index(s: Session, give: Give) -> None:
    give(s.reveal(secret(s)[s.rank]))


def another_float(s: Session, give: Give) -> None:
    give(s.reveal(secret(s) * (0.1 if s.rank else 0.1 + 1e-15)))


def another_flag(s: Session, give: Give) -> None:
    give(s.reveal(secret(s).sum(1, keepdim=s.rank == 1).sum()))


def one_more(s: Session, give: Give) -> None:
    x = secret(s).relu()
    if s.rank == 0:
        x + 1
    give(s.reveal(x.exp()))


def swapped(s: Session, give: Give) -> None:
    x = secret(s)
    give(s.reveal((x + 1) * 2 if s.rank else x * 2 + 2))


def dealer_differs(s: Session, give: Give) -> None:
    give(s.reveal(secret(s) * (2 + (s.rank == 0)), to=1))


def evaluator_differs(s: Session, give: Give) -> None:
    give(s.reveal(secret(s) * (2 + (s.rank == 2)), to=0))


def revealed_to_others(s: Session, give: Give) -> None:
    give(s.reveal(secret(s), to=0 if s.rank == 2 else 1))


def revealed_by_one(s: Session, give: Give) -> None:
    x = secret(s)
    if s.rank == 0:
        give(s.reveal(x))


def written_data(s: Session, give: Give) -> None:
    x = secret(s)
    x.data = torch.full((8, 3), float(s.rank))
    give(s.reveal(x))


def own_mask(s: Session, give: Give) -> None:
    keep = torch.rand(8, 3, generator=own(s)) < 0.5
    give(s.reveal(secret(s).masked_fill(keep, 0.0)))


def another_secret(s: Session, give: Give) -> None:
    x, y = secret(s), secret(s)
    give(s.reveal((x if s.rank == 1 else y) * 2))


def another_revealed(s: Session, give: Give) -> None:
    x = secret(s)
    y = x + 1
    give(s.reveal(x if s.rank == 2 else y))


CASES = (
    *(own_order, own_labels, forgotten_share, forgotten_large_share, own_noise, rank_as_factor),
    *(rank_as_index, another_float, another_flag, one_more, swapped, dealer_differs),
    *(evaluator_differs, revealed_to_others, revealed_by_one, written_data, own_mask),
    *(another_secret, another_revealed),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_every_party_finds_it_and_gets_no_value(case: Callable[..., None]) -> None:
    for protocol in PROTOCOLS:
        check(case, protocol)


def after_the_last_message(s: Session, give: Give) -> None:
    x = secret(s)
    s.reveal(x.sum())
    x + s.rank


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_difference_after_the_last_message_is_found(protocol: str) -> None:
    for error in check(after_the_last_message, protocol):
        assert error.op == "aten.add.Tensor"
        assert error.line is not None
        assert error.line.source == "x + s.rank"


def one_adds_another(s: Session, give: Give) -> None:
    x = secret(s)
    x * (2 + (s.rank == 2))


def test_the_error_names_operator_line_and_parties() -> None:
    for error in check(one_adds_another):
        assert error.op == "aten.mul.Tensor"
        assert error.party == 2
        assert error.line.function == "one_adds_another"
        assert "party 2 (cyd) has others than party 0 (ann) and party 1 (bob)" in str(error)
        assert "/" not in str(error).replace("aten.", "")  # no path


def test_the_error_names_both_operators() -> None:
    for error in check(one_more, "cleartext"):
        assert "party 0 (ann): aten.add.Tensor" in str(error)
        assert "aten.exp.default" in str(error)


def test_a_long_program_without_messages_is_compared_now_and_then() -> None:
    """The first difference is named although it lies thousands of operations back."""

    def program(s: Session, give: Give) -> None:
        x = secret(s)
        for i in range(3000):
            x = x.view(24) if i % 2 == 0 else x.view(8, 3)
            if i == 500 and s.rank == 1:
                x = x + 0.0
        give(s.reveal(x))

    for error in check(program, "cleartext"):
        assert "aten.add.Tensor" in str(error)


def test_costs_are_those_of_the_values() -> None:
    """Digests add no round and no byte of tensors; the local comparisons are not counted."""

    def program(s: Session) -> tuple[int, int]:
        x = secret(s)
        before = s.stats.snapshot()
        for _ in range(300):
            x = x.view(24).view(8, 3)
        s.reveal(x)
        spent = s.stats.snapshot().accumulate(before, -1)
        return spent.rounds, spent.bytes_received

    assert tacit.run(program) == [(1, 8 * 24)] * 3


@pytest.mark.full("test_every_party_finds_it_and_gets_no_value, in threads")
def test_processes_find_it() -> None:
    with pytest.raises(PartyFailed) as caught:
        tacit.run(in_processes, transport="processes")
    assert caught.value.kind == "PublicMismatch"
    assert caught.value.op == "aten.mul.Tensor"
    assert "party 2 has others than party 0 and party 1" in str(caught.value)
    assert all("in the same way" in note for note in caught.value.__notes__)


def in_processes(s: Session) -> Any:
    return s.reveal(secret(s) * (2 + (s.rank == 2)))


# Random programs ----------------------------------------------------------------------------------


def random_program(s: Session, give: Give, seed: int) -> None:
    """Ten random operations; one of them has another public operand at one party."""
    choose = random.Random(seed)
    where, who, to = choose.randrange(10), choose.randrange(3), choose.choice([None, 0, 1, 2])
    x = secret(s)
    for i in range(10):
        odd = i == where and s.rank == who
        x = choose.choice(STEPS)(x, choose.randrange(1, 5), odd)
    give(s.reveal(x, to))


def permuted(x: torch.Tensor, n: int, odd: bool) -> torch.Tensor:
    order = torch.roll(torch.arange(8), n)
    return x[order.flip(0) if odd else order]


STEPS: list[Callable[[torch.Tensor, int, bool], torch.Tensor]] = [
    lambda x, n, odd: x + (n + odd) / 64,
    lambda x, n, odd: x * torch.full((3,), 0.5 if odd else 0.25),
    permuted,
    lambda x, n, odd: torch.where(torch.arange(3) < (n + odd) % 3, x, x * 0.5),
    lambda x, n, odd: x.clamp(min=0.0, max=n + odd),
    lambda x, n, odd: x.roll(n + odd, 0),
    lambda x, n, odd: (x + 0.0 if odd else x).relu(),
    lambda x, n, odd: x.flip(1 if odd else 0),
    lambda x, n, odd: x @ (torch.eye(3) * (0.5 + odd / 8)),
]


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_with_one_difference(seed: int) -> None:
    print("seed", seed)
    check(lambda s, give: random_program(s, give, seed), PROTOCOLS[seed % 3])
