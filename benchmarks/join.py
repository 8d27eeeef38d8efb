"""Tables of two hospitals, joined by patient on secrets and trained on, beside the same in plain.

The first hospital has 100,000 patients with five features, the second 80,000 with four and a
diagnosis; 60,000 are patients of both. Three processes with TLS on this machine. The rows that
match are either moved together, which tells their number, or stay among the others, whose weight is
0.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from benchmarks.measure import Row
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import tacit

LEFT, RIGHT, COMMON = 100_000, 80_000, 60_000
BATCH, EPOCHS, RATE = 2000, 1, 0.5
OURS, THEIRS = [f"a{i}" for i in range(5)], [f"b{i}" for i in range(4)]
Table = dict[str, object]


@dataclass(frozen=True)
class Measured:
    """What a party measured: seconds and bytes of the join and of an epoch, rows, the model."""

    join_seconds: float
    join_bytes: int
    rounds: int
    epoch_seconds: float
    epoch_bytes: int
    rows: int
    weight: Tensor


def tables(left: int = LEFT, right: int = RIGHT, common: int = COMMON) -> tuple[Table, Table]:
    """Patients of both hospitals; whether one is ill depends on features of both."""
    rng = np.random.default_rng(17)
    ids = rng.permutation(left + right)[: left + right - common] + 10**6
    ours, theirs = ids[:left], ids[left - common :]
    features = rng.normal(size=(left, len(OURS))).astype(np.float32)
    others = rng.normal(size=(right, len(THEIRS))).astype(np.float32)
    known = np.zeros(right, np.float32)
    known[:common] = features[left - common :, 0]
    ill = (known + others[:, 0] - others[:, 1] > 0).astype(np.float32)
    order = rng.permutation(right)
    first = {"patient": ours, **dict(zip(OURS, features.T, strict=True))}
    second = {"patient": theirs[order].astype(str), "ill": ill[order]}
    second |= dict(zip(THEIRS, others[order].T, strict=True))
    return first, second


def train(model: nn.Module, x: Tensor, y: Tensor, weight: Tensor | None) -> None:
    """One epoch of logistic regression; rows of weight 0 change nothing."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for rows in torch.arange(len(x)).split(BATCH):
        optimizer.zero_grad()
        logits = model(x[rows]).squeeze(1)
        losses = binary_cross_entropy_with_logits(logits, y[rows], reduction="none")
        (losses if weight is None else losses * weight[rows]).mean().backward()
        optimizer.step()


def start() -> nn.Linear:
    model = nn.Linear(len(OURS) + len(THEIRS), 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return model


def warm_up(session: tacit.Session | None = None) -> None:
    """One step, so that everything is imported and all parties are there."""
    x, y = torch.zeros(2, len(OURS) + len(THEIRS)), torch.zeros(2)
    model = start()
    if session is not None:
        x, y, model = session.share([x, y, model], owner=0)
    train(model, x, y, None)


def party(session: tacit.Session, size: str | None, counts: tuple[int, int, int]) -> Measured:
    own = tables(*counts)
    left, right = (own[rank] if session.rank == rank else None for rank in (0, 1))
    warm_up(session)
    begin = time.perf_counter()
    with session.stats.scope("join") as cost:
        joined = session.join(left, right, on="patient", size=size)
    middle = time.perf_counter()
    model = session.share(start(), owner=0)
    weight = joined.matched if size is None else None
    with session.stats.scope("epoch") as training:
        train(model, joined[OURS + THEIRS], joined["ill"], weight)
    end = time.perf_counter()
    return Measured(
        middle - begin,
        cost.bytes_sent,
        cost.rounds,
        end - middle,
        training.bytes_sent,
        len(joined),
        session.reveal(model.weight.detach()),
    )


def in_plain(counts: tuple[int, int, int]) -> tuple[float, float, Tensor]:
    """Seconds of a join and an epoch without secrets, and the weights."""
    left, right = tables(*counts)
    warm_up()
    begin = time.perf_counter()
    places = {str(one): row for row, one in enumerate(left["patient"])}  # type: ignore[arg-type, var-annotated]
    pairs = [(places[one], row) for row, one in enumerate(right["patient"]) if one in places]  # type: ignore[arg-type, var-annotated]
    ours, theirs = (list(rows) for rows in zip(*pairs, strict=True))
    columns = [left[name][ours] for name in OURS] + [right[name][theirs] for name in THEIRS]  # type: ignore[index]
    x, y = torch.tensor(np.stack(columns, 1)), torch.tensor(right["ill"][theirs])  # type: ignore[index]
    middle = time.perf_counter()
    model = start()
    train(model, x, y, None)
    return middle - begin, time.perf_counter() - middle, model.weight.detach()


def rows(counts: tuple[int, int, int] = (LEFT, RIGHT, COMMON)) -> list[Row]:
    join_seconds, epoch_seconds, weight = in_plain(counts)
    title = f"{counts[0]:,} x {counts[1]:,} patients"
    found = []
    for size, what in ((None, "rows that match stay where they are"), ("reveal", "moved together")):
        parties = tacit.run(party, size, counts, transport="processes")
        first = parties[0]
        sent = ", ".join(f"{one.join_bytes / 1e6:.0f}" for one in parties)
        most = max(one.rounds for one in parties)
        angle = nn.functional.cosine_similarity(first.weight, weight).item()
        found += [
            Row(
                name=f"join, {title}, {what}",
                value=max(one.join_seconds for one in parties),
                unit="s",
                baseline="in plain",
                baseline_value=join_seconds,
                note=f"{first.rows:,} rows; {sent} MB sent by the parties, {most} rounds",
                lower_is_better=True,
            ),
            Row(
                name=f"epoch of logistic regression, {what}",
                value=max(one.epoch_seconds for one in parties),
                unit="s",
                baseline="in plain",
                baseline_value=epoch_seconds,
                note=f"{first.rows:,} rows in batches of {BATCH:,}; {first.epoch_bytes / 1e6:.0f} "
                f"MB sent by party 0; cosine of the weights with those in plain: {angle:.3f}",
                lower_is_better=True,
            ),
        ]
    return found
