"""Integer and bool buffers of a shared module: what stays public, and what never leaves."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import Tensor, nn

import tacit
from tacit.errors import ConfigError, PartyFailed, RevealForbidden
from tacit.nn import load, save
from tacit.tensor import SecretTensor

X = torch.tensor([[1.0, -2.0, 0.5, 3.0]])


class Quantised(nn.Module):
    """A layer whose weights are bytes and one scale; with a mask and an order that are public."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        weight = torch.randint(-128, 128, (4, 3), generator=generator, dtype=torch.int8)
        self.register_buffer("weight", weight)
        self.register_buffer("kept", torch.rand(3, generator=generator) < 0.5)
        self.register_buffer("scale", torch.tensor(1 / 32))
        self.register_buffer("order", torch.tensor([2, 0, 1]))
        self.register_buffer("causal", torch.ones(3, 3).tril().bool())

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.to(torch.float32) * self.scale
        return torch.where(self.kept, x @ weight, 0.0)[:, self.order]


class Watched:
    """Everything that a party sends from now on."""

    def __init__(self, session):
        self.tensors, self.texts, mesh = [], [], session.mesh
        exchange, exchange_bytes = mesh.exchange, mesh.exchange_bytes

        def sending(send, receive, **options):
            self.tensors += [one.clone() for tensors in send.values() for one in tensors]
            return exchange(send, receive, **options)

        def sending_bytes(send, receive, **options):
            self.texts += send.values()
            return exchange_bytes(send, receive, **options)

        mesh.exchange, mesh.exchange_bytes = sending, sending_bytes

    def holds(self, values: Tensor) -> bool:
        wanted = values.flatten().to(torch.int64)
        sent = [one.flatten().to(torch.int64) for one in self.tensors]
        return any(
            torch.equal(one[i : i + len(wanted)], wanted) for one in sent for i in range(len(one))
        )


@pytest.mark.parametrize("owner", [0, 1])
@pytest.mark.parametrize("protocol", ["trio", "replicated"])
def test_bytes_of_quantised_weights_stay_secret(owner, protocol):
    want = Quantised(seed=9)

    def main(session):
        watched = Watched(session)
        model = session.share(Quantised(seed=9 if session.rank == owner else 0), owner=owner)
        assert isinstance(model.weight, SecretTensor)
        assert isinstance(model.kept, SecretTensor)
        assert not isinstance(model.order, SecretTensor)  # the same at all parties
        assert not isinstance(model.causal, SecretTensor)
        assert not watched.holds(want.weight)
        digests = [text for text in watched.texts if len(text) == 4 * 32]
        assert len(digests) == (session.rank != owner)
        assert session.reveals == []
        return session.reveal(model(session.share(X, owner=2)))

    for got in tacit.run(main, protocol=protocol):
        torch.testing.assert_close(got, want(X), atol=1e-2, rtol=0)


def test_named_buffers_are_revealed_and_recorded():
    want = Quantised(seed=9)

    def main(session):
        own = Quantised(seed=9 if session.rank == 1 else 0)
        model = session.share(own, owner=1, public=["weight", "order"])
        assert isinstance(model.kept, SecretTensor)
        return model.weight, session.reveals

    for weight, [revealed] in tacit.run(main):
        assert torch.equal(weight, want.weight)
        assert (revealed.shape, revealed.dtype) == ((4, 3), "int8")
        assert revealed.to == ("party0", "party1", "party2")
        assert "test_integer_buffers.py" in revealed.where


def test_the_policy_decides_about_named_buffers():
    def main(session):
        with pytest.raises(RevealForbidden):
            session.share(Quantised(seed=session.rank), owner=1, public=["weight"])
        assert session.reveals == []
        return True

    assert tacit.run(main, reveals=[1]) == [True] * 3


def test_counters_are_known_and_obey_the_policy():
    def main(session):
        model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
        model[1].num_batches_tracked.fill_(5 if session.rank == 0 else 0)
        model = session.share(model, owner=0)
        recorded = len(session.reveals)
        model(session.share(torch.randn(6, 4), owner=2)).sum().backward()
        return recorded, model[1].num_batches_tracked

    for recorded, counted in tacit.run(main):
        assert recorded == 1
        assert counted == 6
    for recorded, counted in tacit.run(main, reveals=[2]):
        assert recorded == 0
        assert isinstance(counted, SecretTensor)


def test_names_of_public_buffers_are_checked():
    def main(session):
        for public in (["wieght"], ["scale"], "weight"):
            with pytest.raises(ConfigError, match="public="):
                session.share(Quantised(), owner=0, public=public)

    tacit.run(main, parties=1, protocol="cleartext")


def test_all_parties_name_the_same_buffers():
    def main(session):
        session.share(Quantised(), owner=0, public=["weight"] if session.rank == 2 else [])

    with pytest.raises(PartyFailed, match="the parties differ in public=") as caught:
        tacit.run(main)
    assert "'weight' at party 2" in str(caught.value)


def test_parties_without_values_get_secrets_and_the_owner_a_warning(caplog):
    def main(session):
        with torch.device("cpu" if session.rank == 0 else "meta"):
            model = nn.Module()
            model.register_buffer("order", torch.tensor([2, 0, 1]))
        return session.reveal(session.share(model, owner=0)).order

    with caplog.at_level(logging.WARNING, logger="tacit"):
        found = tacit.run(main)
    assert [order.tolist() for order in found] == [[2, 0, 1]] * 3
    assert [one.getMessage() for one in caplog.records if "public=" in one.getMessage()] == [
        "share: secret, as not all parties hold the same: order (see public=)"
    ]


def test_secret_integers_are_saved_and_loaded(tmp_path):
    def main(session):
        key = bytes([session.rank]) * 32
        model = session.share(Quantised(seed=session.rank), owner=1)
        save(session, tmp_path, model, key=key)
        other = session.share(Quantised(seed=4 + session.rank), owner=2)
        load(session, tmp_path, other, key=key)
        return session.reveal(other)

    for plain in tacit.run(main):
        assert torch.equal(plain.weight, Quantised(seed=1).weight)
        assert torch.equal(plain.kept, Quantised(seed=1).kept)
