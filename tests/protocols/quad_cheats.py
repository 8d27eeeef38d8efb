"""A cheating party that hides what it does, and whether the others notice it: `quad` and others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from tests.protocols.dealt_keys import dealt_keys
from tests.protocols.quad_programs import PROGRAMS, expected, is_right
from torch import Tensor

from tacit import Session
from tacit.errors import CheatingDetected, ConfigError, Error, ProtocolError, TransportError
from tacit.protocols.quad.verification import PRIME, TOTAL, _as_message, _number
from tacit.registry import PROTOCOLS
from tacit.testing import (
    DELIVERY,
    WORDS,
    Corruption,
    Ending,
    Manipulation,
    Sent,
    manipulations_of,
    messages_of,
    run_corrupted,
)
from tacit.testing.manipulations import REPEATED

Deviation = Callable[[Session], None]
PARTIES = range(4)
SETTINGS = {"protocol": "quad", "fraction_bits": 8}
SHORT = 0.5  # seconds; the deadline of runs in which a message may be missing


def hidden(session: Session) -> None:
    """Lets a party go on as if nothing had happened if a comparison of views fails."""
    conceal(session.protocol)


def conceal(protocol: Any) -> None:
    """Makes a protocol object find all views equal."""
    protocol.views.agree = lambda _total, _operation: True


def compares_views(session: Session, receive: Any) -> bool:
    """Whether what a party is to receive in a round are the numbers of a comparison of views."""
    others = session.parties - 1
    return [list(specs) for specs in receive.values()] == [[TOTAL]] * others


def answering_last(session: Session) -> None:
    """Lets a party hear the others in a comparison before it answers, with minus their sum."""
    hidden(session)
    mesh: Any = session.mesh
    exchange = mesh.exchange

    def answering(send: Any, receive: Any, **where: Any) -> dict[int, list[Tensor]]:
        if not compares_views(session, receive):
            return exchange(send, receive, **where)
        heard = exchange({}, receive, **where)
        total = sum(_number(tensors[0]) for tensors in heard.values())
        answer = _as_message((-total % PRIME).to_bytes(32, "little"))
        exchange({peer: [answer] for peer in send}, {}, **where)
        return heard

    mesh.exchange = answering


class Attack(NamedTuple):
    """A manipulation of a message of a program, by name."""

    program: str
    ring: int
    sent: Sent
    how: Manipulation
    protocol: str = "quad"

    @property
    def parties(self) -> int:
        return PROTOCOLS[self.protocol].default_parties


@cache
def messages(program: str, ring: int, protocol: str = "quad") -> list[Sent]:
    return messages_of(PROGRAMS[program], ring=ring, **SETTINGS | {"protocol": protocol})


def attacks(
    program: str,
    ring: int,
    kinds: Sequence[str] = (*WORDS, *DELIVERY),
    *,
    protocol: str = "quad",
) -> list[Attack]:
    """Everything of these kinds that can be done with any message of a program."""
    found = messages(program, ring, protocol)
    return [
        Attack(program, ring, sent, how, protocol)
        for sent in found
        for how in manipulations_of(sent, kinds)
    ]


def of_the_operation(program: str, ring: int, *, protocol: str = "quad") -> list[Attack]:
    """The attacks on messages of neither inputs nor reveals."""
    around = {"reveal", "verify"} | ({"share", "share_bits"} - {program})
    found = attacks(program, ring, protocol=protocol)
    return [one for one in found if one.sent.operation not in around]


class Reveals:
    """Where a program compares all views, by the steps of its messages, and opens something.

    All parties send all others a number; in a reveal, one more round follows.
    """

    def __init__(self, found: Sequence[Sent], parties: int = 4) -> None:
        self._found = found
        every = parties * (parties - 1)
        shapes: dict[int, list[Any]] = {}
        for one in found:
            shapes.setdefault(one.step, []).append(one.shapes)
        self._compares = {step for step, sent in shapes.items() if sent == [((4,),)] * every}
        self._opens = {step + 1 for step in self._compares if step + 1 in shapes}

    def before(self, sent: Sent) -> int:
        """How many reveals are complete when a message is sent."""
        own = {o.step for o in self._found if o.party == sent.party and o.number < sent.number}
        return len((own - {sent.step, sent.step - 1}) & {step - 1 for step in self._opens})

    def compares(self, sent: Sent) -> bool:
        """Whether a message is of a comparison."""
        return sent.step in self._compares

    def is_last(self, sent: Sent) -> bool:
        """Whether a message is of a round that opens, or of a comparison at the end of a run."""
        return sent.step in self._opens or sent.step == max(self._compares)


@cache
def reveals_of(program: str, ring: int, protocol: str) -> Reveals:
    """Where a program opens something."""
    parties = PROTOCOLS[protocol].default_parties
    return Reveals(messages(program, ring, protocol), parties)


def forget_messages() -> None:
    """Lets programs be run anew to know their messages: other ones are sent from now on."""
    messages.cache_clear()
    reveals_of.cache_clear()


def attacked(attack: Attack, deviation: Deviation = hidden, **settings: Any) -> list[Ending]:
    """Runs the program with the attack, by a party that hides it."""
    corruption = Corruption(attack.sent.party, (attack.how,), deviation)
    limits = {"deadline": SHORT} if attack.how.kind in DELIVERY else {}
    settings = {"ring": attack.ring, **SETTINGS, "protocol": attack.protocol, **limits, **settings}
    with dealt_keys():
        return run_corrupted(PROGRAMS[attack.program], corruption, **settings)


def fault(attack: Attack, endings: Sequence[Ending]) -> str | None:
    """What is wrong with the endings of an attacked run: None if the honest parties are safe."""
    program, ring, sent, _, protocol = attack
    plain = expected(program, ring, attack.parties)
    honest = {rank: e for rank, e in enumerate(endings) if rank != sent.party}
    where = reveals_of(program, ring, protocol)
    for rank, ending in honest.items():
        if not all(map(is_right, ending.opened, plain[rank])):
            return f"party {rank} opened wrong values"
    if not endings[sent.party].changed:
        complete = all(e.error is None and len(e.opened) == len(plain[0]) for e in honest.values())
        return None if complete else "an honest run ended with an error"
    return _unnoticed(attack, honest, where)


def _unnoticed(attack: Attack, honest: dict[int, Ending], where: Reveals) -> str | None:
    before, allowed = where.before(attack.sent), _errors(attack)
    for rank, ending in honest.items():
        noticed = ending.error is not None
        if ending.error is not None and not issubclass(ending.error, allowed):
            return f"party {rank} raised {ending.error.__name__}"
        opened = any(value is not None for value in ending.opened[before:])
        if (opened or not noticed) and not _may_be_late(attack, where, rank):
            return f"party {rank} " + ("opened values" if opened else "noticed nothing")
    return None


def _errors(attack: Attack) -> tuple[type[Error], ...]:
    """What the honest parties may raise: for changed words of a secret, one error only."""
    is_text = any(tensor.dtype == torch.uint8 for tensor in attack.sent.words)
    if attack.how.kind in WORDS and not is_text:
        return (CheatingDetected,)
    return TransportError, ProtocolError, ConfigError


def _may_be_late(attack: Attack, where: Reveals, rank: int) -> bool:
    """Whether a party cannot be stopped any more, because the message is one of the last.

    A part or a hash that is wrong is noticed by its receiver, as is a wrong number in a comparison;
    a message that comes twice, in the round after it.
    """
    sent = attack.sent
    if attack.how.kind == REPEATED:
        return where.is_last(sent) or where.compares(sent)
    return where.is_last(sent) and rank != sent.peer


def faults(chosen: Sequence[Attack], deviation: Deviation = hidden, **settings: Any) -> list[str]:
    """What is wrong, for each attack that is not noticed as it has to be."""
    found = []
    for attack in chosen:
        if text := fault(attack, attacked(attack, deviation, **settings)):
            found.append(
                f"{attack.program}, ring {attack.ring}: {attack.how} of {attack.sent}: {text}"
            )
    return found
