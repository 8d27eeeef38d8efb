"""Parties on hosts of their own, and a dealer on another: from their keys to a resumed training.

Each host has a network namespace, an address and a cable that the test can pull out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.deployment import plain
from tests.deployment.network import Network, why_not
from tests.deployment.site import (
    DEADLINE,
    DEALER,
    DEALT,
    NAMES,
    PARTY_FILE,
    SLACK,
    Run,
    Site,
    check,
    check_curve,
    training,
)

STEPS = 6

pytestmark = pytest.mark.full(
    "tests/cli/test_dealer.py runs two parties and `tacit dealer` as processes of one host"
)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    if reason := why_not():
        pytest.skip(reason)
    with Network([*NAMES, DEALER], tmp_path_factory.mktemp("cables") / "capture") as made:
        yield made


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory, network: Network) -> Site:
    return Site.in_network(tmp_path_factory.mktemp("hosts"), network)


@pytest.fixture(scope="module")
def blocks(hosts: Site) -> dict[str, str]:
    """The blocks that `tacit party init` prints at each host."""
    with Run() as run:
        for name, address in hosts.addresses.items():
            kind = ["--dealer"] if name == DEALER else []
            hosts.at(run, name, "party", "init", name, "--address", address, *kind)
        made = run.end()
    assert {ended.code for ended in made.values()} == {0}, made
    return {name: ended.out for name, ended in made.items()}


def introduce(hosts: Site, blocks: dict[str, str], parties: Sequence[str]) -> None:
    """Gives these parties and the dealer their party file."""
    members = [*parties, DEALER]
    for name in members:
        text = DEALT + "".join(blocks[one] for one in members)
        (hosts.of(name) / PARTY_FILE).write_text(text)


def test_two_parties_and_a_dealer(hosts: Site, blocks: dict[str, str], network: Network) -> None:
    introduce(hosts, blocks, NAMES[:2])
    with Run() as run:
        for name in (*NAMES[:2], DEALER):
            hosts.add(run, name, ["party", "check"], "--json")
        for name, ended in run.end().items():
            assert (ended.code, ended.report["problems"]) == (0, []), ended
            assert ended.report["links"].keys() == {*NAMES[:2], DEALER} - {name}
    with hosts.start("infer.py", order=NAMES[:2]) as run:
        ended = run.end()
    assert {one.code for one in ended.values()} == {0}, ended
    assert ended["bob"].report["result"] == plain.answers().tolist()
    assert ended["alice"].report["result"] is None
    dealt = ended[DEALER].report
    assert dealt["result"] is None
    assert dealt["bytes_sent"] > 20 * dealt["bytes_received"]
    assert network.ports(DEALER) == []


def test_a_training_goes_on_after_its_dealer_was_cut_off(
    hosts: Site, blocks: dict[str, str], network: Network
) -> None:
    introduce(hosts, blocks, NAMES)
    with training(hosts) as run:
        run.since = time.monotonic()
        network.set(down=[DEALER])
        ended = run.end(names=NAMES)
        [alone] = run.end(names=(DEALER,)).values()
    codes = dict.fromkeys(NAMES, 3)
    check(ended, codes, "the dealer (dora)", "operation", within=DEADLINE + SLACK)
    assert alone.code == 3, alone
    network.set(down=[])
    total = hosts.newest() + STEPS
    with hosts.start("train.py", str(total), resume=True) as run:
        finished = run.end()
    assert {one.code for one in finished.values()} == {0}, finished
    assert hosts.checkpoints(DEALER)[-1] == hosts.checkpoints("alice")[-1] == total
    check_curve(hosts.curve(), total)
    assert not (Path(hosts.logs[DEALER]) / "scalars.csv").exists()
