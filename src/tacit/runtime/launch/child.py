"""The process of one party: it listens, meets the others, runs the program and reports."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import asdict, dataclass, replace
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, NamedTuple

from ...config import Config
from ...crypto import create_credentials
from ...transport import Hello, Identity, Limits, Mesh, Network, connect, listen, memory_meshes
from ..placement import Place
from .outcome import Failure, attempt
from .pickled import pack, unpack
from .program import Program, compare_settings

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Order:
    """What the caller asks of one party."""

    rank: int
    parties: int
    place: Place
    session_id: bytes
    config: Config
    limits: Limits
    network: Network
    program: bytes


class Card(NamedTuple):
    """Where a party listens and how the others recognise it."""

    address: tuple[str, int]
    certificate: bytes


def serve_party(link: Connection, order: Order) -> None:
    """Runs one party and reports its outcome over `link`; the exit code is 1 after a failure."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller gets it too, and ends this process
    Thread(target=_end_with_parent, daemon=True).start()
    outcome = attempt(order.rank, lambda: pack(_play(link, order), "the return value of main"))
    if isinstance(outcome, Failure):
        outcome = replace(outcome, raised=None)
    sys.stdout.flush()  # the caller may end this process as soon as it has the outcome
    link.send_bytes(pack(outcome, "an outcome"))
    sys.exit(isinstance(outcome, Failure))


def _play(link: Connection, order: Order) -> Any:
    program: Program = unpack(order.program, "main or one of its arguments")
    mesh = _meet(link, order)
    return program.play(mesh, config=order.config, session_id=order.session_id, place=order.place)


def _meet(link: Connection, order: Order) -> Mesh:
    """The mesh with all parties, after the caller has told each where the others are."""
    credentials = create_credentials(f"party {order.rank}")
    with listen(LOOPBACK, 0) as listener:
        link.send_bytes(pack(Card(listener.address, credentials.certificate), "a card"))
        cards: list[Card] = unpack(link.recv_bytes(), "the cards")
        if order.parties == 1:
            return memory_meshes(1, limits=order.limits)[0]
        certificates = tuple(card.certificate for card in cards)
        mesh = connect(
            Hello(session=order.session_id, rank=order.rank, parties=order.parties),
            listener,
            [card.address for card in cards],
            identity=Identity(credentials.certificate, credentials.private_key, certificates),
            limits=order.limits,
            network=order.network,
        )
    compare_settings(mesh, {name: repr(value) for name, value in asdict(order.config).items()})
    return mesh


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
