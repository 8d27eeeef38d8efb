"""A cheating party of `quad` that hides what it does, and whether the others notice it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from tests.protocols.quad_programs import PROGRAMS, expected, is_right
from torch import Tensor

from tacit import Session
from tacit.errors import CheatingDetected, ConfigError, Error, ProtocolError, TransportError
from tacit.protocols.quad.views import DIGEST, VERDICT
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

PARTIES = range(4)
SETTINGS = {"protocol": "quad", "fraction_bits": 8}
SHORT = 0.5  # seconds; the deadline of runs in which a message may be missing


def hidden(session: Session) -> None:
    """Lets a party tell each other party in every comparison exactly what that one wants to hear.

    It waits for the others' digests before it answers, says that it found no difference, and does
    not end the run if it is told of one.
    """
    mesh: Any = session.mesh
    exchange = mesh.exchange

    def answering(send: Any, receive: Any, **where: Any) -> dict[int, list[Tensor]]:
        forms = [list(specs) for specs in receive.values()]
        if forms == [[DIGEST]] * 3:
            heard = exchange({}, receive, **where)
            exchange({peer: heard[peer] for peer in send}, {}, **where)
            return dict(send)
        if forms == [[VERDICT]] * 3:
            equal = {peer: [torch.zeros(1, dtype=torch.int64)] for peer in send}
            exchange(equal, receive, **where)
            return equal
        return exchange(send, receive, **where)

    mesh.exchange = answering


class Attack(NamedTuple):
    """A manipulation of a message of a program, by name."""

    program: str
    ring: int
    sent: Sent
    how: Manipulation


@cache
def messages(program: str, ring: int) -> list[Sent]:
    return messages_of(PROGRAMS[program], ring=ring, **SETTINGS)


def attacks(program: str, ring: int, kinds: Sequence[str] = (*WORDS, *DELIVERY)) -> list[Attack]:
    """Everything of these kinds that can be done with any message of a program."""
    found = messages(program, ring)
    return [
        Attack(program, ring, sent, how) for sent in found for how in manipulations_of(sent, kinds)
    ]


def of_the_operation(program: str, ring: int) -> list[Attack]:
    """The attacks on messages of neither inputs nor reveals."""
    around = {"reveal", "verify"} | ({"share", "share_bits"} - {program})
    return [one for one in attacks(program, ring) if one.sent.operation not in around]


class Reveals:
    """Where a program compares all views, by the steps of its messages, and opens something.

    All parties send all others a digest, then a verdict; in a reveal, one more round follows.
    """

    def __init__(self, found: Sequence[Sent]) -> None:
        self._found = found
        shapes: dict[int, list[Any]] = {}
        for one in found:
            shapes.setdefault(one.step, []).append(one.shapes)
        every = {step for step, sent in shapes.items() if sent == [((4,),)] * 12}
        self._digests = {step for step in every if shapes.get(step + 1) == [((1,),)] * 12}
        self._opens = {step + 2 for step in self._digests if step + 2 in shapes}

    def before(self, sent: Sent) -> int:
        """How many comparisons are complete when a message is sent."""
        own = {o.step for o in self._found if o.party == sent.party and o.number < sent.number}
        started = own & self._digests
        return len(started - {sent.step, sent.step - 1, sent.step - 2})

    def rounds_left(self, sent: Sent) -> int | None:
        """0 in the last round of a reveal, 1 in that of verdicts, 2 in that of digests.

        Without an opening, the verdicts are last.
        """
        if sent.step in self._opens:
            return 0
        if sent.step - 1 in self._digests:
            return int(sent.step + 1 in self._opens)
        return 2 if sent.step in self._digests else None


def attacked(attack: Attack, **settings: Any) -> list[Ending]:
    """Runs the program with the attack, by a party that hides it."""
    corruption = Corruption(attack.sent.party, (attack.how,), hidden)
    limits = {"deadline": SHORT} if attack.how.kind in DELIVERY else {}
    settings = {"ring": attack.ring, **SETTINGS, **limits, **settings}
    return run_corrupted(PROGRAMS[attack.program], corruption, **settings)


def fault(attack: Attack, endings: Sequence[Ending]) -> str | None:
    """What is wrong with the endings of an attacked run: None if the honest parties are safe."""
    program, ring, sent, _ = attack
    plain = expected(program, ring)
    honest = {rank: e for rank, e in enumerate(endings) if rank != sent.party}
    where = Reveals(messages(program, ring))
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
        if (opened or not noticed) and not _may_be_late(attack, where, rank, opened=opened):
            return f"party {rank} " + ("opened values" if opened else "noticed nothing")
    return None


def _errors(attack: Attack) -> tuple[type[Error], ...]:
    """What the honest parties may raise: for changed words of a secret, one error only."""
    is_text = any(tensor.dtype == torch.uint8 for tensor in attack.sent.words)
    if attack.how.kind in WORDS and not is_text:
        return (CheatingDetected,)
    return TransportError, ProtocolError, ConfigError


def _may_be_late(attack: Attack, where: Reveals, rank: int, *, opened: bool) -> bool:
    """Whether a party cannot be stopped any more, because the message is one of the last.

    In the round that opens, a wrong part or hash is noticed by its receiver alone. A party that is
    told of a difference which there is not ends the run; whoever opens nothing may be done.
    """
    sent, kind = attack.sent, attack.how.kind
    left = where.rounds_left(sent)
    if left == 0:
        return rank != sent.peer or kind == REPEATED
    return left == 1 and (kind == REPEATED or (rank != sent.peer and not opened))


def faults(chosen: Sequence[Attack], **settings: Any) -> list[str]:
    """What is wrong, for each attack that is not noticed as it has to be."""
    found = []
    for attack in chosen:
        if text := fault(attack, attacked(attack, **settings)):
            found.append(
                f"{attack.program}, ring {attack.ring}: {attack.how} of {attack.sent}: {text}"
            )
    return found
