"""Three organisations on three hosts, from their keys to a trained model, and what is on the wire.

Each host has a network namespace, an address and one open port; a fourth belongs to a stranger.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from tests.deployment import plain
from tests.deployment.network import Network, why_not
from tests.deployment.site import (
    ENOUGH,
    NAMES,
    PARTY_FILE,
    SETTINGS,
    SLACK,
    Run,
    Site,
    check_curve,
    run_arguments,
)

from tacit.config import Config

WORD, WINDOW = 8, 16  # bytes; chance does not make as many alike
LOW = np.uint64(0xFFFFFF)
LATE = 40.0  # seconds, more than parties wait unless their file says so
STEPS = 8

RECEIVE = """
import socket
sock = socket.create_server(("", 7001)).accept()[0]
while sock.recv(1 << 16):
    pass
"""

SEND = """
import socket, sys
sock = socket.create_connection((sys.argv[1], 7001))
sock.sendall(open(sys.argv[2], "rb").read())
"""


pytestmark = pytest.mark.full(
    "tests/cli/test_run.py runs three processes with keys; tests/transport/test_tls.py encrypts"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if reason := why_not():
        pytest.skip(reason)
    return tmp_path_factory.mktemp("hosts")


@pytest.fixture(scope="module")
def network(folder: Path) -> Iterator[Network]:
    with Network([*NAMES, "dave"], folder / "capture") as made:
        yield made


@pytest.fixture(scope="module")
def hosts(folder: Path, network: Network) -> Site:
    return Site.in_network(folder, network)


@pytest.fixture(scope="module", autouse=True)
def late(folder: Path) -> Iterator[tuple[Site, Run, Network]]:
    """A run, in a network of its own, that waits for bob, whose host is not even plugged in."""
    (folder / "late").mkdir()
    with Network(NAMES, folder / "late" / "capture") as network:
        network.set(down=["bob"])
        there = Site.in_network(folder / "late", network)
        there.introduce()
        with there.start("infer.py", order=("alice", "carol")) as run:
            yield there, run, network


def test_keys_are_made_and_exchanged(hosts: Site) -> None:
    with Run() as run:
        for name, address in hosts.addresses.items():
            hosts.at(run, name, "party", "init", name, "--address", address)
        made = run.end()
    assert {ended.code for ended in made.values()} == {0}, made
    agreed = SETTINGS + "".join(made[name].out for name in NAMES)
    for name in NAMES:
        (hosts.of(name) / PARTY_FILE).write_text(agreed)
        assert [p.name for p in hosts.of(name).glob("*.key")] == [f"{name}.key"]
    # The stranger claims to be bob, with his own key.
    claim = made["dave"].out.replace('"dave"', '"bob"')
    stranger = agreed.replace(made["bob"].out, claim)
    assert stranger != agreed
    (hosts.of("dave") / PARTY_FILE).write_text(stranger)


def test_all_links_are_checked(hosts: Site) -> None:
    with Run() as run:
        for name in ("bob", "carol", "alice"):
            hosts.add(run, name, ["party", "check"], "--json")
        for name, ended in run.end().items():
            assert ended.code == 0, ended
            assert ended.report["problems"] == []
            assert ended.report["links"].keys() == set(NAMES) - {name}
            for link in ended.report["links"].values():
                assert 0 < link["latency_s"] < SLACK
                assert link["bandwidth_bytes_per_s"] > 1e3
                assert abs(link["clock_difference_s"]) < 0.5 + link["latency_s"]


def test_a_private_inference_that_a_stranger_cannot_join(hosts: Site, network: Network) -> None:
    with hosts.start("infer.py", order=("carol", "alice")) as run:
        with Run() as attempt:
            words = ("run", "--party", "bob", "--parties", PARTY_FILE, "--key", "dave.key")
            # Not in vain before the others are there.
            wait_until(lambda: len(network.ports("alice")) == len(network.ports("carol")) == 1)
            hosts.at(attempt, "dave", *words, *run_arguments(hosts.logs["dave"], "infer.py"))
            refused = attempt.end()["dave"]
        assert run.processes["alice"].poll() is run.processes["carol"].poll() is None
        for name in ("alice", "carol"):
            assert network.ports(name) == [hosts.addresses[name]]
        hosts.join(run, "bob", "infer.py")
        ended = run.end()
    check_refusal(hosts, refused.code, refused.said)
    assert refused.report["kind"] == "CertificateRejected"
    assert f"refused a connection from {network.addresses['dave']}" in ended["alice"].err
    assert {one.code for one in ended.values()} == {0}, ended
    assert ended["bob"].report["result"] == plain.answers().tolist()
    assert (plain.answers() == plain.digits()[1][-plain.ASIDE :]).float().mean() > 0.8
    for name in ("alice", "carol"):
        assert ended[name].report["result"] is None
    assert network.ports("alice") == []


def check_refusal(hosts: Site, code: int, said: str) -> None:
    """By name, and within seconds of the attempt: the others were waited for much longer."""
    assert code == 3
    assert f"party 0 (alice, {hosts.addresses['alice']})" in said
    assert "does not accept this certificate" in said
    log = (hosts.logs["dave"] / "runs.jsonl").read_text().splitlines()
    began, failed = (datetime.fromisoformat(json.loads(line)["time"]) for line in log)
    assert (failed - began).total_seconds() < SLACK


def test_a_short_training(hosts: Site) -> None:
    with hosts.start("train.py", str(STEPS), order=("alice", "bob", "carol")) as run:
        ended = run.end()
    assert {one.code for one in ended.values()} == {0}, ended
    assert {one.report["result"] for one in ended.values()} == {STEPS}
    assert [step for step, _ in hosts.curve()] == [*range(STEPS)]
    check_curve(hosts.curve(), STEPS)
    for name in NAMES:
        assert hosts.checkpoints(name) == [STEPS - 2, STEPS]
        assert (hosts.logs[name] / "scalars.csv").exists() == (name == "bob")


def test_nothing_on_the_wire_can_be_read(hosts: Site, network: Network) -> None:
    """Not the pictures in any form, nor any party's share of them; in the clear they are found."""
    pictures = np.load(hosts.of("bob") / "pictures.npy")
    fixed = np.rint(pictures.astype(np.float64) * 2.0 ** Config().fraction_bits)
    secrets = {
        "float32": pictures.tobytes(),
        "float64": pictures.astype(np.float64).tobytes(),
        "fixed point of 64 bits": fixed.astype(np.int64).tobytes(),
        "fixed point of 32 bits": fixed.astype(np.int32).tobytes(),
        "text": " ".join(f"{x:.7f}" for x in pictures.flat).encode(),
    }
    for name in NAMES:
        parts = {p.name: p.read_bytes() for p in hosts.logs[name].glob("part-*")}
        assert len(parts) == 2
        # Two parties hold each; one that is all zeros, of a mask that nobody needs, says nothing.
        secrets |= {part: content for part, content in parts.items() if any(content)}
    assert len(secrets) >= 5 + 2
    capture = network.captured()
    assert len(capture) > 2e5
    assert not seen(secrets, capture)

    send_in_the_clear(network, b"".join(secrets.values()), hosts.folder / "clear")
    found = seen(secrets, network.captured())
    assert all(found[what] > 10 for what in secrets), found


