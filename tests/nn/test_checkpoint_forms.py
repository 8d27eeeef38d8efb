"""Checkpoints from one form of share to another: a session of the same parties goes on."""

import pytest
import torch
from torch import nn

import tacit
from tacit.errors import CheckpointRejected
from tacit.nn import load, save
from tacit.nn.checkpoint_file import checkpoint_file

KEYS = [bytes([i + 1]) * 32 for i in range(6)]
ALONE = {"protocol": "additive", "dealer": "none"}


def build() -> nn.Module:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    model.register_buffer("labels", torch.tensor([5, -7, 2**20]))
    return model.eval()


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=0.01)


X = torch.linspace(-1, 1, 20).reshape(5, 4)


def step(x, model, optimizer):
    optimizer.zero_grad()
    model(x).square().sum().backward()
    optimizer.step()


def twice_in_plain():
    model = build()
    optimizer = adam(model)
    for _ in range(2):
        step(X, model, optimizer)
    return model


def written(folder, **settings):
    """Saves a model after a step of training; returns it as the parties know it."""

    def main(session):
        model = session.share(build(), owner=1)
        optimizer = adam(model)
        step(session.share(X, owner=0), model, optimizer)
        save(session, folder, model, optimizer, key=KEYS[session.rank], step=1, extra=["x"])
        return session.reveal(model)

    return tacit.run(main, **settings)[0]


def read(folder, **settings):
    """Loads it, and returns it as it was, and after another step of training."""

    def main(session):
        model = build()
        optimizer = adam(model)
        found = load(session, folder, model, optimizer, key=KEYS[session.rank])
        before = session.reveal(model)
        step(session.share(X, owner=0), model, optimizer)
        return before, session.reveal(model), found

    return tacit.run(main, **settings)


TRIO, TWO = {"protocol": "trio"}, {"protocol": "additive", "parties": 2}
THREE = {"protocol": "additive", "parties": 3}
BEAVER = {"protocol": "beaver", "parties": 3}
IN_ONE_SESSION = pytest.mark.full("tests/protocols/test_conversion.py does it in a session")
WAYS = [
    pytest.param(TRIO, THREE, id="trio to additive: the dealer is new"),
    pytest.param(THREE, {"protocol": "replicated"}, id="additive to replicated"),
    pytest.param(THREE, BEAVER, id="masks to plain parts", marks=IN_ONE_SESSION),
    pytest.param(BEAVER, THREE, id="plain parts to masks", marks=IN_ONE_SESSION),
    pytest.param(ALONE | {"parties": 2}, TWO, id="two parties alone, then with a dealer"),
    pytest.param(TWO, TRIO, id="the dealer becomes a party"),
    pytest.param(
        THREE, ALONE | {"parties": 3}, id="without the dealer", marks=pytest.mark.full("two do")
    ),
]


@pytest.mark.parametrize(("first", "then"), WAYS)
def test_the_same_parties_go_on(tmp_path, first, then):
    saved = written(tmp_path, **first)
    results = read(tmp_path, **then)
    assert len({found.id for _, _, found in results}) == 1
    for before, after, found in results:
        assert (found.step, found.extra) == (1, ["x"])
        for name, tensor in saved.state_dict().items():
            assert torch.equal(before.state_dict()[name], tensor), name
        for one, want in zip(after.parameters(), twice_in_plain().parameters(), strict=True):
            torch.testing.assert_close(one, want, atol=2e-3, rtol=0)  # with Adam's moments


@pytest.mark.parametrize(
    ("first", "then", "why"),
    [
        (ALONE | {"parties": 3}, {"protocol": "beaver", "parties": 2}, "form='additive parts'"),
        (THREE, TWO, "form='opened value and masks'"),
        (TRIO, {"protocol": "cleartext", "parties": 3}, "form='three parts'"),
    ],
)
def test_parties_that_lack_parts_are_refused(tmp_path, first, then, why):
    def save_it(session):
        save(session, tmp_path, session.share(nn.Linear(2, 1), owner=0), key=KEYS[session.rank])

    def load_it(session):
        model = nn.Linear(2, 1)
        with pytest.raises(CheckpointRejected) as caught:
            load(session, tmp_path, model, key=KEYS[session.rank])
        return caught.value.party, str(caught.value)

    tacit.run(save_it, **first)
    results = tacit.run(load_it, **then)
    assert {party for party, _ in results} == {0}
    assert why in results[0][1]
    assert "the parties that saved it" in results[0][1]


def test_a_party_whose_parts_are_needed_is_named(tmp_path):
    written(tmp_path, **TRIO)
    checkpoint_file(tmp_path, 1).unlink()

    def main(session):
        with pytest.raises(CheckpointRejected, match="there is no such file") as caught:
            load(session, tmp_path, build(), key=KEYS[session.rank])
        return caught.value.party

    assert tacit.run(main, **THREE) == [1, 1, 1]


def test_a_training_resumes_under_its_own_protocol(tmp_path):
    """Its checkpoints come one after the other, all of one form; `load` takes any of them over."""

    def begin(session):
        for _ in session.training(session.share(build(), owner=0), folder=tmp_path).steps(1):
            pass

    def resume(session):
        training = session.training(session.share(build(), owner=0), folder=tmp_path)
        with pytest.raises(CheckpointRejected, match="no checkpoint in common") as caught:
            training.resume()
        return str(caught.value)

    tacit.run(begin, **TRIO)
    assert "form='three parts'" in tacit.run(resume, **THREE)[0]
