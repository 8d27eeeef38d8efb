"""Programs that the tests run in processes with an enclave; the enclave imports this file too."""

from __future__ import annotations

import copy
import os
import secrets
import sys
import time
from pathlib import Path

import torch
from tests.enclave.memory import copies_in
from tests.enclave.trainings import trained
from torch import nn
from torch.nn import functional as F

from tacit.enclave import worker
from tacit.runtime.launch.worker_child import serve_worker

SECONDS = 300.0  # for a machine that is busy; a scan of memory takes its time there
LATE_SECONDS = "TACIT_TEST_LATE_SECONDS"  # in the environment of a worker
NUMBERS = 16  # of a planted pattern, 64 bytes


def training(session):
    """The largest difference of weights after some steps from torch's, and what is imported."""
    found, wanted = trained(session)
    return (found - wanted).abs().max().item(), trusted_modules()


def trusted_modules():
    return [name for name in sys.modules if name.startswith("tacit.enclave.trusted")]


def planted(session, folder):
    """Trains on a pattern of party 1 with fixed weights that hold one of party 0.

    In the midst of it each party writes its pattern to a file, and waits until memory was scanned.
    """
    folder = Path(folder)
    drawn = [0.5 + secrets.randbelow(1 << 23) / (1 << 24) for _ in range(NUMBERS)]
    pattern = torch.tensor(drawn)  # each member draws its own; that of an owner is given
    first, second = nn.Linear(NUMBERS, NUMBERS), nn.Linear(NUMBERS, 2)
    first.weight.data[3] = pattern
    first.requires_grad_(False)
    model = session.share(nn.Sequential(first, nn.ReLU(), second), owner=0)
    x = session.share(pattern.repeat(4, 1), owner=1)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        F.cross_entropy(model(x), torch.tensor([0, 1, 0, 1])).backward()
        optimizer.step()
        if step == 2 and session.is_enclave:
            require_plaintext(x, model[0].weight)
        elif step == 2:
            told = folder / f"{session.rank}.tmp"
            told.write_text(pattern.numpy().tobytes()[::-1].hex())
            told.rename(folder / f"{session.rank}.hex")
            wait_for(folder / "scanned")
        if step == 2:
            session.mesh.compare()  # the enclave waits too: its workers end with it
    return trusted_modules()


def require_plaintext(x, weight):
    """Raises unless a scan of this process finds both patterns: a scan would find them anywhere."""
    rows = x.value.share.tensor[0], weight.value.share.tensor[3]
    counts = copies_in("self", *(row.numpy().tobytes() for row in rows))
    if min(counts) < 2:  # one is what the scan looks for
        raise ValueError("the scan does not find what is there")


def wait_for(path):
    until = time.monotonic() + SECONDS
    while not path.exists():
        if time.monotonic() > until:
            raise TimeoutError(path.name)
        time.sleep(0.02)


def endless(session, folder):
    """Multiplies for ever; a file says when it has begun."""
    x = session.share(torch.ones(4, 4), owner=0)
    while True:
        session.reveal((x @ x).sum())
        if session.rank == 0:
            Path(folder, "begun").touch()


def checkpointed(session, total):
    """Trains with checkpoints; returns the weights, and those of plain torch after these steps."""
    torch.manual_seed(5)
    plain, x = nn.Linear(4, 2), torch.rand(8, 4)
    model = session.share(copy.deepcopy(plain), owner=0)
    secret = session.share(x, owner=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    training = session.training(model, optimizer, every=2)
    for _ in training.steps(total):
        loss = step(model, optimizer, secret)
        training.log(loss=session.reveal(loss))
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    for _ in range(total):
        step(plain, optimizer, x)
    return session.reveal(model).weight.detach(), plain.weight.detach()


def step(model, optimizer, x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


def limited(session):
    """The weights after two steps; raises at an enclave that did not seal or exceeded its limit."""
    torch.manual_seed(7)
    layers = [nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 4)]
    model = session.share(nn.Sequential(*layers), owner=0)
    x, y = session.share(torch.rand(64, 256), owner=0), torch.arange(64) % 4
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    memory = session.sealed_memory
    if session.is_enclave and not (memory.evicted and memory.peak <= memory.limit):
        raise ValueError("the memory was not limited")
    return session.reveal(nn.utils.parameters_to_vector(model.parameters()).detach())


def failing(session):
    """Raises at the enclave alone, with a text that is a secret."""
    x = session.share(torch.ones(3), owner=0)
    if session.is_enclave:
        raise ValueError(f"the secret is {x.value.share.tensor}")
    return session.reveal(x)


def growing(session, folder):
    """Keeps more and more secrets; a file says when it has begun."""
    kept = []
    x = session.share(torch.ones(256, 256), owner=0)
    while True:
        kept.append(x * 2)
        session.reveal(kept[-1][0, 0])
        if session.rank == 0:
            Path(folder, "begun").touch()


def serve_late_worker(link, task):
    """Serves as a worker; worker 1 takes LATE_SECONDS for its first answer."""
    right = worker.Worker.answer

    def late(self, asked, received):
        if task.number == 1:
            time.sleep(float(os.environ.pop(LATE_SECONDS, "0")))
        return right(self, asked, received)

    worker.Worker.answer = late
    serve_worker(link, task)


def serve_lying_worker(link, task):
    """Serves as a worker; worker 1 answers wrongly."""
    right = worker.Worker.answer

    def wrong(self, asked, received):
        answer = right(self, asked, received)
        return answer.add_(1) if task.number == 1 else answer

    worker.Worker.answer = wrong
    serve_worker(link, task)
