"""`additive` beside CrypTen, taking turns, two and three parties.

Ours: each party and the dealer a process, TLS over TCP. CrypTen: each party a process, gloo without
encryption, triples made by party 0 (its default). `TACIT_CRYPTEN_PYTHON` names an interpreter that
has it; see benchmarks/peers/run_crypten.py. One thread in each process.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
from benchmarks.measure import Row
from benchmarks.real.fetch import Unavailable
from torch import Tensor, nn

import tacit
from tacit import zoo

CRYPTEN_PYTHON = "TACIT_CRYPTEN_PYTHON"
SCRIPT = Path(__file__).parent / "peers" / "run_crypten.py"
TURNS, REPETITIONS = 3, 3
SPEED, ERROR = 15.0, 0.1  # times as fast, and at most this part of its error


class Measured(NamedTuple):
    """Median seconds of a call, megabytes sent in it, and the largest error of its result."""

    seconds: float
    megabytes: float
    error: float


def matmul(session: tacit.Session) -> tuple[Callable[[], Tensor], Tensor]:
    a, b = torch.randn(512, 512), torch.randn(512, 512)
    x, y = session.share(a, owner=0), session.share(b, owner=1)
    return lambda: x @ y, a @ b


def conv(session: tacit.Session) -> tuple[Callable[[], Tensor], Tensor]:
    a, b = torch.randn(1, 64, 56, 56), torch.randn(64, 64, 3, 3) * 0.06
    x, y = session.share(a, owner=0), session.share(b, owner=1)
    convolve = nn.functional.conv2d
    return lambda: convolve(x, y, padding=1), convolve(a, b, padding=1)


def relu(session: tacit.Session) -> tuple[Callable[[], Tensor], Tensor]:
    a = torch.randn(1_000_000) * 4
    x = session.share(a, owner=0)
    return lambda: torch.relu(x), torch.relu(a)


def lenet(session: tacit.Session) -> tuple[Callable[[], Tensor], Tensor]:
    plain, a = zoo.lenet().eval(), torch.rand(1, 1, 28, 28)
    wanted = plain(a).detach()
    model, x = session.share(plain, owner=0), session.share(a, owner=1)
    return lambda: model(x), wanted


CASES = {"matmul": matmul, "conv": conv, "relu": relu, "lenet": lenet}
NAMES = {
    "matmul": "matmul 512 x 512 x 512",
    "conv": "convolution (1, 64, 56, 56) by (64, 64, 3, 3)",
    "relu": "ReLU of 1,000,000",
    "lenet": "LeNet inference, batch 1",
}


def party(session: tacit.Session, case: str) -> Measured:
    """Times a case at one party; the first call is not measured."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    call, wanted = CASES[case](session)
    seconds = []
    with torch.no_grad():
        result = call()
        for _ in range(REPETITIONS):
            session.mesh.compare()
            with session.stats.scope(case) as cost:
                begin = time.perf_counter()
                session.numbers.settled(call().value)  # type: ignore[attr-defined]
                seconds.append(time.perf_counter() - begin)
    error = float((session.reveal(result) - wanted).abs().max())
    return Measured(median(seconds), cost.bytes_sent / 1e6, error)


def ours(case: str, parties: int) -> Measured:
    found = tacit.run(party, case, parties=parties, protocol="additive", transport="processes")
    return Measured(*(max(column) for column in zip(*found, strict=True)))


def crypten(case: str, parties: int) -> Measured:
    command = [os.environ[CRYPTEN_PYTHON], str(SCRIPT), case, str(parties), str(REPETITIONS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def row(case: str, parties: int) -> Row:
    turns = [(ours(case, parties), crypten(case, parties)) for _ in range(TURNS)]
    mine, theirs = (
        Measured(*map(median, zip(*column, strict=True))) for column in zip(*turns, strict=True)
    )
    return Row(
        name=f"{NAMES[case]}, {parties} parties",
        value=1 / mine.seconds,
        unit="runs/s",
        baseline="CrypTen",
        baseline_value=1 / theirs.seconds,
        target=SPEED,
        note=f"{mine.seconds:.4f} s to {theirs.seconds:.4f}; {mine.megabytes:.2f} MB sent by the "
        f"busiest party to {theirs.megabytes:.2f}; error {mine.error:.1e} to {theirs.error:.1e}",
    )


def rows() -> list[Row]:
    if CRYPTEN_PYTHON not in os.environ:
        raise Unavailable(f"{CRYPTEN_PYTHON} names no interpreter with CrypTen")
    return [row(case, parties) for parties in (2, 3) for case in CASES]
