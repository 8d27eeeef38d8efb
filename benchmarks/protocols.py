"""Operations of three parties in this process beside SecretFlow SPU's, taking turns in one run.

Trio, 64 bits, 16 fraction bits, exact truncation; SPU: see benchmarks/peer.py. Seconds are of the
slowest party. Memory is the growth of the process at its peak, inputs apart, divided by
elements and parties, in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from benchmarks.measure import Row
from benchmarks.peer import Match, Peer, Turns

import tacit
from tacit.protocols import Arith, Protocol

REPETITIONS = 5
F = 16
REACH = 1 << 10  # real values stay below this where a limit is promised

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Case:
    """name: of the row; peer: SPU's case; promise: whether |x| < 2^10 is promised."""

    name: str
    peer: str
    target: float | None
    shapes: Shapes
    call: Callable[..., Any]
    promise: bool = True

    @property
    def elements(self) -> int:
        return torch.Size(self.shapes[0]).numel()


def relu(p: Protocol, x: Arith) -> Arith:
    return p.relu(x)


def matmul(p: Protocol, a: Arith, b: Arith) -> Arith:
    return p.settled(p.matmul(a, b, shift=F))


def conv(p: Protocol, x: Arith, weight: Arith) -> Arith:
    return p.settled(p.conv(x, weight, 1, 1, shift=F))


def conv_relu(p: Protocol, x: Arith, weight: Arith) -> Arith:
    return p.relu(p.conv(x, weight, 1, 1, shift=F))


def pool(p: Protocol, x: Arith) -> Arith:
    n, c, h, w = x.shape
    windows = x.reshape(n, c, h // 2, 2, w // 2, 2).permute(0, 1, 2, 4, 3, 5)
    return p.max(windows.reshape(n, c, h // 2, w // 2, 4), -1)


MILLION: Shapes = ((1_000_000,),)
IMAGE: Shapes = ((1, 64, 56, 56), (64, 64, 3, 3))
POOLED: Shapes = ((1, 64, 64, 64),)
CASES = [
    Case("ReLU of 1,000,000", "relu", 15, MILLION, relu),
    Case("ReLU of 1,000,000, nothing promised", "relu", None, MILLION, relu, promise=False),
    Case("matmul 512 x 512 x 512", "matmul", 5, ((512, 512), (512, 512)), matmul),
    Case("conv (1,64,56,56) x (64,64,3,3)", "conv", 8, IMAGE, conv),
    Case("the same conv and a ReLU, beside the conv", "conv", None, IMAGE, conv_relu),
    Case("max-pool 2 x 2 of (1,64,64,64)", "pool", 10, POOLED, pool),
    Case("the same, nothing promised", "pool", None, POOLED, pool, promise=False),
]


def party(session: tacit.Session, case: Case, match: Match) -> Turns:
    p = session.protocol
    limit = REACH << F if case.promise else None
    secrets = []
    for owner, shape in enumerate(case.shapes, 1):
        value = (torch.randn(shape) * (1 << F)).long() if session.rank == owner else None
        secrets.append(p.share(value, owner, shape, limit=limit))
    return match.play(session, lambda: case.call(p, *secrets))


def row(case: Case, peer: Peer) -> Row:
    match = Match(case.name, case.peer, case.target, REPETITIONS, threading.Barrier(3), peer)
    measured = tacit.run(party, case, match)
    return match.row(measured, f"memory {peak_bytes(case):.0f} bytes an element and party")


def rows() -> list[Row]:
    peer = Peer()
    try:
        return [row(case, peer) for case in CASES]
    finally:
        peer.close()


def peak_bytes(case: Case) -> float:
    """Bytes that a process grows by at its peak, for an element of the first operand and party."""
    command = [sys.executable, "-m", "benchmarks.protocols", case.name]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(found.stdout) / case.elements / 3


def resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024


def party_memory(session: tacit.Session, case: Case, turn: threading.Barrier) -> int:
    p = session.protocol
    limit = REACH << F if case.promise else None
    small = p.share(torch.arange(64) if session.rank == 1 else None, 1, (64,), limit=limit)
    p.relu(small)  # what is allocated once
    secrets = []
    for owner, shape in enumerate(case.shapes, 1):
        value = torch.zeros(shape, dtype=torch.int64) if session.rank == owner else None
        secrets.append(p.share(value, owner, shape, limit=limit))
    turn.wait()
    before = resident("VmRSS")
    if session.rank == 0:
        Path("/proc/self/clear_refs").write_text("5")
    turn.wait()
    case.call(p, *secrets)
    turn.wait()
    return resident("VmHWM") - before


if __name__ == "__main__":
    [chosen] = [case for case in CASES if case.name == sys.argv[1]]
    print(max(tacit.run(party_memory, chosen, threading.Barrier(3))))