def seen(secrets: Mapping[str, bytes], capture: bytes) -> Counter[str]:
    """How often a piece of each secret is in a capture."""
    pieces = {
        content[at : at + WINDOW]: what
        for what, content in secrets.items()
        for at in range(0, len(content) - WINDOW, WINDOW)
    }
    heads = np.unique(np.frombuffer(b"".join(p[:WORD] for p in pieces), np.uint64))
    table = np.zeros(int(LOW) + 1, bool)
    table[heads & LOW] = True
    found: Counter[str] = Counter()
    for shift in range(WORD):
        words = np.frombuffer(capture, np.uint64, (len(capture) - shift) // WORD, shift)
        likely = np.flatnonzero(table[words & LOW])
        for at in WORD * likely[np.isin(words[likely], heads)] + shift:
            if what := pieces.get(capture[at : at + WINDOW]):
                found[what] += 1
    return found


def send_in_the_clear(network: Network, content: bytes, file: Path) -> None:
    file.write_bytes(content)
    receiver = subprocess.Popen([*network.at("alice"), sys.executable, "-c", RECEIVE])
    wait_until(lambda: len(network.ports("alice")) == 1)
    words = [*network.at("bob"), sys.executable, "-c", SEND, network.addresses["alice"], str(file)]
    subprocess.run(words, check=True)
    assert receiver.wait(timeout=ENOUGH) == 0


def test_a_party_that_starts_late_is_waited_for(late: tuple[Site, Run, Network]) -> None:
    there, run, network = late
    time.sleep(max(0.0, run.since + LATE - time.monotonic()))
    assert run.processes["alice"].poll() is run.processes["carol"].poll() is None
    network.set(down=[])
    there.join(run, "bob", "infer.py")
    ended = run.end()
    assert {one.code for one in ended.values()} == {0}, ended
    assert ended["bob"].report["result"] == plain.answers().tolist()
    assert ended["alice"].report["result"] is None


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + ENOUGH
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)
