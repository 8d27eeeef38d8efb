"""Runs in which the parties do not run the same program, and what a third party receives then."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Thread
from time import sleep
from typing import Any, NamedTuple

import torch
from tests.protocols import views
from tests.protocols.members import parties_of
from tests.protocols.ranges import Use, overlaps, watch
from torch import Tensor

import tacit
from tacit import Session, errors

N = 40
PROTOCOLS = ("trio", "replicated", "quad")
ZEROS = torch.zeros(N, dtype=torch.int64)
FLAGS = torch.zeros((1, 1), dtype=torch.int64)


class Sent(NamedTuple):
    """A message, and its receiver."""

    receiver: int
    tensor: Tensor


View = tuple[list[Use], list[Sent]]  # what a party drew, and what it sent


def speaking(session: Session) -> list[Sent]:
    """Lets a party send everything and wait for nothing; returns the list of what it sends.

    Where it would receive something, there are zeros: what it masks is then wrong, and known.
    """
    mesh: Any = session.mesh
    exchange, sent = mesh.exchange, []

    def speak(send: Any, receive: Any, **where: Any) -> dict[int, list[Tensor]]:
        sent.extend(Sent(peer, t.clone()) for peer, tensors in send.items() for t in tensors)
        exchange(send, {}, **where)
        return {
            peer: [torch.zeros(spec.shape, dtype=spec.dtype) for spec in specs]
            for peer, specs in receive.items()
        }

    mesh.exchange = speak
    return sent


# The secrets are zero, so that a message is its mask: two equal messages have one mask.
STEPS: dict[str, Callable[[Any], object]] = {
    **{f"share of {owner}": lambda p, o=owner: p.share(ZEROS, o) for owner in range(4)},
    **{f"bits of {owner}": lambda p, o=owner: p.share_bits(FLAGS, o, (N,)) for owner in range(4)},
    "mul": lambda p: p.mul(p.public(ZEROS), p.public(ZEROS)),
    "bit_and": lambda p: p.bit_and(p.pack(ZEROS), p.pack(ZEROS)),
    "truncate": lambda p: p.truncate(p.share(ZEROS, 1, limit=9).divided(1)),
    "sign": lambda p: p.sign(p.public(ZEROS + 1)),
    "relu": lambda p: p.relu(p.public(ZEROS + 1)),
    "inject": lambda p: p.inject(p.pack(ZEROS), p.public(ZEROS + 1)),
    "random": lambda p: p.random((N,)),
    "refresh": lambda p: p.refresh(p.public(ZEROS)),
}


def meet(session: Session, folder: str, found: View) -> None:
    """Leaves what was found in the folder, and waits until all parties did, without a message."""
    (Path(folder) / f"new {session.rank}").write_bytes(pickle.dumps(found))
    (Path(folder) / f"new {session.rank}").rename(Path(folder) / str(session.rank))
    session.mesh.interpreter.release()  # threads take turns, and this one computes nothing more
    while not all((Path(folder) / str(rank)).exists() for rank in range(session.parties)):
        sleep(1e-3)


def experiment(session: Session, seed: int, folder: str) -> None:
    """Runs this party's program of an experiment: other steps than those of the others."""
    choose = Random(f"{seed}")
    alone, first = choose.randrange(session.parties), choose.randrange(session.parties)
    possible = [step for step in STEPS if not step.endswith(f"of {session.parties}")]
    steps = [choose.choice(possible) for _ in range(4)]
    own = Random(f"{seed}, {session.rank}")
    uses, sent = watch(session), speaking(session)
    p = views.rotated(session, choose.randrange(3))
    if seed % 4 == 0:
        if session.rank == alone:  # the program of the audit
            p.share(ZEROS, alone)
    elif seed % 4 == 1:
        _in_a_second_thread(lambda: p.share(ZEROS, alone))
    else:
        steps = [own.choice(possible) for _ in range(4)]
    for step in (f"share of {first}", *steps):
        STEPS[step](p)
    meet(session, folder, (uses, sent))


def _in_a_second_thread(call: Callable[[], object]) -> None:
    """Makes a call while this thread does something else."""

    def act() -> None:
        with suppress(errors.ProtocolError):
            call()

    thread = Thread(target=act)
    thread.start()
    thread.join()


def two_time_pads(seeds: Iterable[int], **settings: Any) -> list[int]:
    """Returns the seeds of the experiments in which two messages have one mask."""
    found = []
    for seed in seeds:
        protocol = PROTOCOLS[seed // 4 % len(PROTOCOLS)]
        ranks = range(parties_of(protocol))
        with TemporaryDirectory() as folder:
            with suppress(errors.PartyFailed):  # the programs differ
                where = {"protocol": protocol, "parties": len(ranks), **settings}
                tacit.run(experiment, seed, folder, **where)
            by_party = [pickle.loads((Path(folder) / str(r)).read_bytes()) for r in ranks]
        hiding = [u for r, (uses, _) in enumerate(by_party) for u in uses if u.stream.sender == r]
        if overlaps(hiding) or any(words_met(by_party, receiver) for receiver in ranks):
            found.append(seed)
    return found


def words_met(by_party: list[View], receiver: int) -> bool:
    """Whether two words that a party receives are equal, or add up to zero: p < 1e-12 by chance."""
    messages = [m.tensor for _, sent in by_party for m in sent if m.receiver == receiver]
    if not messages:
        return False
    words = torch.cat([message.reshape(-1) for message in messages])
    return len(torch.cat([words, -words]).unique()) < 2 * len(words)
