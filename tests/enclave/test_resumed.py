"""A training whose enclave process is killed goes on from its checkpoint."""

from __future__ import annotations

import os
import signal
import threading

import pytest
import torch
from tests.enclave.process_programs import checkpointed, wait_for
from tests.enclave.started import recorded

import tacit
from tacit.errors import PartyFailed

FOREVER = 10**6  # steps
MEMBERS = ("party0", "party1", "enclave")


def run(total, folder, **settings):
    return tacit.run(
        checkpointed,
        total,
        parties=2,
        protocol="enclave",
        transport="processes",
        outsourcing="none",
        allow_simulated=True,
        folder=folder,
        **settings,
    )


def steps_of(folder, member):
    return {int(path.parent.name[5:]) for path in (folder / member).glob("step-*/party-*.tacit")}


def test_a_killed_enclave_is_resumed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a folder may be relative, and the enclave starts elsewhere
    with recorded() as pids:

        def kill():
            wait_for(tmp_path / "runs" / "party1" / "step-00000006")
            os.kill(pids["tacit-enclave-0"], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(PartyFailed, match=r"enclave failed.*SIGKILL"):
            run(FOREVER, "runs")
        killer.join()
    folder = tmp_path / "runs"
    newest = max(set.intersection(*(steps_of(folder, member) for member in MEMBERS)))
    assert newest >= 4
    for found, wanted in run(newest + 3, "runs", resume=True):
        assert torch.allclose(found, wanted, atol=1e-4)
    written = {path.name for path in (folder / "enclave").rglob("*") if path.is_file()}
    assert written == {"reveals.jsonl", "party-2.tacit"}, "no key, and no number that was revealed"
    assert len((folder / "party0" / "scalars.csv").read_text().splitlines()) == newest + 4
