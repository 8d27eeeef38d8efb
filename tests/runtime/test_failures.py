"""Whatever one party does or suffers, every other party ends in time and says why.

Real processes over TLS. The honest parties must end within the deadline with a typed error that
names the bad one, exit with a code that is not zero, and leave no thread and no socket.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from tests.runtime.parties import HOST, PARTIES, Behaviour, Part, Report, Stage, credentials, talk

from tacit.cli.errors import terminable
from tacit.errors import ConfigError
from tacit.transport import Limits, Mesh, Spec
from tacit.transport.setup import handshake
from tacit.transport.wire import frames
from tacit.transport.wire.tcp import Listener

# Seconds. What is noticed at once is noticed long before LONG, also on a machine that is busy with
# much else; what a deadline ends has a short one.
LONG = 240.0
AT_ONCE = 60.0
DEADLINE = 3.0
BUSY = 60.0  # more than the deadline
PATIENT = Limits(deadline=LONG, connect_deadline=LONG)
HASTY = Limits(deadline=DEADLINE, connect_deadline=LONG)
HASTY_TO_CONNECT = Limits(deadline=LONG, connect_deadline=DEADLINE)
BAD = PARTIES - 1
SECRET = "the value is 42"

Start = Callable[..., Stage]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts parties of whom one behaves as given, and ends them after the test."""
    stages: list[Stage] = []

    def made(behaviour: Behaviour, limits: Limits = PATIENT, **options: object) -> Stage:
        stages.append(Stage(behaviour, limits=limits, **options))
        return stages[-1]

    yield made
    for stage in stages:
        stage.end()


def check(stage: Stage, kinds: set[str], *, since: float, within: float) -> list[Report]:
    """How the honest parties ended: in time, with nothing left, and one at least names the bad."""
    reports = [stage.report(rank) for rank in stage.honest]
    stage.ended.update(zip(stage.honest, reports, strict=True))
    for rank, report in zip(stage.honest, reports, strict=True):
        assert report.error in kinds, report
        assert report.message, report
        assert report.time - since < within, report
        assert report.left == [], report
        assert stage.processes[rank].exitcode == 1
    assert stage.bad in {report.party for report in reports}, reports
    return reports


def check_running(stage: Stage, kinds: set[str], *, since: float, within: float) -> None:
    """Once connected, every honest party knows who, when and why."""
    for report in check(stage, kinds, since=since, within=within):
        assert report.party == stage.bad, report
        assert f"party {stage.bad}" in report.message, report
        assert report.operation is not None, report
        assert SECRET not in report.message, report


# One that is ended or frozen from outside, in the midst of a conversation.


def start_talking(start: Start, limits: Limits) -> Stage:
    stage = start(talk, limits)
    assert [stage.hear(rank) for rank in range(PARTIES)] == ["talking"] * PARTIES
    return stage


def test_a_killed_party(start):
    stage = start_talking(start, PATIENT)
    since = time.monotonic()
    stage.processes[BAD].kill()
    check_running(stage, {"PeerClosed"}, since=since, within=AT_ONCE)


def test_a_frozen_party(start):
    stage = start_talking(start, HASTY)
    since = time.monotonic()
    os.kill(stage.processes[BAD].pid, signal.SIGSTOP)
    check_running(stage, {"PeerTimeout", "PeerClosed"}, since=since, within=DEADLINE + BUSY)
    os.kill(stage.processes[BAD].pid, signal.SIGCONT)
    # When it wakes it finds itself cut off, in mid-run: not a failure to connect.
    assert stage.report(BAD).error == "PeerClosed"
    assert stage.processes[BAD].exitcode == 1


def talk_until_terminated(part: Part, listener: Listener) -> None:
    with terminable():
        talk(part, listener)


@pytest.mark.parametrize(
    ("behaviour", "number"), [(talk, signal.SIGINT), (talk_until_terminated, signal.SIGTERM)]
)
def test_an_interrupted_party(start, behaviour, number):
    stage = start(behaviour)
    assert [stage.hear(rank) for rank in range(PARTIES)] == ["talking"] * PARTIES
    since = time.monotonic()
    os.kill(stage.processes[BAD].pid, number)
    check_running(stage, {"PeerClosed"}, since=since, within=AT_ONCE)
    for rank in stage.honest:
        assert "ended the run" in stage.ended[rank].message
        assert "interrupted" in stage.ended[rank].message
    stage.processes[BAD].join(BUSY)
    assert stage.processes[BAD].exitcode


# One that is slow, but alive.


def compute_for_long(part: Part, listener: Listener) -> None:
    """One call that returns to Python after a while, and computes on all cores until then."""
    with part.connect(listener) as mesh:
        until = time.monotonic() + 1.5 * DEADLINE
        while time.monotonic() < until:
            big = torch.ones(1500, 1500)
            big @ big
        peers = [peer for peer in range(PARTIES) if peer != part.rank]
        for _ in range(10):
            mesh.exchange_bytes(dict.fromkeys(peers, b"word"), peers)


def test_a_slow_party_is_waited_for(start):
    stage = start(compute_for_long, HASTY)
    for rank in stage.honest:
        assert stage.hear(rank) == "talking"


# One that gets through the handshake like any other and then misbehaves.


def write(mesh: Mesh, data: bytes) -> None:
    for channel in mesh._channels.values():
        channel.outgoing.write((data,))


