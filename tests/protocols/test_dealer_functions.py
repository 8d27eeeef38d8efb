"""Costs of the dealer's functions; they and derived operations leak nothing to a party."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.protocols.chosen_randomness import seeded_words
from tests.protocols.pads import unpadded
from tests.protocols.views import Message, Recorder, rotated
from torch import Tensor

import tacit
from tacit import Session
from tacit.protocols.cost import Cost

SERIES = [0.75, 0.125, -0.0625]
Operation = Callable[[Any, Any], object]
DEALT: dict[str, Operation] = {
    "fourier": lambda p, x: p.fourier(x, SERIES, period_bits=12, fraction_bits=8),
    "exp_negative": lambda p, x: p.exp_negative(x, fraction_bits=8),
    "saturated": lambda p, x: p.saturated(
        x, SERIES, period_bits=8, fraction_bits=8, tails=(-256, 256)
    ),
}
DERIVED: dict[str, Operation] = {
    "max": lambda p, x: p.max_with_index(x.reshape(-1, 4), radix=4),
    "one hot": lambda p, x: p.one_hot_argmax(x.reshape(-1, 4)),
    "select": lambda p, x: p.select(
        p.less_public(x, 3), p.mul(x, x, shift=4), p.mul(x, x.scaled(3), shift=4)
    ),
}


@pytest.mark.parametrize("ring", [32, 64])
@pytest.mark.parametrize("truncation", ["exact", "probabilistic"])
def test_costs(ring, truncation):
    """Bits by link, and rounds, in every rotation of the roles."""

    def main(session: Session) -> list[tuple[Cost, Cost]]:
        found = []
        for turn in range(3):
            p = rotated(session, turn)
            x = p.share(torch.zeros(65, dtype=p.ring.dtype), 0, limit=1 << 9)
            declared = [p.costs.fourier(65, len(SERIES)), p.costs.exp_negative(65, 8, p.exact)]
            if not p.exact:
                declared = [cost.then(p.costs.truncate(65, 9, exact=False)) for cost in declared]
            declared.append(p.costs.saturated(65, len(SERIES), 6, 1 << 9))
            for cost, operation in zip(declared, DEALT.values(), strict=True):
                with session.stats.scope("one") as spent:
                    operation(p, x)
                bits = {
                    (session.rank, peer, ahead): 8 * sent
                    for peer, one in spent.peers.items()
                    for ahead, sent in [
                        (True, one.bytes_sent_ahead),
                        (False, one.bytes_sent - one.bytes_sent_ahead),
                    ]
                    if sent
                }
                found.append((Cost(spent.rounds, bits), cost))
        return found

    by_party = tacit.run(main, ring=ring, fraction_bits=8, truncation=truncation)
    for views in zip(*by_party, strict=True):
        declared = views[0][1]
        assert max(counted.rounds for counted, _ in views) == declared.rounds
        sent = {link: n for counted, _ in views for link, n in counted.bits.items()}
        assert sent == dict(declared.bits)


def messages(session: Session, name: str, turn: int) -> list[Message]:
    p = rotated(session, turn)
    words: Tensor = seeded_words("values", (128,), p.ring.dtype)
    recorder = Recorder(session)
    x = p.share(words >> (p.ring.bits - 10), 1, limit=1 << 10)
    (DEALT | DERIVED)[name](p, x)
    return recorder.take()


@pytest.mark.parametrize("ring", [32, 64])
@pytest.mark.parametrize("name", DEALT)
def test_what_the_dealer_sends_is_padded(name, ring):
    for receiver in range(3):
        turn = (receiver + ring) % 3
        assert not unpadded(messages, receiver, name, turn, ring=ring, fraction_bits=8)


@pytest.mark.parametrize("name", DERIVED)
def test_operations_in_shared_rounds_are_padded(name):
    for receiver in range(3):
        assert not unpadded(messages, receiver, name, receiver % 2)
