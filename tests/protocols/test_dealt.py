"""What `additive` and `beaver` have in common: pooled views, a dealer that is no party, clients."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from tests.protocols import views
from tests.protocols.members import run_members
from tests.protocols.pads import bare_messages
from tests.protocols.views import EVERY, Message, Recorder

import tacit
from tacit import Session
from tacit.errors import ConfigError
from tacit.protocols.clients import join_output, split_input

PAIRS = list(combinations(range(3), 2))
DEALT = ["additive", "beaver"]
BOTH = ("share", "mul", "truncate", "random", "refresh")
CHEAP = {  # one operation of each kind
    "additive": (*BOTH, "narrow sign", "inject of a quotient"),
    "beaver": (*BOTH, "truncate, probabilistic", "inject"),
}


@pytest.mark.parametrize(("protocol", "name"), [(p, name) for p in DEALT for name in CHEAP[p]])
@pytest.mark.parametrize("pool", PAIRS)
def test_two_of_three_parties_learn_nothing_together(pool, protocol, name):
    assert not bare_messages(protocol, 64, name, receivers=[pool])


@pytest.mark.parametrize("protocol", DEALT)
def test_the_dealer_receives_nothing(protocol):
    """Of everything but a reveal to it, and it knows no opened value."""

    def main(session: Session) -> tuple[list[Message], bool]:
        found = views.views(session, list(EVERY), 5, 0, 128)
        p = session.protocol
        recorder = Recorder(session)
        opened = p.reveal(p.share(torch.arange(4), 1))
        return [*recorder.take(), *(m for got in found.values() for m in got)], opened is None

    *_, (messages, is_none) = run_members(main, protocol=protocol, fraction_bits=8)
    assert not messages
    assert is_none


@pytest.mark.parametrize("protocol", DEALT)
@pytest.mark.parametrize("parties", [2, 4])
def test_clients(parties, protocol):
    value = torch.tensor([0, 1, -1, 2**40])

    def main(session: Session, messages: list[object]) -> torch.Tensor | None:
        p = session.protocol
        return p.for_client(p.mul(p.from_client(messages[session.rank]), p.public(value * 0 + 3)))

    messages = split_input(value, protocol, parties)
    assert len(messages) == parties + 1
    assert messages[parties].masked is None
    assert bool(messages[parties].seeds) == (protocol == "additive")  # the masks, and no parts
    answers = tacit.run(main, messages, protocol=protocol, parties=parties)
    assert torch.equal(join_output(answers, protocol, parties), value * 3)
    with pytest.raises(ConfigError, match="party 0 and party 1"):
        join_output([None, *answers[1:]], protocol, parties)
