"""The network of these tests does what it is asked to: without harm none, and harm as ordered."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deployment.network import Network, why_not

SEED = 20

ECHO = """
import socket
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("0.0.0.0", 7000))
print("ready", flush=True)
while True:
    data, sender = sock.recvfrom(100)
    sock.sendto(data, sender)
"""

ASK = """
import socket, sys
from contextlib import suppress
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
host, count = sys.argv[1], int(sys.argv[2])
came = 0
sock.settimeout(0.002)
for _ in range(count):
    sock.sendto(b"marco", (host, 7000))
    with suppress(TimeoutError):
        came += sock.recv(100) == b"marco"
sock.settimeout(1.0)  # for those that are late
with suppress(TimeoutError):
    while came < count:
        came += sock.recv(100) == b"marco"
print(came)
"""


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    if reason := why_not():
        pytest.skip(reason)
    with Network(["alice", "bob", "carol"], tmp_path / "capture", seed=SEED) as made:
        started = [
            subprocess.Popen([*made.at(name), sys.executable, "-c", ECHO], stdout=subprocess.PIPE)
            for name in made.addresses
        ]
        for one in started:
            assert one.stdout.readline() == b"ready\n"
        yield made
        for one in started:
            one.kill()
            one.communicate()


def answers(network: Network, at: str, of: str, count: int = 1) -> int:
    """How many of some messages to a host come back."""
    words = [*network.at(at), sys.executable, "-c", ASK, network.addresses[of], str(count)]
    return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def test_harm_is_as_ordered(network: Network) -> None:
    assert network.addresses == {"alice": "10.77.0.1", "bob": "10.77.0.2", "carol": "10.77.0.3"}
    assert answers(network, "alice", "bob", 500) >= 495  # a busy machine drops a datagram itself
    assert 990 <= network.captured().count(b"marco") <= 1000

    network.set(down=["bob"])
    assert answers(network, "alice", "bob") == answers(network, "bob", "carol") == 0
    assert answers(network, "alice", "carol") == 1
    network.set(down=[])
    assert answers(network, "carol", "bob") == 1

    print(f"seed {SEED}")
    network.set(loss=0.05)
    assert 400 < answers(network, "alice", "bob", 500) < 485
    network.set(loss=0.0, latency=0.2)
    started = time.monotonic()
    assert answers(network, "alice", "bob") == 1
    assert time.monotonic() - started > 0.4
