"""Recurrent layers and cells that no gradient is asked of: results, states, and rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

import tacit
from tacit import Session

SIZE, BATCH = 4, 2


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Case(NamedTuple):
    """A module, its arguments, and the rounds of `trio` and of cells one after the other."""

    make: Callable[[], nn.Module]
    args: tuple[Any, ...]
    rounds: int


def layer(kind: Any, steps: int, rounds: int, **options: Any) -> Case:
    x = normal(BATCH, steps, 3) if options.get("batch_first") else normal(steps, BATCH, 3)
    return Case(lambda: kind(3, SIZE, **options), (x,), rounds)


def states(count: int, size: int = SIZE) -> tuple[Tensor, Tensor]:
    return normal(count, BATCH, SIZE, seed=1) / 2, 20 * normal(count, BATCH, size, seed=2)


LSTM, GRU = 6, 7  # rounds of a cell
CASES = {
    "LSTM": layer(nn.LSTM, 3, 3 * LSTM),
    "GRU": layer(nn.GRU, 3, 3 * GRU),
    "RNN": layer(nn.RNN, 3, 3 * 3),
    "without bias": layer(nn.LSTM, 2, 2 * LSTM, bias=False),
    "three layers": layer(nn.LSTM, 3, (3 + 2) * LSTM, num_layers=3),
    "GRU of two layers": layer(nn.GRU, 3, (3 + 1) * GRU, num_layers=2, batch_first=True),
    "both ways": layer(nn.LSTM, 2, 2 * LSTM, bidirectional=True),
    "two layers both ways": layer(nn.GRU, 2, 2 * 2 * GRU, bidirectional=True, num_layers=2),
    "LSTM with large states": Case(
        lambda: nn.LSTM(3, SIZE, 2), (normal(2, BATCH, 3), states(2)), (2 + 1) * (LSTM + 1)
    ),
    "GRU with a state": Case(lambda: nn.GRU(3, SIZE), (normal(2, BATCH, 3), states(1)[1]), 2 * GRU),
    "unbatched": Case(lambda: nn.LSTM(3, SIZE), (normal(2, 3),), 2 * LSTM),
    "large gates": Case(lambda: nn.LSTM(3, SIZE), (300 * normal(2, BATCH, 3),), 2 * LSTM),
    "LSTM cell": Case(lambda: nn.LSTMCell(3, SIZE), (normal(BATCH, 3),), LSTM),
    "LSTM cell with states": Case(
        lambda: nn.LSTMCell(3, SIZE),
        (normal(BATCH, 3), tuple(s[0] for s in states(1))),
        LSTM + 1,
    ),
    "GRU cell": Case(lambda: nn.GRUCell(3, SIZE), (normal(BATCH, 3), normal(BATCH, SIZE)), GRU),
    "RNN cell": Case(lambda: nn.RNNCell(3, SIZE, bias=False), (normal(BATCH, 3),), 3),
    "projection": layer(nn.LSTM, 2, 2 * (LSTM + 1 + 1), proj_size=2),
}
ENOUGH = ("LSTM", "GRU", "two layers both ways", "LSTM with large states")


def made(case: Case) -> nn.Module:
    torch.manual_seed(0)
    return case.make().eval()


def run_all(session: Session, names: list[str], share_weights: bool) -> list[tuple[Any, int]]:
    """Results of every case without gradients, and the rounds that they took."""
    found = []
    for name in names:
        case = CASES[name]
        module = made(case)
        module = session.share(module, owner=0) if share_weights else module
        args = session.share(list(case.args), owner=1 % session.parties)
        with session.stats.scope("one") as spent, torch.no_grad():
            result = module(*args)
        found.append((session.reveal(tree_leaves(result)), spent.rounds))
    return found


def check(
    names: list[str],
    bound: float,
    *,
    rounds: bool = False,
    share_weights: bool = True,
    **settings: Any,
) -> None:
    parties = tacit.run(run_all, names, share_weights, **settings)
    for name, (found, _), *spent in zip(names, parties[0], *parties, strict=True):
        case = CASES[name]
        with torch.no_grad():
            args = torch.utils._pytree.tree_map(Tensor.double, list(case.args))
            wanted = tree_leaves(made(case).double()(*args))
        for got, want in zip(found, wanted, strict=True):
            error = (got.double() - want).abs() / want.abs().clamp(min=1)
            assert got.shape == want.shape, name
            assert error.max() < bound, f"{name}: {error.max()}"
        if rounds:
            assert max(party[1] for party in spent) == case.rounds, name


def test_all_forms_in_few_rounds():
    check(list(CASES), 4e-4, rounds=True)


def test_other_settings():
    for settings in (
        {"protocol": "additive", "parties": 2},
        {"protocol": "cleartext", "parties": 1},
        {"truncation": "probabilistic"},
        {"fraction_bits": 20},
    ):
        check(list(ENOUGH), 4e-4, **settings)
    check(["LSTM", "GRU", "both ways"], 6e-3, ring=32, fraction_bits=11, range_bits=7)
    check(["LSTM", "GRU"], 4e-4, share_weights=False)


@pytest.mark.full("the functions without a dealer; test_other_settings has the cells")
def test_other_protocols():
    for protocol in ("replicated", "quad"):
        check(list(ENOUGH), 2e-3, protocol=protocol, parties=4 if protocol == "quad" else 3)


def test_a_long_sequence_does_not_drift():
    """After 16 steps nothing is known of the cell state any more."""

    def main(session: Session) -> tuple[Tensor, int]:
        torch.manual_seed(0)
        module = session.share(nn.LSTM(3, SIZE), owner=0)
        x = session.share(normal(24, 1, 3), owner=1)
        with session.stats.scope("one") as spent, torch.no_grad():
            out, _ = module(x)
        return session.reveal(out), spent.rounds

    results = tacit.run(main)
    torch.manual_seed(0)
    with torch.no_grad():
        wanted, _ = nn.LSTM(3, SIZE).double()(normal(24, 1, 3).double())
    assert (results[0][0] - wanted).abs().max() < 4e-4
    bounded = 15 - 1
    assert results[1][1] == bounded * LSTM + (24 - bounded) * (LSTM + 1)


def test_dropout_and_gradients_stay_torchs():
    """Dropout in training zeroes outputs of the first layer; a gradient reaches the weights."""

    def main(session: Session) -> tuple[float, list[bool]]:
        torch.manual_seed(0)
        module = session.share(nn.GRU(3, SIZE, 2, dropout=0.999), owner=0)
        x = session.share(normal(2, BATCH, 3), owner=0)
        with torch.no_grad():
            dropped, kept = (session.reveal(module.train(mode)(x)[0]) for mode in (True, False))
        module(x)[0].sum().backward()
        return float((dropped - kept).abs().max()), [
            w.grad is not None for w in module.parameters()
        ]

    difference, has_gradient = tacit.run(main, protocol="cleartext", parties=1)[0]
    assert difference > 0.01
    assert all(has_gradient)


def test_replayed():
    def main(session: Session) -> list[Tensor]:
        torch.manual_seed(0)
        module = session.share(nn.LSTMCell(3, SIZE), owner=0)
        replayed = session.repeated(lambda x: module(x)[0])
        inputs = [session.share(normal(BATCH, 3, seed=seed), owner=0) for seed in range(4)]
        with torch.inference_mode():
            found = [session.reveal(replayed(x)) for x in inputs]
        assert session.rank == 0 or "6 rounds" in replayed.summary(), replayed.summary()
        return found

    found = tacit.run(main)[1]
    torch.manual_seed(0)
    module = nn.LSTMCell(3, SIZE).double()
    for seed, got in enumerate(found):
        with torch.no_grad():
            assert (got - module(normal(BATCH, 3, seed=seed).double())[0]).abs().max() < 4e-4
