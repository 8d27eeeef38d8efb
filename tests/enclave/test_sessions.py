"""Programs in an enclave's session: the numbers of torch, and shapes alone at the parties."""

from __future__ import annotations

import copy
import json
import threading
from functools import cache

import pytest
import torch
from tests.enclave.limited import seal_everything_always
from tests.enclave.trainings import trained
from tests.enclave.workers import change_answers
from tests.tensor import conformance
from tests.tensor.operators import CHOSEN
from tests.tiers import FULL
from torch import nn
from torch.nn import functional as F

import tacit
from tacit.config import OUTSOURCING
from tacit.enclave import worker
from tacit.errors import CheatingDetected, ConfigError, PartyFailed, RangeError, UnsupportedOp
from tacit.tensor import SecretTensor

SETTINGS = [
    *({"outsourcing": mode} for mode in OUTSOURCING),
    *({"enclaves": 2, "outsourcing": mode} for mode in ("three-server", "two-server")),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_training_is_that_of_torch(settings):
    for found, wanted in tacit.run(trained, parties=2, protocol="enclave", **settings):
        assert (found - wanted).abs().max() < 1e-4


def test_eight_bits_round_at_random_and_train_nearly_as_well():
    found, wanted = tacit.run(trained, parties=2, protocol="enclave", precision="swalp")[0]
    assert 1e-4 < (found - wanted).abs().max() < 0.1


@pytest.mark.parametrize("outsourcing", ["three-server", "none"])
def test_the_modulus_of_goten_is_there_to_be_compared_with(outsourcing):
    """1.0 becomes 64: a sum of 512 squares is 2^21, which is 9 for a modulus of 2^21 - 9."""
    settings = {"parties": 1, "protocol": "enclave", "outsourcing": outsourcing}

    def main(session):
        x = session.share(torch.ones(1, 512), owner=0)
        return float(session.reveal(x @ x.T))

    for precision, wanted in (("swalp", 512.0), ("goten", 9 / 64**2)):
        assert tacit.run(main, precision=precision, **settings)[0] == wanted


def test_a_party_holds_shapes_alone():
    def main(session):
        x = session.share(torch.rand(3, 4), owner=0)
        made = [x, x @ x.T, x.relu().sum(), (x > 0.5), x[1:], x.argmax(1)]
        assert all(type(one) is SecretTensor for one in made)
        return [one.value.share.tensor.is_meta for one in made], session.is_enclave

    for held, is_enclave in tacit.run(main, parties=2, protocol="enclave"):
        assert all(held)
        assert not is_enclave


def test_the_enclave_alone_holds_numbers():
    held = {}

    def main(session):
        x = session.share(torch.ones(3), owner=1)
        held[session.rank] = x.value.share.tensor

    tacit.run(main, parties=2, protocol="enclave")
    assert held[0].is_meta
    assert held[1].is_meta
    assert held[2].tolist() == [1, 1, 1]


@pytest.mark.parametrize("enclaves", [1, 2])
def test_members_write_to_tensors_of_their_own(enclaves):
    """What one member writes to, after it was shared or revealed, is not what another one has."""

    def main(session):
        given = torch.ones(3)
        x = session.share(given, owner=0)
        given.zero_()
        opened = session.reveal(x)
        x.mul_(2)
        opened.add_(5)
        return opened, session.reveal(x)

    for opened, doubled in tacit.run(main, parties=2, protocol="enclave", enclaves=enclaves):
        assert opened.tolist() == [6, 6, 6]
        assert doubled.tolist() == [2, 2, 2]


def test_views_and_writes():
    def main(session):
        torch.manual_seed(0)
        plain = torch.rand(4, 5)
        x = session.share(plain, owner=0)
        for one in (x, plain):
            row = one[1]
            one.mul_(2)
            row.add_(1)
            one[:, 0] = 7.0
            one.t()[2].zero_()
        return session.reveal(x), plain, session.reveal(row if row is x else x[1]), plain[1]

    for found, wanted, row, wanted_row in tacit.run(main, parties=1, protocol="enclave"):
        assert torch.equal(found, wanted)
        assert torch.equal(row, wanted_row)


def test_dropout_is_public_randomness():
    def main(session):
        x = session.share(torch.ones(1000), owner=0)
        dropped = session.reveal(F.dropout(x, 0.25))
        after = torch.rand(3)  # all members have drawn as many numbers
        return dropped, session.reveal(session.share(after, owner=1)), after

    (dropped, drawn, after), (_, _, other) = tacit.run(main, parties=2, protocol="enclave")
    assert dropped.dtype == torch.float32
    assert set(dropped.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert torch.equal(drawn, after)
    assert torch.equal(other, after)


def test_attention():
    def main(session):
        torch.manual_seed(1)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        x = torch.rand(2, 5, 16)
        wanted = [copy.deepcopy(layer).train(mode)(x) for mode in (False, True)]
        model, secret = session.share(layer, owner=0), session.share(x, owner=1)
        with torch.no_grad():
            inferred = model.eval()(secret)
        return [session.reveal(y) for y in (inferred, model.train()(secret))], wanted

    for found, wanted in tacit.run(main, parties=2, protocol="enclave"):
        for got, want in zip(found, wanted, strict=True):
            assert (got - want).abs().max() < 1e-4


def test_what_would_tell_values_is_refused():
    def main(session):
        x = session.share(torch.rand(4), owner=0)
        for read in (lambda: x[x > 0.5], x.nonzero, lambda: x.masked_select(x > 0.5), x.unique):
            with pytest.raises(UnsupportedOp):
                read()
        with pytest.raises(Exception, match="reveal"):
            x.item()

    tacit.run(main, parties=1, protocol="enclave")


def test_an_index_that_is_no_row_reads_zeros():
    def main(session):
        table = session.share(torch.ones(3, 2), owner=0)
        rows = session.share(torch.tensor([0, 2, 3, 7]), owner=0)
        return session.reveal(F.embedding(rows, table))

    [found] = tacit.run(main, parties=1, protocol="enclave")
    assert found.tolist() == [[1, 1], [1, 1], [0, 0], [0, 0]]


def test_inputs_that_are_not_finite_are_refused():
    def main(session):
        session.share(torch.tensor([1.0, float("nan")]), owner=0)

    with pytest.raises(PartyFailed) as failed:
        tacit.run(main, parties=2, protocol="enclave")
    assert isinstance(failed.value.__cause__, RangeError)


def test_reveals_obey_the_policy():
    def main(session):
        x = session.share(torch.ones(2), owner=0)
        return session.reveal(x, to=1), [one.to for one in session.reveals]

    (mine, record), (other, _) = tacit.run(main, parties=2, protocol="enclave", reveals=[1])
    assert mine is None
    assert other.tolist() == [1, 1]
    assert record == [("party1",)]


def test_a_lying_worker_is_named(monkeypatch):
    honest = worker.serve

    def serve(mesh, device):
        if threading.current_thread().name.endswith("-1"):
            change_answers(mesh, lambda answer: answer + 1)
        honest(mesh, device)

    monkeypatch.setattr(worker, "serve", serve)
    with pytest.raises(PartyFailed) as failed:
        tacit.run(trained, parties=2, protocol="enclave")
    cause = failed.value.__cause__
    assert isinstance(cause, CheatingDetected)
    assert "worker 1" in str(cause)


@pytest.mark.parametrize(
    "settings",
    [
        {"outsourcing": "four-server"},
        {"precision": "double"},
        {"enclaves": 3},
        {"enclaves": 2, "outsourcing": "one-worker"},
        {"protocol": "trio", "outsourcing": "none"},
        {"dealer": "own"},
    ],
    ids=str,
)
def test_settings_that_do_not_exist(settings):
    with pytest.raises(ConfigError):
        tacit.run(trained, parties=3, **{"protocol": "enclave", **settings})


# torch's operators -------------------------------------------------------------------------------

LIMIT = 1 << 24
RECORD = json.loads(conformance.TABLE.read_text())
WITH_GRADIENTS = [name for name in CHOSEN if RECORD[name]["gradients"] == conformance.RIGHT]
samples_of = conformance.samples_of


@cache
def one_sample(name: str, **options: bool) -> list:
    return samples_of(conformance.database()[name], 1, **options)


def checked(check, names, monkeypatch, **settings) -> None:
    """Operators on one sample each: right, or refused as they are on shares."""
    by_info = {id(conformance.database()[name]): name for name in names}
    with conformance.torch_warnings_ignored():
        for name in names:  # here, and not by the members: making them draws random numbers
            one_sample(name, requires_grad=check is conformance.check_gradient)

    def same_for_all(op, _=1, requires_grad=False):
        return one_sample(by_info[id(op)], requires_grad=requires_grad)

    monkeypatch.setattr(conformance, "samples_of", same_for_all)
    enclave = {"protocol": "enclave", "outsourcing": "none", **settings}
    found = conformance.check_all(check, names, 1, **enclave)
    refused = {name for name, one in RECORD.items() if one["results"] == conformance.REFUSED}
    wrong = [note for one in found.values() if one.name not in refused for note in one.notes]
    assert not wrong, wrong


@pytest.mark.parametrize("part", range(11 if FULL else 1))
def test_operators_compute_as_torch(part, monkeypatch):
    checked(conformance.check_forward, CHOSEN[part::11], monkeypatch)


@pytest.mark.parametrize("part", range(11 if FULL else 1))
def test_gradients_are_those_of_torch(part, monkeypatch):
    checked(conformance.check_gradient, WITH_GRADIENTS[part::11], monkeypatch)


@pytest.mark.parametrize("part", range(11 if FULL else 1))
@pytest.mark.parametrize("check", [conformance.check_forward, conformance.check_gradient])
def test_operators_find_what_was_sealed(check, part, monkeypatch):
    """All tensors are sealed after every operation: one that is read unopened would be zeros."""
    seal_everything_always(monkeypatch)
    names = CHOSEN if check is conformance.check_forward else WITH_GRADIENTS
    checked(check, names[part + 5 :: 11], monkeypatch, memory_limit=LIMIT)
