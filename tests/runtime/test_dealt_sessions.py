"""Files, trainings, policies, guards and memory limits where a dealer is none of the parties."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch
from tests.runtime.trainings import TOTAL, train
from torch import nn

import tacit
from tacit.errors import (
    CheckpointRejected,
    ConfigError,
    DataRejected,
    PartyFailed,
    RangeError,
    RevealForbidden,
)
from tacit.nn.checkpoint_file import checkpoint_file

COUNTS = [2, 3]


def run(main, parties, *args, **options):
    return tacit.run(main, *args, parties=parties, protocol="additive", **options)


# Files --------------------------------------------------------------------------------------------


def load_all(session, folder):
    """A table of each party, the arrays of the last, and a file that nobody can read."""
    found = []
    for owner in range(session.parties):
        path = folder / f"{owner}.csv" if session.rank == owner else None
        table = session.load(path, owner)
        found.append(session.reveal(table["height"] * 2))
    last = session.parties - 1
    arrays = session.load(folder / "arrays.npz" if session.rank == last else None, last)
    found.append(session.reveal(arrays["x"].relu()))
    with pytest.raises(DataRejected, match="there is no such file") as error:
        session.load(folder / "missing.npy" if session.rank == 0 else None, 0)
    assert error.value.party == 0
    wrong = (5,) if session.is_dealer else None
    with pytest.raises(DataRejected, match="is not as the dealer expects"):
        session.load(folder / "own.npy" if session.rank == 0 else None, 0, shape=wrong)
    with pytest.raises(ConfigError, match="owner='dealer': allowed are"):
        session.load(None, "dealer")
    return found


@pytest.mark.parametrize("parties", COUNTS)
def test_each_party_loads_files_and_the_dealer_needs_none(tmp_path, parties):
    for owner in range(parties):
        (tmp_path / f"{owner}.csv").write_text(f"height,age\n{owner}.5,7\n-2,8\n")
    np.savez(tmp_path / "arrays.npz", x=np.array([[-1.5, 2.5]], dtype=np.float32))
    np.save(tmp_path / "own.npy", np.zeros((2, 2), dtype=np.float32))
    names = ("alice", "bob", "carol")[:parties]
    for found in run(load_all, parties, tmp_path, names=names):
        *tables, arrays = found
        assert [t.tolist() for t in tables] == [[2 * owner + 1.0, -4.0] for owner in range(parties)]
        assert arrays.tolist() == [[0.0, 2.5]]


# Trainings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("parties", COUNTS)
def test_a_training_resumes_and_the_dealer_has_checkpoints_of_its_own(tmp_path, parties):
    whole = run(train, parties, folder=tmp_path / "whole")
    folder = tmp_path / "broken"
    run(train, parties, total=3, folder=folder)
    members = [f"party{rank}" for rank in range(parties)] + ["dealer"]
    steps = {name: sorted(p.name for p in (folder / name).glob("step-*")) for name in members}
    assert set(map(tuple, steps.values())) == {("step-00000002", "step-00000003")}
    for rank, name in enumerate(members):
        assert checkpoint_file(folder / name / "step-00000003", rank).exists()
    resumed = run(train, parties, folder=folder, resume=True)
    for got in resumed:
        for one, other in zip(got, whole[0], strict=True):
            torch.testing.assert_close(one, other, atol=2e-3, rtol=0)
    for name in members:
        with (folder / name / "scalars.csv").open(newline="") as file:
            losses = [float(row["loss"]) for row in csv.DictReader(file)]
        assert len(losses) == TOTAL
        assert np.isnan(losses).all() == (name == "dealer")


def test_a_dealer_without_its_checkpoint_is_named(tmp_path):
    run(train, 2, total=2, folder=tmp_path)
    checkpoint_file(tmp_path / "dealer" / "step-00000002", 2).unlink()
    with pytest.raises(PartyFailed) as found:
        run(train, 2, folder=tmp_path, resume=True)
    assert found.value.kind == CheckpointRejected.__name__
    assert "the dealer has steps none" in str(found.value)


@pytest.mark.full("processes; test_a_training_resumes covers resuming, test_dealer_failures kills")
def test_a_training_goes_on_after_its_dealer_was_killed(tmp_path):
    whole = run(train, 2, folder=tmp_path / "whole")[0]
    options = {"folder": tmp_path, "transport": "processes", "deadline": 120.0}
    with pytest.raises(PartyFailed, match=r"the dealer failed: .*SIGKILL"):
        run(train, 2, crash=([2], "now", 4), **options)
    for got in run(train, 2, resume=True, **options):
        for one, other in zip(got, whole, strict=True):
            torch.testing.assert_close(one, other, atol=2e-3, rtol=0)


# Policy, guard, memory ----------------------------------------------------------------------------


def reveal_by_policy(session):
    x = session.share(torch.tensor([3.0]), owner=0)
    shown = session.reveal(x, to=1)
    with pytest.raises(RevealForbidden):
        session.reveal(x)
    with pytest.raises(RevealForbidden, match="reveal to the dealer"):
        session.reveal(x, to=1, to_dealer=True)
    assert [one.to for one in session.reveals] == [("party1",)]
    return shown


@pytest.mark.parametrize("parties", COUNTS)
def test_the_policy_holds_at_every_member(parties):
    shown = run(reveal_by_policy, parties, reveals=[1])
    assert [one if one is None else one.tolist() for one in shown] == [
        [3.0] if rank == 1 else None for rank in range(parties)
    ]


class Square(nn.Module):
    def forward(self, x):
        return x * x


def guarded(session, value):
    x = session.share(torch.tensor([value]), owner=0)
    try:
        return session.reveal(Square()(x)), session.reveals
    except RangeError as error:
        return str(error), session.reveals


@pytest.mark.parametrize("parties", COUNTS)
def test_a_guard_raises_at_every_member(parties):
    for value, opened in run(guarded, parties, 3.0, guard=True):
        assert value.tolist() == [9.0]
        assert [one.purpose for one in opened] == ["guard", "program"]
        assert ["dealer" in one.to for one in opened] == [True, False]
    for error, opened in run(guarded, parties, 1e5, guard=True):
        assert "the guard found values beyond their range" in error
        assert [one.purpose for one in opened] == ["guard"]


@pytest.mark.parametrize("reveals", [[1], [0, 1]])
def test_a_guard_tells_the_dealer_nothing_where_the_policy_lists_parties(reveals):
    [(value, opened)] = run(square_to_one, 2, 3.0, guard=True, reveals=reveals)[1:]
    assert value.tolist() == [9.0]
    assert not any("dealer" in one.to for one in opened)
    with pytest.raises(PartyFailed) as found:
        run(square_to_one, 2, 1e5, guard=True, reveals=reveals)
    assert found.value.kind == "RangeError"


def square_to_one(session, value):
    x = session.share(torch.tensor([value]), owner=0)
    return session.reveal(Square()(x), to=1), session.reveals


def large(session):
    generator = torch.Generator().manual_seed(7)
    x, w = torch.randn(64, 300, generator=generator), torch.randn(300, 400, generator=generator)
    shared = session.share(x, owner=0), session.share(w, owner=1)
    return session.reveal((shared[0] @ shared[1]).relu()), session.stats.rounds


@pytest.mark.parametrize("parties", COUNTS)
def test_a_memory_limit_changes_no_result(parties):
    whole, cut = run(large, parties), run(large, parties, memory_limit=1 << 20)
    generator = torch.Generator().manual_seed(7)
    x, w = torch.randn(64, 300, generator=generator), torch.randn(300, 400, generator=generator)
    for value, _ in [*whole, *cut]:
        torch.testing.assert_close(value, (x @ w).relu(), atol=2e-2, rtol=0)
    assert cut[0][1] > whole[0][1]


def public_buffers(session):
    model = nn.Linear(2, 2)
    model.register_buffer("index", torch.tensor([1, 0]) + (session.rank != 0))
    shared = session.share(model, owner=0, public=["index"])
    return shared.index.tolist(), [one.to for one in session.reveals]


def test_what_a_module_makes_public_is_on_record_as_shown_to_the_dealer(tmp_path):
    found = run(public_buffers, 2)
    assert found == [([1, 0], [("party0", "party1", "dealer")])] * 2
    with pytest.raises(PartyFailed, match="reveal to the dealer"):
        run(public_buffers, 2, reveals=[0, 1])
