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
    """Where a program opens something, or goes on after a comparison of all views."""

    def __init__(self, found: Sequence[Sent]) -> None:
        self._found = [one for one in found if one.operation in ("reveal", "verify")]
        self._last = dict.fromkeys(map(_call, self._found), 0)
        for one in self._found:
            self._last[_call(one)] = max(self._last[_call(one)], one.step)

    def before(self, sent: Sent) -> int:
        """How many reveals are complete when a message is sent."""
        own = [one for one in self._found if one.party == sent.party and one.number < sent.number]
        return len({_call(one) for one in own} - {_call(sent)})

    def rounds_left(self, sent: Sent) -> int | None:
        """Of a reveal: 0 in the round that opens, 1 in that of verdicts; None outside of it.

        Without an opening, the verdicts are last.
        """
        if sent.operation not in ("reveal", "verify"):
            return None
        left = self._last[_call(sent)] - sent.step
        return left + 1 if left and sent.operation == "verify" else left


def _call(sent: Sent) -> int:
    return sent.step >> 16


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
