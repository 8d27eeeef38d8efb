"""One training of two parties: its dealer fails in every way, and each time it is resumed."""

from __future__ import annotations

import time
from functools import partial
from signal import SIGCONT, SIGKILL, SIGSTOP

import pytest
from tests.deployment.matrix import NOTHING, RESUME
from tests.deployment.site import (
    DEADLINE,
    DEALER,
    ENOUGH,
    NAMES,
    SLACK,
    Run,
    Site,
    check,
    check_curve,
    training,
)

PARTIES = NAMES[:2]
TOLD = dict.fromkeys(PARTIES, 3)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site.on_loopback(tmp_path_factory.mktemp("dealers"), dealer=True)


@pytest.mark.full("tests/runtime/test_dealer_failures.py kills a dealer")
def test_sigkill_at_the_dealer(site: Site, record: partial[None]) -> None:
    with training(site) as run:
        saved = site.newest()
        run.signal(DEALER, SIGKILL)
        ended = run.end()
    assert site.newest() >= saved
    codes = {**TOLD, DEALER: -SIGKILL}
    check(ended, codes, "the dealer (dora)", "operation", within=DEADLINE + SLACK)
    record("SIGKILL at dora, the dealer", ended, RESUME)


@pytest.mark.full("tests/runtime/test_dealer_failures.py freezes a dealer")
def test_sigstop_at_the_dealer(site: Site, record: partial[None]) -> None:
    with training(site) as run:
        saved = site.newest()
        run.signal(DEALER, SIGSTOP)
        ended = run.end(names=PARTIES)
        run.signal(DEALER, SIGCONT)
        woken = run.end(names=(DEALER,))
    assert site.newest() >= saved
    silent = ("the dealer (dora)", "operation", "heartbeat")
    check(ended, TOLD, *silent, within=DEADLINE + SLACK)
    check(woken, {DEALER: 3}, "operation", within=DEADLINE + SLACK)
    case = "SIGSTOP at dora, the dealer, and SIGCONT when the others have ended"
    record(case, ended | woken, RESUME)


@pytest.mark.full("tests/runtime/test_dealer_failures.py waits for a dealer")
def test_a_late_dealer(site: Site, record: partial[None]) -> None:
    """It starts when all parties wait for it, and the training ends as it does without failures."""
    total = site.newest() + 4
    resume = total > 4
    logged = lines(site)
    with Run() as run:
        for name in PARTIES:
            site.join(run, name, "train.py", str(total), resume=resume)
        until = time.monotonic() + ENOUGH
        while not all(now > before for now, before in zip(lines(site), logged, strict=True)):
            assert {one.poll() for one in run.processes.values()} == {None}, run.texts()
            assert time.monotonic() < until, run.texts()
            time.sleep(0.05)
        run.since = time.monotonic()
        site.deal(run, "train.py", str(total), resume=resume)
        ended = run.end()
    check(ended, dict.fromkeys((*PARTIES, DEALER), 0))
    assert {ended[name].report["result"] for name in PARTIES} == {total}
    assert len(site.curve()) == total
    check_curve(site.curve(), total)
    record("dora, the dealer, starts when the parties wait \\*", ended, NOTHING)


def lines(site: Site) -> list[int]:
    """How many lines each party has logged; the first of a run is there before it connects."""
    logs = [site.logs[name] / "runs.jsonl" for name in PARTIES]
    return [len(log.read_text().splitlines()) if log.exists() else 0 for log in logs]
