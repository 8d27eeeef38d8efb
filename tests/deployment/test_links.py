"""The links between the parties' hosts: cut, lossy and slow.

As in test_failures.py, the training with lost packets goes on where a cut link ended it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.deployment.matrix import NOTHING, RESUME
from tests.deployment.network import Network, why_not
from tests.deployment.site import (
    DEADLINE,
    NAMES,
    SLACK,
    Ended,
    Run,
    Site,
    check,
    check_curve,
    training,
)

pytestmark = pytest.mark.full(
    "test_three_hosts.py uses the network, test_switch.py harms it, "
    "and tests/transport/test_heartbeats.py covers silent links"
)
SEED = 6
LOSS = 0.05
LATENCY = 0.2  # seconds, each way
STEPS = 4


@contextmanager
def hosts(folder: Path) -> Iterator[tuple[Site, Network]]:
    if reason := why_not():
        pytest.skip(reason)
    with Network(NAMES, folder / "capture", seed=SEED) as network:
        made = Site.in_network(folder, network)
        made.introduce()
        yield made, network


@pytest.fixture(scope="module", autouse=True)
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Run]]:
    """A training over slow links, in a network of its own: it mostly waits, so all see it."""
    with hosts(tmp_path_factory.mktemp("slow")) as (site, network):
        network.set(latency=LATENCY)
        with site.start("train.py", str(STEPS)) as run:
            yield site, run


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Network]]:
    with hosts(tmp_path_factory.mktemp("links")) as made:
        yield made


def test_a_link_is_cut(place: tuple[Site, Network], record: partial[None]) -> None:
    """Bob's; the others know that it is his, and he knows that somebody is silent."""
    site, network = place
    with training(site) as run:
        saved = site.newest()
        run.since = time.monotonic()
        network.set(down=["bob"])
        ended = run.end()
    network.set(down=[])
    assert site.newest() >= saved
    codes = dict.fromkeys(NAMES, 3)
    check(ended, codes, "operation", "heartbeat", within=DEADLINE + SLACK)
    for name in ("alice", "carol"):
        assert "party 1 (bob)" in ended[name].said
    assert "(alice)" in ended["bob"].said or "(carol)" in ended["bob"].said
    record("Bob's link is cut", ended, RESUME)


def test_lost_packets_only_slow_down(place: tuple[Site, Network], record: partial[None]) -> None:
    site, network = place
    print(f"seed {SEED}")
    network.set(loss=LOSS)
    total = site.newest() + STEPS
    with site.start("train.py", str(total), resume=site.newest() > 0) as run:
        ended = run.end()
    network.set(loss=0.0)
    check_end(site, ended, total)
    record("5 % of all packets are lost \\*", ended, NOTHING)


def test_latency_only_slows_down(slow: tuple[Site, Run], record: partial[None]) -> None:
    site, run = slow
    ended = run.end()
    check_end(site, ended, STEPS)
    rounds = min(one.report["rounds"] for one in ended.values())
    assert ended["bob"].report["seconds"] > LATENCY * rounds / 2  # some rounds go only from him
    record("200 ms latency, each way, on all links \\*", ended, NOTHING)


def check_end(site: Site, ended: Mapping[str, Ended], total: int) -> None:
    check(ended, dict.fromkeys(NAMES, 0))
    assert {one.report["result"] for one in ended.values()} == {total}
    assert len(site.curve()) == total
    check_curve(site.curve(), total)
