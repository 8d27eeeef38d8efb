"""Two owners, the host of an enclave and a worker, each on a machine of its own.

Each host has a network namespace and an address.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.deployment.network import Network, why_not
from tests.deployment.site import PARTY_FILE, SETTINGS, Run, Site, check_curve, run_arguments

from tacit.enclave.first_line import QUOTE

OWNERS, HOST, WORKER = ("alice", "bob"), "eve", "wanda"
HEAD = f'protocol = "enclave"\noutsourcing = "one-worker"\n{SETTINGS}'
KINDS = {HOST: "--enclave", WORKER: "--worker"}
STEPS = 4

pytestmark = pytest.mark.full(
    "tests/cli/test_enclave.py runs owners, an enclave and workers as processes of one host"
)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    if reason := why_not():
        pytest.skip(reason)
    capture = tmp_path_factory.mktemp("cables") / "capture"
    with Network([*OWNERS, HOST, WORKER], capture) as made:
        yield made


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory, network: Network) -> Site:
    """The folders of all four, with keys and the party file that their commands make."""
    site = Site.in_network(tmp_path_factory.mktemp("hosts"), network)
    with Run() as run:
        for name, address in site.addresses.items():
            where = [] if name == WORKER else ["--address", address]
            kind = [KINDS[name]] if name in KINDS else []
            site.at(run, name, "party", "init", name, *where, *kind)
        made = run.end()
    assert {ended.code for ended in made.values()} == {0}, made
    for name in site.addresses:
        (site.of(name) / PARTY_FILE).write_text(HEAD + "".join(one.out for one in made.values()))
    return site


def start(hosts: Site, steps: str) -> Run:
    """A training: `tacit run` at the owners, `tacit enclave` and `tacit worker` elsewhere."""
    run = Run()
    for name in (*OWNERS, HOST):
        kind = ("run", "--party", name) if name in OWNERS else ("enclave",)
        job = run_arguments(hosts.logs[name], "train.py", steps)
        hosts.at(run, name, *kind, "--parties", PARTY_FILE, "--allow-simulated", *job)
    hosts.at(run, WORKER, "worker", "--worker", WORKER, "--parties", PARTY_FILE)
    return run


def test_a_training_with_an_enclave(hosts: Site, network: Network) -> None:
    with start(hosts, str(STEPS)) as run:
        ended = run.end()
    assert {one.code for one in ended.values()} == {0}, ended
    check_curve(hosts.curve(), STEPS)
    for name in ("alice", HOST):
        assert not [*hosts.logs[name].rglob("scalars.csv")], "bob alone learns the losses"
    assert ended[HOST].report["enclave"] == HOST
    wire = network.captured()
    assert QUOTE in wire, "the capture shows what is not encrypted"
    rows = np.load(hosts.of("alice") / "pictures.npy")[:64, :4]
    assert not [row for row in rows if row.tobytes() in wire]