def head_of(part: Part, size: int) -> bytes:
    how = frames.layout((Spec((size,), torch.uint8),))
    return frames.pack(frames.Kind.BYTES, part.hello.session, 0, how, size)


def raise_an_error(part: Part, listener: Listener) -> None:
    with part.connect(listener):
        raise ConfigError(SECRET)


def send_rubbish(part: Part, listener: Listener) -> None:
    mesh = part.connect(listener)
    write(mesh, b"GET / HTTP/1.1\r\n" * 100)
    part.link.recv()


def send_a_frame_over_the_cap(part: Part, listener: Listener) -> None:
    mesh = part.connect(listener)
    write(mesh, head_of(part, part.limits.max_message_bytes + 1))
    part.link.recv()


def send_half_a_frame_and_end(part: Part, listener: Listener) -> None:
    mesh = part.connect(listener)
    write(mesh, head_of(part, 4) + b"wo")
    os._exit(0)


def send_half_a_frame_and_wait(part: Part, listener: Listener) -> None:
    """Looking for the other half and finding nothing is no progress: the deadline must pass."""
    mesh = part.connect(listener)
    write(mesh, head_of(part, 4) + b"wo")
    part.link.recv()


def trickle_a_frame(part: Part, listener: Listener) -> None:
    """A byte now and then: progress, so never silent for the deadline, but the frame is wrong."""
    mesh = part.connect(listener)
    for byte in bytes(frames.HEADER.size + 8):
        write(mesh, bytes([byte]))
        time.sleep(0.005)
    part.link.recv()


@pytest.mark.parametrize(
    ("behaviour", "kinds"),
    [
        (raise_an_error, {"PeerClosed"}),
        (send_rubbish, {"FrameRejected", "PeerClosed"}),
        (send_a_frame_over_the_cap, {"FrameRejected", "PeerClosed"}),
        (send_half_a_frame_and_end, {"PeerClosed"}),
        (trickle_a_frame, {"FrameRejected", "PeerClosed"}),
    ],
)
def test_a_party_that_misbehaves_in_the_run(start, behaviour, kinds):
    stage = start(behaviour, PATIENT)
    check_running(stage, kinds, since=time.monotonic(), within=AT_ONCE)


def test_a_party_that_stops_in_the_midst_of_a_frame(start):
    stage = start(send_half_a_frame_and_wait, HASTY)
    kinds = {"PeerTimeout", "PeerClosed"}
    check_running(stage, kinds, since=time.monotonic(), within=DEADLINE + BUSY)


# One that does not get through the handshake.


def speak_another_version(part: Part, listener: Listener) -> None:
    frames.VERSION = handshake.VERSION = frames.VERSION + 1
    talk(part, listener)


def belong_to_another_session(part: Part, listener: Listener) -> None:
    part.connect(listener, session=b"another session!")


def claim_another_rank(part: Part, listener: Listener) -> None:
    part.connect(listener, rank=part.rank - 1)


def belong_to_a_larger_run(part: Part, listener: Listener) -> None:
    part.connect(listener, rank=PARTIES, parties=PARTIES + 1)


def connect_and_say_nothing(part: Part, listener: Listener) -> None:
    """The slow loris: a connection that never gets on with it."""
    sockets = [socket.create_connection(part.addresses[peer]) for peer in range(part.rank)]
    while True:
        for open_socket in sockets:
            open_socket.send(b"\x16")
        time.sleep(0.2)


def never_come(part: Part, listener: Listener) -> None:
    part.link.recv()


CONNECTING = {
    "CertificateRejected",
    "ConnectError",
    "ConnectTimeout",
    "HandshakeMismatch",
    "PeerClosed",
}


@pytest.mark.parametrize(
    "behaviour",
    [
        speak_another_version,
        belong_to_another_session,
        claim_another_rank,
        belong_to_a_larger_run,
        connect_and_say_nothing,
        never_come,
    ],
)
def test_a_party_that_does_not_get_through_the_handshake(start, behaviour):
    stage = start(behaviour, HASTY_TO_CONNECT)
    check(stage, CONNECTING, since=time.monotonic(), within=DEADLINE + BUSY)


@pytest.mark.parametrize("bad", [0, 2])
def test_a_party_with_a_certificate_that_is_not_the_pinned_one(start, bad):
    stage = start(talk, HASTY_TO_CONNECT, bad=bad, own=credentials("stranger"))
    check(stage, CONNECTING, since=time.monotonic(), within=DEADLINE + BUSY)
    assert stage.report(bad).error in CONNECTING


def test_a_party_whose_port_is_taken(start):
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        stage = start(talk, HASTY_TO_CONNECT, port=port)
        since = time.monotonic()
        check(stage, CONNECTING, since=since, within=DEADLINE + BUSY)
        report = stage.report(BAD)
    assert report.error == "ConnectError"
    assert f"port {port} of {HOST}" in report.message
    assert stage.processes[BAD].exitcode == 1


def crowd_the_door(part: Part, listener: Listener) -> None:
    """Strangers that say nothing or nonsense are at every door before the party comes."""
    strangers = [socket.create_connection(address) for address in part.addresses for _ in "12345"]
    for stranger in strangers[::2]:
        stranger.send(b"GET / HTTP/1.1\r\n\r\n")
    talk(part, listener)


def test_strangers_at_the_door_stop_nobody(start):
    stage = start(crowd_the_door, PATIENT)
    assert [stage.hear(rank) for rank in range(PARTIES)] == ["talking"] * PARTIES
