"""Checkpoints of an enclave's session: shapes at the parties, and nothing its host can open."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tacit
from tacit.errors import CheckpointRejected, PartyFailed

KEYS = [bytes([rank]) * 32 for rank in range(2)]
PATTERN = 1234.5678


def network() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    nn.init.constant_(model[0].weight, PATTERN)
    return model


def key_of(session: tacit.Session, keys) -> bytes | str:
    return keys[session.rank] if session.rank < len(keys) else b""


def save(session, folder, keys):
    model = session.share(network(), owner=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x = session.share(torch.rand(8, 3), owner=1)
    model(x).square().mean().backward()
    optimizer.step()
    tacit.nn.save(session, folder, model, optimizer, key=key_of(session, keys), extra={"epoch": 3})
    return session.reveal(model).state_dict()


def load(session, folder, keys):
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    found = tacit.nn.load(session, folder, model, optimizer, key=key_of(session, keys))
    moments = optimizer.state[model[0].weight]["exp_avg"]
    return session.reveal(model).state_dict(), found.extra, session.reveal(moments)


def run(main, *args, **settings):
    return tacit.run(main, *args, parties=2, protocol="enclave", outsourcing="none", **settings)


@pytest.mark.parametrize("keys", [KEYS, ["one passphrase", b"2" * 32]], ids=["keys", "passphrase"])
def test_what_is_saved_is_loaded(tmp_path, keys):
    saved = run(save, tmp_path, keys)[0]
    loaded, extra, moments = run(load, tmp_path, keys)[1]
    assert extra == {"epoch": 3}
    assert moments.abs().max() > 0
    assert all(torch.equal(loaded[name], tensor) for name, tensor in saved.items())


def test_it_takes_the_keys_of_all_parties(tmp_path):
    run(save, tmp_path, KEYS)
    with pytest.raises(PartyFailed) as failed:
        run(load, tmp_path, [KEYS[0], b"?" * 32])
    assert isinstance(failed.value.__cause__, CheckpointRejected)


def test_parties_save_shapes_alone(tmp_path):
    run(save, tmp_path, KEYS)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes["party-0.tacit"] == sizes["party-1.tacit"]
    weights = sum(p.numel() for p in network().parameters()) * 3 * 4  # with Adam's moments
    assert sizes["party-2.tacit"] >= sizes["party-0.tacit"] + weights


def test_another_protocol_refuses_it(tmp_path):
    run(save, tmp_path, KEYS)
    with pytest.raises(PartyFailed) as failed:
        tacit.run(load, tmp_path, [*KEYS, KEYS[0]], protocol="trio")
    assert isinstance(failed.value.__cause__, CheckpointRejected)


def steps(session, total):
    torch.manual_seed(2)
    model = session.share(nn.Linear(3, 1), owner=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = session.share(torch.ones(4, 3), owner=1)
    training = session.training(model, optimizer, every=2)
    for _ in training.steps(total):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return session.reveal(model).weight.detach()


def test_a_training_resumes(tmp_path):
    whole = run(steps, 6, folder=tmp_path / "whole")[0]
    run(steps, 2, folder=tmp_path / "cut")
    resumed = run(steps, 6, folder=tmp_path / "cut", resume=True)[0]
    assert torch.allclose(resumed, whole)
    keys = [path.parent.name for path in (tmp_path / "cut").rglob("*key*")]
    assert "enclave" not in keys
    assert keys
