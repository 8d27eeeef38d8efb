"""Parties on GPUs: alone, beside parties on CPUs, as processes, in pieces. Needs a GPU."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tacit
from tacit.transport import Spec

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")


def network() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(8 * 16, 5))


MODEL = network()  # made once: parties that are threads share torch's generator
X = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(1))
Y = F.one_hot(torch.arange(6) % 5, 5).float()


def infer(session: tacit.Session) -> tuple[torch.Tensor, str, int]:
    model = session.share(copy.deepcopy(MODEL).eval(), owner=0)
    x = session.share(X, owner=1)
    assert x.device.type == "cpu"
    with session.stats.scope("run") as cost:
        scores = model(x)
    return session.reveal(scores), session.device.type, cost.rounds


def train(session: tacit.Session) -> dict[str, torch.Tensor]:
    model = session.share(copy.deepcopy(MODEL), owner=0)
    x, y = session.share(X, owner=1), session.share(Y, owner=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return dict(session.reveal(model).state_dict())


def plain_training() -> dict[str, torch.Tensor]:
    model = copy.deepcopy(MODEL).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(X), Y).backward()
        optimizer.step()
    return dict(model.state_dict())


PLACES = {
    "all": {"device": "cuda"},
    "one of three": {"device": ["cuda", "cpu", "cpu"]},
    "two of three": {"device": ["cpu", "cuda", "cuda"]},
    "products only": {"device": "cuda", "placement": "linear"},
    "in pieces": {"device": "cuda", "memory_limit": 1 << 20},
    "replicated": {"device": "cuda", "protocol": "replicated"},
    "32 bits": {"device": "cuda", "ring": 32, "fraction_bits": 8},
}


@pytest.mark.parametrize("place", PLACES)
def test_inference(place):
    settings = PLACES[place]
    want = MODEL.eval()(X)
    for rank, (scores, where, _) in enumerate(tacit.run(infer, **settings)):
        bits = settings.get("fraction_bits", 16)
        torch.testing.assert_close(scores, want, atol=2.0 ** (5 - bits), rtol=0)
        given = settings["device"] if settings.get("placement") != "linear" else "cpu"
        assert where == (given if isinstance(given, str) else given[rank])


@pytest.mark.parametrize("place", ["all", "one of three", "products only"])
def test_training(place):
    [found, *_] = tacit.run(train, **PLACES[place])
    for name, want in plain_training().items():
        torch.testing.assert_close(found[name], want, atol=5e-3, rtol=0)


def test_processes_over_tls():
    want = MODEL.eval()(X)
    for device in ("cuda", ["cuda", "cpu", "cuda"]):
        for scores, _, _ in tacit.run(infer, transport="processes", device=device, deadline=120.0):
            torch.testing.assert_close(scores, want, atol=2.0**-11, rtol=0)


def test_rounds_are_those_of_the_cpu():
    assert [r[2] for r in tacit.run(infer, device="cuda")] == [r[2] for r in tacit.run(infer)]


def test_a_gpu_that_is_not_there():
    with pytest.raises(tacit.errors.ConfigError, match="this machine has"):
        tacit.run(infer, device="cuda:99")


def send_large(session: tacit.Session) -> bool:
    """A message of 80 MB, which leaves in parts, and whose memory is written to at once."""
    after, before = (session.rank + 1) % 3, (session.rank - 1) % 3
    for turn in range(3):
        x = torch.arange(10_000_001, device=session.device) * (session.rank + turn)
        spec = Spec(tuple(x.shape), x.dtype)
        opened = session.mesh.begin({after: [x]}, {before: [spec]})
        if x.is_cuda:  # the host's memory is sent as it lies
            x.zero_()
        got = session.mesh.finish(opened)[before][0]
        assert got.device.type == session.device.type
        assert got.equal(torch.arange(10_000_001, device=got.device) * (before + turn))
    return True


@pytest.mark.parametrize("stripes", [1, 4])
def test_large_messages_are_copied_while_they_are_sent(stripes: int) -> None:
    found = tacit.run(
        send_large, device=["cuda", "cuda", "cpu"], transport="processes", stripes=stripes
    )
    assert found == [True] * 3
