"""Runs from stored preprocessing equal runs with a dealer, and no dealer takes part in them."""

from __future__ import annotations

import copy
import shutil

import numpy as np
import pytest
import torch
from tests.protocols.ranges import hidden_twice, overlaps, watch
from tests.runtime import stored_programs as programs
from torch import nn

import tacit
from tacit import Session
from tacit.errors import ConfigError, PartyFailed
from tacit.nn import load, save
from tacit.protocols import clients
from tacit.runtime.launch import program as launched
from tacit.runtime.preprocessing import making
from tacit.runtime.preprocessing.store import Store

KEY = b"a key of a file".ljust(32)
TWO = {"parties": 2, "protocol": "additive"}
THREE = {"parties": 3, "protocol": "additive", "fraction_bits": 8}


def refused(error: pytest.ExceptionInfo[PartyFailed]) -> str:
    assert error.value.kind == "PreprocessingRejected", error.value
    return error.value.headline


@pytest.mark.parametrize("ring", [64, 32])
@pytest.mark.parametrize("protocol", ["additive", "trio"])
def test_operations_are_those_of_a_usual_run(tmp_path, protocol, ring):
    settings = {**THREE, "protocol": protocol, "ring": ring}
    usual = tacit.run(programs.operations, **settings)[0]
    tacit.preprocess(programs.operations, folder=tmp_path, **settings)
    for stored in tacit.run(programs.operations, preprocessed=tmp_path, **settings):
        for name in programs.EXACT:
            assert all(map(torch.equal, stored[name], usual[name])), name
        for name in programs.ROUNDED:
            off = [(a - b).abs().max() for a, b in zip(stored[name], usual[name], strict=True)]
            assert max(off) <= 4, name


def test_lenet(tmp_path):
    tacit.preprocess(programs.lenet, folder=tmp_path, **TWO)
    for found, plain in tacit.run(programs.lenet, preprocessed=tmp_path, **TWO):
        torch.testing.assert_close(found, plain, rtol=0, atol=2e-3)


def test_a_training_on_a_file(tmp_path):
    """The owner announces the shape of its file, which the dealer needs; another is refused."""
    path, folder = tmp_path / "x.npy", tmp_path / "stored"
    np.save(path, np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4))
    usual = tacit.run(programs.training, str(path), **TWO)[0]
    tacit.preprocess(programs.training, str(path), folder=folder, runs=2, **TWO)
    found = tacit.run(programs.training, str(path), preprocessed=folder, **TWO)
    assert found[0] == found[1] == pytest.approx(usual, abs=1e-3)
    assert usual[1] < usual[0]
    np.save(path, np.zeros((6, 4), dtype=np.float32))
    with pytest.raises(PartyFailed) as error:
        tacit.run(programs.training, str(path), preprocessed=folder, **TWO)
    assert "is not the one that the dealer ran" in refused(error)


@pytest.mark.full("the same in processes; test_runs_are_used_up in threads")
def test_processes(tmp_path):
    settings = {**TWO, "transport": "processes"}
    tacit.preprocess(programs.layer, folder=tmp_path, **settings)
    found = tacit.run(programs.layer, preprocessed=tmp_path, **settings)
    assert torch.equal(found[0], found[1])


def costs(session: Session) -> tuple[int, ...]:
    torch.manual_seed(5)  # the bound on public numbers decides how many bits are compared
    before = session.stats.snapshot()
    programs.layer(session)
    cost = session.stats.snapshot().accumulate(before, -1)
    online = cost.bytes_received - cost.bytes_received_ahead, cost.rounds
    dealt = [cost.peers[peer] for peer in cost.peers if peer >= session.parties]
    from_dealer = sum(one.bytes_received + one.bytes_sent + one.messages for one in dealt)
    return *online, cost.bytes_received_ahead, from_dealer, session.stats.bytes_preprocessed


def test_online_costs_are_those_without_the_dealer(tmp_path):
    tacit.preprocess(costs, folder=tmp_path, **TWO)
    usual, stored = tacit.run(costs, **TWO), tacit.run(costs, preprocessed=tmp_path, **TWO)
    control = 32  # the digest of an agreement, from the dealer
    for (online, rounds, ahead, from_dealer, _), now in zip(usual, stored, strict=True):
        assert now[:4] == (online - control, rounds, 0, 0)
        assert now[4] == ahead + control
        assert from_dealer > 0
    assert stored[1][4] > stored[0][4] == control  # all else is dealt to the leader


def owned(session: Session) -> tuple[object, ...]:
    """Each party gives an input; returns the result and this party's cost."""
    before = session.stats.snapshot()
    values = [session.share(torch.full((50,), 1.0 + i), i) for i in range(3)]
    found = session.reveal(torch.relu(values[0] * values[1] - values[2]))
    cost = session.stats.snapshot().accumulate(before, -1)
    return found, cost, session.stats.bytes_preprocessed


