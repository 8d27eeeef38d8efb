"""A party that holds its key and goes mad amid a run ends it at all, by its own name."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from random import Random
from typing import Any

import pytest
import torch
from tests.fuzz.kinds.secure_hellos import client_hello
from tests.fuzz.mutate import mutations
from tests.transport.parties import hello, identity, run, together

from tacit.errors import Error, PeerClosed
from tacit.transport import Limits, Mesh, Spec, connect, listen
from tacit.transport.consensus import decode_all
from tacit.transport.wire.control import beat
from tacit.transport.wire.frames import Kind, layout, pack

SEED = 20260302
LONG = 60.0
LIMITS = Limits(deadline=LONG, patience=LONG, connect_deadline=LONG)  # nothing ends by a timeout
SESSION = b"0123456789abcdef"
ROGUE = 2
STEPS = 6
WORD = torch.arange(64)
MESSAGE = pack(Kind.TENSORS, SESSION, STEPS, layout((Spec((64,), torch.int64),)), 512) + bytes(512)


def talk(mesh: Mesh, steps: int) -> None:
    peers = [rank for rank in range(mesh.parties) if rank != mesh.rank]
    for _ in range(steps):
        mesh.exchange(
            {peer: [WORD] for peer in peers}, {peer: [Spec((64,), torch.int64)] for peer in peers}
        )


def check(results: list[Any], seconds: float) -> None:
    for result in results[:ROGUE]:
        assert isinstance(result, Error), result
        assert f"party {ROGUE}" in str(result), result
        assert result.party == ROGUE, result
        assert str(list(WORD[:8].tolist()))[1:-1] not in str(result)
    assert seconds < LONG


def ended_by(go_mad: Any) -> tuple[list[Any], float]:
    started = time.monotonic()

    def program(mesh: Mesh) -> None:
        talk(mesh, STEPS)
        if mesh.rank == ROGUE:
            with suppress(PeerClosed):  # whom it writes to may end before all is written
                go_mad(mesh)
            for peer in range(ROGUE):  # its end is not what the others notice
                assert mesh.channel(peer).last_word(LONG) is not None
            raise KeyboardInterrupt
        talk(mesh, STEPS)

    return run("tls", program, 3, limits=LIMITS), time.monotonic() - started


def garbage() -> dict[str, bytes]:
    made = {
        "noise": Random(SEED).randbytes(5000),
        "zeros": bytes(70_000),
        "a heartbeat where tensors are": beat(SESSION, False),
        "another operation": pack(Kind.TENSORS, SESSION, 1 << 40, layout(()), 0),
        "other tensors": pack(Kind.TENSORS, SESSION, STEPS, layout(()), 0),
    }
    for what, data in mutations(MESSAGE[:80], seed=SEED, count=40):
        if what in ("nothing_of_it", "flip_bits", "overwrite", "change_magic") and len(data) > 60:
            made[what] = data + bytes(600)
    return made


@pytest.mark.parametrize("what", garbage())
def test_garbage_to_one_party_ends_all(what):
    print(f"seed {SEED}")

    def go_mad(mesh: Mesh) -> None:
        mesh._channels[0].outgoing.write((garbage()[what],))  # type: ignore[attr-defined]

    check(*ended_by(go_mad))


@pytest.mark.parametrize("what", ["noise", "zeros", "other tensors"])
def test_garbage_against_the_flow_ends_all(what):
    def go_mad(mesh: Mesh) -> None:
        mesh._channels[1].incoming.write((garbage()[what],))  # type: ignore[attr-defined]

    check(*ended_by(go_mad))


@pytest.mark.parametrize("said", [b"", b"[" * 100_000, b"\xff", b'{"have": []}'])
def test_an_answer_to_one_party_that_says_nothing_ends_all(said):
    """The message is a good one, and what it says is for layers above the transport."""

    def program(mesh: Mesh) -> None:
        peers = [rank for rank in range(mesh.parties) if rank != mesh.rank]
        send = dict.fromkeys(peers, b'{"have": {}}')
        if mesh.rank == ROGUE:
            send[0] = said
        answers = mesh.exchange_bytes(send, peers)
        decode_all([answers.get(rank, b'{"have": {}}') for rank in range(3)], _read)
        talk(mesh, STEPS)

    started = time.monotonic()
    check(run("tls", program, 3, limits=LIMITS), time.monotonic() - started)


def _read(message: bytes) -> list[str]:
    return [str(name) for name, _ in json.loads(message)["have"].items()]


def test_strangers_at_the_door_delay_nobody(caplog):
    """Whatever they say in clear, the parties meet behind their backs."""
    print(f"seed {SEED}")
    listeners = [listen("127.0.0.1", 0) for _ in range(2)]
    addresses = [listener.address for listener in listeners]

    def meet(rank: int) -> list[Any]:
        if rank:
            for _, data in mutations(client_hello(), seed=SEED, count=60):
                with suppress(OSError), socket.create_connection(addresses[0]) as stranger:
                    stranger.sendall(data)
        with connect(
            hello(rank), listeners[rank], addresses, identity=identity(rank), limits=LIMITS
        ) as mesh:
            return mesh.exchange({1 - rank: [WORD]}, {1 - rank: [Spec((64,), torch.int64)]})[
                1 - rank
            ]

    started = time.monotonic()
    results = together(lambda: meet(0), lambda: meet(1))
    assert all(torch.equal(tensors[0], WORD) for tensors in results.values())
    assert time.monotonic() - started < LONG
    assert "party 0 refused a connection from 127.0.0.1" in caplog.text
