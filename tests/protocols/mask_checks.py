"""The checks of the security tests, each as a question that a fault answers with yes."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import cache, partial
from threading import Thread

import torch
from tests.crypto.board import Board, flip
from tests.protocols import views
from tests.protocols.halved import halved
from tests.protocols.out_of_step import two_time_pads
from tests.protocols.pads import bare_messages
from tests.protocols.ranges import Use, differences, hidden_twice, overlaps, watch
from torch import Tensor

import tacit
from tacit import Session
from tacit.crypto import Key, KeyRing, agree_keys
from tacit.errors import CheatingDetected, PeerClosed, ProtocolError
from tacit.protocols.clients import split_input
from tacit.protocols.randomness import CallRandomness, KeyStreams, common_stream

Check = Callable[[], bool]


@cache
def bare(protocol: str, name: str, cut: int | None = None) -> Check:
    """Whether a message of an operation has no mask of its own. `cut`: the limit of memory."""
    each = partial(bare_messages, protocol, 64, name, limit=cut)
    return lambda: any(each(receivers=(receiver,)) for receiver in (2, 1, 0))


def bare_large_relu() -> bool:
    with halved():
        return bool(bare_messages("trio", 64, "relu"))


def drawn(session: Session, name: str, cut: int | None) -> list[Use]:
    """What a party draws while it runs an operation twice."""
    session.protocol.context.memory_limit = cut
    uses = watch(session)
    for _ in range(2):
        views.EVERY[name](session.protocol, torch.arange(-50, 54))
    return uses


@cache
def overlapping(name: str, cut: int | None = None) -> Check:
    """Whether words are drawn twice, hide two messages, or differ between holders."""

    def check() -> bool:
        found = tacit.run(drawn, name, cut, fraction_bits=8)
        return bool(hidden_twice(found) or differences(found) or any(map(overlaps, found)))

    return check


def meets_out_of_step() -> bool:
    return bool(two_time_pads(range(12)))


def changes(session: Session) -> dict[int, Tensor]:
    """By how much a refresh changes each part of a secret."""
    p = session.protocol
    x = p.share(torch.arange(64), 0)
    refreshed = p.refresh(x)
    return {i: refreshed.parts[i] - part for i, part in x.parts.items()}


def refresh_is_partial() -> bool:
    """Whether the changes of two parts of a secret depend on each other."""
    found = {i: change for one in tacit.run(changes) for i, change in one.items()}
    one, two, three = (found[i] for i in range(3))
    pairs = [(one, two), (one, three), (two, three)]
    return any(bool((a == b).any() or (a == 0).any() or (a == -b).any()) for a, b in pairs)


def client_seeds_repeat() -> bool:
    """Whether two parts, of one input of a client or of two, come from one seed."""
    inputs = [split_input(torch.arange(4)) for _ in range(2)]
    seeds = [seed for one in inputs for seed in {**one[1].seeds, **one[2].seeds}.values()]
    return len(set(seeds)) < 4


def served(session: Session) -> bool:
    """Whether a second thread can make a call."""
    found = []

    def act() -> None:
        try:
            session.protocol.random((4,))
        except ProtocolError:
            return
        found.append(True)

    thread = Thread(target=act)
    thread.start()
    thread.join()
    return bool(found)


def second_thread_is_served() -> bool:
    return any(tacit.run(served))


def renewed_keys_repeat() -> bool:
    """Whether two repetitions of a recorded call draw the same words."""
    source = KeyStreams(KeyRing(0, {(0, 1): Key(secrets.token_bytes(32), (0, 1))}), "chacha20")
    draw = partial(_draw_of, source)
    draw()
    keys, found = source.blank_keys(), []
    for number in (8, 9):
        source.renew(keys, number)
        with source.using(keys):
            found.append(draw())
    return bool((found[0] == found[1]).any())


def _draw_of(source: KeyStreams) -> Tensor:
    return CallRandomness(source, 7).draw(common_stream("test", 0, 1), [64], torch.int64)


def wiped_keys_draw() -> bool:
    """Whether words can be drawn after a session, from keys that are zeros then."""
    ring = KeyRing(0, {(0, 1): Key(secrets.token_bytes(32), (0, 1))})
    source = KeyStreams(ring)
    _draw_of(source)
    source.wipe()
    ring.wipe()
    try:
        _draw_of(source)
    except PeerClosed:
        return False
    return True


def contribution_can_change() -> bool:
    """Whether a party can show another contribution to a key than it committed to."""

    def tamper(round_: int, sender: int, _receiver: int, message: bytes) -> bytes:
        return flip(message, 95) if (round_, sender) == (1, 2) else message

    found = Board(3, tamper).run(partial(agree_keys, session=b"mutants"))
    return not all(isinstance(result, CheatingDetected) for result in found[:2])