def test_trio_deals_offline(tmp_path):
    """Online the dealer sends its inputs, to both others, and parts of a reveal; nothing ahead."""
    tacit.preprocess(owned, folder=tmp_path, protocol="trio")
    usual, stored = tacit.run(owned), tacit.run(owned, preprocessed=tmp_path)
    for (_, before, _), (found, now, _) in zip(usual, stored, strict=True):
        torch.testing.assert_close(found, torch.zeros(50), rtol=0, atol=1e-3)
        assert (now.bytes_sent_ahead, now.bytes_received_ahead) == (0, 0)
        assert now.rounds - before.rounds in (0, 1)  # inputs of a dealer go ahead in a usual run
    dealt = usual[2][1].bytes_received_ahead
    assert [one[2] for one in stored] == [0, 0, dealt - 50 * 8]
    assert usual[0][1].bytes_sent - stored[0][1].bytes_sent == dealt - 2 * 50 * 8


def client(session: Session) -> None:
    message = clients.split_input(torch.zeros(2, dtype=torch.int64), "trio")[session.rank]
    session.protocol.from_client(message)


def test_what_depends_on_messages_to_the_dealer_is_refused(tmp_path):
    def rotates(session: Session) -> None:
        p = session.protocol.rotated()
        p.sign(p.share(torch.arange(3), 0))

    for main, why in ((rotates, "the dealer receives a message"), (client, "inputs of clients")):
        with pytest.raises(PartyFailed) as error:
            tacit.preprocess(main, folder=tmp_path, protocol="trio")
        assert why in refused(error)


@pytest.mark.parametrize(("settings", "dealer"), [(TWO, 2), ({"protocol": "trio"}, 0)])
def test_no_two_runs_share_a_mask(tmp_path, monkeypatch, settings, dealer):
    """Compares the words that all members take: two stored runs, their use, and a usual run."""
    seen: dict[tuple[str, int, int], list] = {}
    reopened, opened = making.reopened, launched.open_session

    def noted(kind, make):
        def made(*args, **kwargs):
            session = make(*args, **kwargs)
            times = sum(key[:2] == (kind, session.rank) for key in seen)
            seen[kind, session.rank, times] = watch(session)
            return session

        return made

    monkeypatch.setattr(making, "reopened", noted("dealer", reopened))
    monkeypatch.setattr(launched, "open_session", noted("run", opened))
    monkeypatch.setattr(making, "open_session", noted("rehearsal", opened))
    tacit.preprocess(programs.layer, folder=tmp_path, runs=2, **settings)
    for _ in range(2):
        tacit.run(programs.layer, preprocessed=tmp_path, **settings)
    tacit.run(programs.layer, **settings)

    parties = [rank for rank in range(3) if rank != dealer]
    for rank in parties:  # what a party draws, in the rehearsal and in three runs
        uses = [seen["rehearsal", rank, 0], *(seen["run", rank, i] for i in range(3))]
        assert all(uses)
        assert not overlaps(use for one in uses for use in one)
    usual = seen["run", dealer, 0 if dealer == 2 else 2]
    dealt = [seen["dealer", dealer, 0], seen["dealer", dealer, 1], usual]
    assert all(dealt)
    assert not overlaps(use for one in dealt for use in one)
    for i in range(2):  # the party of run i draws what the dealer drew for it
        by_party = [seen.get(("run", rank, i), []) for rank in range(3)]
        assert not hidden_twice(by_party if dealer == 0 else by_party[:2])
        known = {use for use in seen["run", 1, i] if dealer in use.stream.holders}
        assert known
        assert known <= set(seen["dealer", dealer, i])


def test_runs_are_used_up(tmp_path):
    made = tacit.preprocess(programs.layer, folder=tmp_path, runs=2, **TWO)
    found = [tacit.run(programs.layer, preprocessed=tmp_path, **TWO)[0] for _ in made]
    assert not torch.equal(*found)  # public random numbers are those of each run
    with pytest.raises(PartyFailed) as error:
        tacit.run(programs.layer, preprocessed=tmp_path, **TWO)
    assert "party 0 has none; party 1 has none" in refused(error)
    assert all(Store(tmp_path / f"party{i}").ledger.is_used(run) for i in (0, 1) for run in made)


def test_a_file_that_comes_back_is_refused(tmp_path):
    [run] = tacit.preprocess(programs.layer, folder=tmp_path, **TWO)
    paths = [tmp_path / f"party{rank}" / f"{run}.run" for rank in (0, 1)]
    copies = [path.read_bytes() for path in paths]
    tacit.run(programs.layer, preprocessed=tmp_path, **TWO)
    for path, content in zip(paths, copies, strict=True):
        path.write_bytes(content)
    with pytest.raises(PartyFailed) as error:
        tacit.run(programs.layer, preprocessed=tmp_path, **TWO)
    assert "1 that were used before" in refused(error)


