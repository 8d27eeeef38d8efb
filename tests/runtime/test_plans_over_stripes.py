"""Replays whose messages go over stripes, in the caches of the threads that send them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tacit
from tacit.runtime.replay.plan import Begin, Exchange
from tacit.transport.wire.openssl_session import load_openssl
from tacit.transport.wire.stripes import StripedTensors

CALLS = 6


def network() -> nn.Module:
    torch.manual_seed(5)
    layers = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(16 * 256, 4)).eval()


def pictures() -> torch.Tensor:
    return torch.rand(CALLS, 4, 3, 32, 32, generator=torch.Generator().manual_seed(6)) - 0.5


def inferred(session: tacit.Session) -> tuple[list[torch.Tensor], int]:
    """The scores of all calls, and how many messages of a replay go over stripes."""
    model = session.share(network(), owner=0)
    infer = session.repeated(lambda x: model(x).detach())
    scores = [session.reveal(infer(session.share(x, owner=1))) for x in pictures()]
    [recording] = [made for one in infer._specializations for made in one.recordings]
    assert recording.summary().num_replays == CALLS - 3
    steps = (one.exchange if isinstance(one, Begin) else one for one in recording.plan.steps)
    rounds = [one._fixed_round for one in steps if isinstance(one, Exchange)]
    parts = [part for one in rounds if one for part in (*one.outgoing, *one.incoming)]
    return scores, sum(isinstance(part.message, StripedTensors) for part in parts)


@pytest.mark.skipif(load_openssl() is None, reason="the interpreter contains OpenSSL")
def test_replays_over_stripes_are_right_with_every_input() -> None:
    found = tacit.run(inferred, transport="processes", stripes=3)
    assert sum(count for _, count in found) > 0
    for scores, _ in found:
        for x, one in zip(pictures(), scores, strict=True):
            torch.testing.assert_close(one, network()(x).detach(), atol=2e-3, rtol=0)
