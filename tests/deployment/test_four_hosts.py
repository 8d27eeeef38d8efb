"""Four hosts under `quad`: an inference, and one host that runs a manipulated program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.deployment import cheating_host, plain
from tests.deployment.network import Network, why_not
from tests.deployment.site import FOURTH, NAMES, PARTY_FILE, Run, Site, run_arguments

FOUR = (*NAMES, FOURTH)
JOB = "infer.py"

pytestmark = pytest.mark.full(
    "tests/protocols/test_quad.py runs four parties; tests/cli/test_run.py processes with keys"
)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if reason := why_not():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("hosts")
    with Network(FOUR, folder / "capture") as network:
        site = Site.in_network(folder, network)
        site.introduce()
        yield site


def test_an_inference(hosts: Site) -> None:
    with hosts.start(JOB) as run:
        ended = run.end()
    assert {one.code for one in ended.values()} == {0}, ended
    assert ended["bob"].report["result"] == plain.answers().tolist()
    assert all(ended[name].report["result"] is None for name in set(FOUR) - {"bob"})


def test_a_host_that_cheats_is_noticed_by_all_others(hosts: Site, tmp_path: Path) -> None:
    """Even the one that may learn the result learns nothing then."""
    cheat = "bob"
    honest = [name for name in FOUR if name != cheat]
    with Run() as run:
        for name in honest:
            hosts.join(run, name, JOB)
        words = ("run", "--party", cheat, "--parties", PARTY_FILE, *run_arguments(tmp_path, JOB))
        hosts.at(run, cheat, *words, program=[cheating_host.__file__])
        ended = run.end()
    assert "changed 1 messages" in ended[cheat].err, ended
    for name in honest:
        assert ended[name].code == 3, ended
        assert ended[name].report["kind"] == "CheatingDetected"
    assert ended[cheat].code != 0
    assert "result" not in ended[cheat].report
