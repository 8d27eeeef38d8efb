"""One training, broken off in every way that a party can fail, and resumed each time.

Every case brings the training a few steps further, so that each also shows that what came before
did no harm: no step is missing or done twice, and the losses are those of plain torch.
"""

from __future__ import annotations

import re
import shutil
import time
from functools import partial
from mmap import PAGESIZE as PAGE
from pathlib import Path
from signal import SIGCONT, SIGINT, SIGKILL, SIGSTOP

import pytest
from tests.deployment.matrix import RESUME
from tests.deployment.network import small_disk, why_not
from tests.deployment.site import (
    DEADLINE,
    FOREVER,
    NAMES,
    SLACK,
    Site,
    check,
    check_curve,
    training,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site.on_loopback(tmp_path_factory.mktemp("failures"))


def begun(site: Site) -> None:
    """Sees to it that there are checkpoints; there are, where another case came before."""
    if not site.newest():
        with training(site) as run:
            run.signal("bob", SIGKILL)
            run.end()


def contents(site: Site) -> dict[Path, bytes]:
    """All checkpoints of all parties."""
    found = (path for name in NAMES for path in site.logs[name].glob("step-*/party-*.tacit"))
    return {path: path.read_bytes() for path in found}


@pytest.mark.full("tests/runtime/test_failures.py kills a party")
def test_sigkill(site: Site, record: partial[None]) -> None:
    with training(site) as run:
        saved = site.newest()
        run.signal("bob", SIGKILL)
        ended = run.end()
    assert site.newest() >= saved
    codes = {"alice": 3, "bob": -SIGKILL, "carol": 3}
    check(ended, codes, "party 1 (bob)", "operation", within=DEADLINE + SLACK)
    for name in ("alice", "carol"):
        assert re.search("gone without a word|is lost|connection lost", ended[name].said)
    record("SIGKILL at bob", ended, RESUME)


@pytest.mark.full("tests/runtime/test_failures.py freezes a party")
def test_sigstop(site: Site, record: partial[None]) -> None:
    with training(site) as run:
        saved = site.newest()
        run.signal("carol", SIGSTOP)
        ended = run.end(names=("alice", "bob"))
        run.signal("carol", SIGCONT)
        woken = run.end(names=("carol",))
    assert site.newest() >= saved
    silent = ("party 2 (carol)", "operation", "heartbeat")
    check(ended, {"alice": 3, "bob": 3}, *silent, within=DEADLINE + SLACK)
    check(woken, {"carol": 3}, "party", "operation", within=DEADLINE + SLACK)
    record("SIGSTOP at carol, and SIGCONT when the others have ended", ended | woken, RESUME)


@pytest.mark.full("tests/cli/test_run.py raises an error in a job")
def test_an_exception_in_one_party(site: Site, record: partial[None]) -> None:
    with training(site) as run:
        saved = site.newest()
        run.since = time.monotonic()
        (site.of("alice") / "broken").touch()
        ended = run.end()
    (site.of("alice") / "broken").unlink()
    assert site.newest() >= saved
    codes = {"alice": 1, "bob": 3, "carol": 3}
    check(ended, codes, "party 0 (alice)", "operation", "LookupError", within=DEADLINE + SLACK)
    assert "LookupError: no picture of patient 4711" in ended["alice"].said
    assert "train.py" in ended["alice"].said
    record("An exception in alice's program", ended, RESUME)


@pytest.mark.full("tests/cli/test_run.py interrupts a party")
def test_ctrl_c_at_one_party(site: Site, record: partial[None]) -> None:
    with training(site) as run:
        saved = site.newest()
        run.signal("carol", SIGINT)
        ended = run.end()
    assert site.newest() >= saved
    codes = {"alice": 3, "bob": 3, "carol": 130}
    check(ended, codes, "party 2 (carol)", "operation", "interrupted", within=DEADLINE + SLACK)
    record("Ctrl-C at carol", ended, RESUME)


@pytest.mark.full("tests/cli/test_run.py changes a program")
def test_a_changed_program_at_one_party(site: Site, record: partial[None]) -> None:
    """Nothing is loaded or opened, and the checkpoints stay as they are."""
    begun(site)
    saved = contents(site)
    job = site.of("bob") / "train.py"
    program = job.read_text()
    job.write_text(program.replace("lr=0.1", "lr=0.2"))
    with site.start("train.py", FOREVER, resume=True) as run:
        ended = run.end()
    job.write_text(program)
    assert contents(site) == saved
    check(ended, dict.fromkeys(NAMES, 4), "(bob)", "the program")
    record("Another program at bob \\*", ended, "with the same program at all, `--resume` goes on")


@pytest.mark.full("tests/runtime/test_training.py fills a disk")
def test_a_full_disk_at_a_checkpoint(site: Site, record: partial[None], tmp_path: Path) -> None:
    """The next checkpoint is too large for bob's disk; on another disk the training goes on."""
    if reason := why_not():
        pytest.skip(reason)
    begun(site)
    usual, saved = site.logs["bob"], site.newest()
    used = sum(-(-p.stat().st_size // PAGE) * PAGE for p in usual.rglob("*") if p.is_file())
    with small_disk(tmp_path, used + 8 * PAGE) as disk:
        site.logs["bob"] = disk / "log"
        shutil.copytree(usual, disk / "log")
        try:
            with site.start("train.py", FOREVER, resume=True) as run:
                ended = run.end()
            assert site.newest() == saved
            shutil.rmtree(usual)
            shutil.copytree(disk / "log", usual)
        finally:
            site.logs["bob"] = usual
    words = ("party 1 (bob)", "save", "No space left on device", "those before are as they were")
    check(ended, dict.fromkeys(NAMES, 5), *words)
    record(
        "A full disk at bob when a checkpoint is due \\*", ended, f"{RESUME}, when there is room"
    )


@pytest.mark.full("tests/runtime/test_training.py damages them all")
def test_all_checkpoints_of_one_party_are_corrupt(site: Site, record: partial[None]) -> None:
    begun(site)
    saved = contents(site)
    for path in site.logs["alice"].glob("step-*/party-*.tacit"):
        corrupt(path)
    with site.start("train.py", FOREVER, resume=True) as run:
        ended = run.end()
    assert contents(site).keys() == saved.keys()
    for path, content in saved.items():
        path.write_bytes(content)
    words = ("resume", "party 0 (alice)", "step")
    check(ended, dict.fromkeys(NAMES, 5), *words)
    record(
        "All checkpoints of alice are corrupt \\*", ended, "with a copy of them, `--resume` goes on"
    )


@pytest.mark.full("tests/runtime/test_training.py damages one")
def test_the_newest_checkpoint_of_one_party_is_corrupt(site: Site, record: partial[None]) -> None:
    """All go on from the one before, to the end; the model is what it is without any failure."""
    begun(site)
    newest = site.newest()
    corrupt(next(site.logs["carol"].glob(f"step-{newest:08}*/party-*.tacit")))
    total = newest + 4
    with site.start("train.py", str(total), resume=True) as run:
        ended = run.end()
    check(ended, dict.fromkeys(NAMES, 0))
    for one in ended.values():
        assert one.report["result"] == total
        assert f"the checkpoint of step {newest} is left out" in one.err
        assert "party 2 (carol)" in one.err
    assert len(site.curve()) == total
    check_curve(site.curve(), total)
    record(
        "The newest checkpoint of carol is corrupt \\*",
        ended,
        "nothing: all go on from the one before, and finish",
    )


def corrupt(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