def test_a_program_that_differs_is_refused(tmp_path, monkeypatch):
    """The same function, whose work depends on something else now."""
    rows = [3]

    def changing(session: Session) -> object:
        return programs.layer(session, rows[0])

    tacit.preprocess(changing, folder=tmp_path, runs=2, **TWO)
    rows[0] = 5
    with pytest.raises(PartyFailed) as error:
        tacit.run(changing, preprocessed=tmp_path, **TWO)
    text = refused(error)
    assert "is not the one that the dealer ran" in text
    assert "operands of share differ" in text
    rows[0] = 3
    tacit.run(changing, preprocessed=tmp_path, **TWO)


def test_a_program_that_decides_by_what_it_learns_is_refused(tmp_path):
    tacit.preprocess(programs.decides, folder=tmp_path, **TWO)
    with pytest.raises(PartyFailed) as error:
        tacit.run(programs.decides, preprocessed=tmp_path, **TWO)
    assert "different operations" in refused(error)
    with pytest.raises(PartyFailed) as error:
        tacit.preprocess(programs.shown_to_dealer, folder=tmp_path, **TWO)
    assert "shows revealed values to the dealer" in refused(error)


def loads(session: Session, folder: str) -> torch.Tensor:
    """Scores of a model that was saved before."""
    model = nn.Linear(4, 2)
    load(session, folder, model, key=KEY)
    return session.reveal(model(session.share(programs.inputs(3), 1))).detach()


def saved(folder: str, seed: int) -> torch.Tensor:
    """Saves a model; returns its scores."""
    torch.manual_seed(seed)
    model = nn.Linear(4, 2)
    plain = model(programs.inputs(3)).detach()
    tacit.run(lambda s: save(s, folder, s.share(copy.deepcopy(model), 0), key=KEY), **TWO)
    return plain


def test_a_checkpoint_is_loaded_in_a_stored_run(tmp_path):
    """The one that the dealer loaded when it made the run, and no other."""
    folder, stored = str(tmp_path / "saved"), tmp_path / "stored"
    wanted = saved(folder, 1)
    tacit.preprocess(loads, folder, folder=stored, runs=2, **TWO)
    for found in tacit.run(loads, folder, preprocessed=stored, **TWO):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-3)
    shutil.rmtree(folder)
    saved(folder, 2)
    with pytest.raises(PartyFailed) as error:
        tacit.run(loads, folder, preprocessed=stored, **TWO)
    assert error.value.kind == "CheckpointRejected"
    assert "different checkpoints" in error.value.headline


@pytest.mark.parametrize("protocol", ["additive", "trio"])
def test_a_program_that_saves_is_refused(tmp_path, protocol):
    """When the run is made: there is no file, and nothing to wait for later."""
    folder = tmp_path / "saved"

    def saves(session: Session) -> None:
        save(session, folder, session.share(nn.Linear(2, 1), 0), key=KEY)

    def trains(session: Session) -> None:
        session.training(session.share(nn.Linear(2, 1), 0), folder=folder)

    settings = {"protocol": protocol, "parties": 2 if protocol == "additive" else 3}
    for main in (saves, trains):
        with pytest.raises(PartyFailed) as error:
            tacit.preprocess(main, folder=tmp_path / "stored", **settings)
        assert "the program saves shares" in refused(error)
    assert not folder.exists()


def revealed(session: Session) -> list[object]:
    x = session.share(torch.full((2,), 7.0), 0)
    return [session.reveal(x), session.reveal(x, to=1), session.reveal(x > 3)]


def test_nothing_is_opened_while_runs_are_made(tmp_path):
    found = {}

    def main(session: Session) -> None:
        found.setdefault(session.rank, []).append(revealed(session))

    tacit.preprocess(main, folder=tmp_path, runs=2, **TWO)
    [[all_of_0, to_1, bits]], [[_, at_1, _]] = found[0], found[1]
    assert torch.equal(all_of_0, torch.zeros(2))
    assert torch.equal(at_1, torch.zeros(2))
    assert to_1 is None
    assert not bits.any()
    assert len(found[2]) == 3  # the rehearsal and two runs
    assert all(one[0].isnan().all() for one in found[2])


def test_a_guard_lets_runs_be_made(tmp_path):
    settings = {**TWO, "guard": True}
    tacit.preprocess(programs.layer, folder=tmp_path, **settings)
    tacit.run(programs.layer, preprocessed=tmp_path, **settings)


def test_settings_that_cannot_be_preprocessed(tmp_path):
    with pytest.raises(ConfigError, match="runs=0"):
        tacit.preprocess(programs.layer, folder=tmp_path, runs=0, **TWO)
    for protocol in ("replicated", "beaver"):
        with pytest.raises(PartyFailed, match="has no stored runs"):
            tacit.preprocess(programs.layer, folder=tmp_path, protocol=protocol)


def test_only_the_owner_may_read_the_files(tmp_path):
    tacit.preprocess(programs.layer, folder=tmp_path, **TWO)
    for path in tmp_path.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
