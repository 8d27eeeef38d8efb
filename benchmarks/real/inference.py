"""How the suites of private inference run a network, and what they report of it.

All parties in this process, three and `trio` unless others are asked for, default settings, batch
normalisation folded by the owner.
Every output is compared with the plain network's: the class it names, and for each picture the
largest difference in parts of the largest output.
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import Any

import torch
from benchmarks.measure import Row
from torch import Tensor, nn

import tacit
from tacit.nn import fold_batch_norm

ALLOWED = 10.0  # thousandths of the largest output
DEADLINE = 600.0  # a party computes long on a large picture, and the others wait for it


@dataclass(frozen=True)
class Outcome:
    """What a run gave, beside the plain network's."""

    got: Tensor
    plain: Tensor
    seconds: float
    plain_seconds: float

    @property
    def agreement(self) -> float:
        """In how many of 100 pictures both name the same class."""
        return 100 * float((self.got.argmax(1) == self.plain.argmax(1)).float().mean())

    @property
    def error(self) -> float:
        """The largest of a picture, in thousandths of its largest output."""
        off = (self.got - self.plain).abs().amax(1) / self.plain.abs().amax(1)
        return 1000 * float(off.max())


def party(session: tacit.Session, model: nn.Module, batches: list[Tensor]) -> tuple[Tensor, float]:
    """The outputs, and seconds of all batches; the model is party 0's, the pictures party 1's."""
    own = session.share(copy.deepcopy(model), owner=0)
    begin = time.perf_counter()
    with torch.no_grad():
        outs = [session.reveal(own(session.share(batch, owner=1))) for batch in batches]
    return torch.cat(outs), time.perf_counter() - begin


def compare(model: nn.Module, images: Tensor, batch: int, **parties: Any) -> Outcome:
    """A plain and a private run, by these parties, of the model over the same batches."""
    batches = list(images.split(batch))
    begin = time.perf_counter()
    with torch.no_grad():
        plain = torch.cat([model(images) for images in batches])
    plain_seconds = time.perf_counter() - begin
    folded = fold_batch_norm(model).eval()
    results = tacit.run(party, folded, batches, deadline=DEADLINE, **parties)
    got, seconds = results[0][0], max(seconds for _, seconds in results)
    return Outcome(got, plain, seconds, plain_seconds)


def compared(
    name: str, model: nn.Module, images: Tensor, *, batch: int, **parties: Any
) -> list[Row]:
    """Agreement, error and time of one network."""
    outcome = compare(model, images, batch, **parties)
    count = len(outcome.plain)
    pictures = f"{count} picture{'s' if count > 1 else ''}, {min(batch, count)} at a time"
    return [
        Row(
            name=f"{name}: same class",
            value=outcome.agreement,
            unit="%",
            baseline="plain network",
            baseline_value=100,
            target=0.99,
            note=pictures,
        ),
        Row(
            name=f"{name}: largest error",
            value=outcome.error,
            unit="‰ of largest",
            baseline="allowed",
            baseline_value=ALLOWED,
            target=1,
            lower_is_better=True,
        ),
        Row(
            name=f"{name}: a picture",
            value=outcome.seconds / count,
            unit="s",
            baseline="plain network",
            baseline_value=outcome.plain_seconds / count,
        ),
    ]
