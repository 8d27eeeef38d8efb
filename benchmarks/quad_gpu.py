"""Four parties of `quad` on one GPU beside three of `trio`: VGG-16 for CIFAR-10, recorded.

All parties are threads of one process, and the call is replayed. Median of fifteen calls, after
warm-up; views are compared when something is revealed, not in each call.
"""

from __future__ import annotations

import torch
from benchmarks.measure import Row, replayed_ms
from benchmarks.real.fetch import Unavailable
from torch import Tensor

import tacit
from tacit import zoo

REPETITIONS, WARM_UP = 15, 6
BATCHES = (1, 64)
TARGET = 2.2  # of trio's time


def party(session: tacit.Session, batch: int) -> tuple[float, Tensor, Tensor]:
    """Milliseconds of a call, its result, and the right one."""
    torch.manual_seed(7)
    model, x = zoo.small_vgg().eval(), torch.rand(batch, 3, 32, 32)
    wanted = model(x).detach()
    own, pictures = session.share(model, owner=0), session.share(x, owner=1)
    call = session.repeated(lambda x: own(x))
    with torch.no_grad():
        ms, scores = replayed_ms(
            lambda: call(pictures), session, warm_up=WARM_UP, repetitions=REPETITIONS
        )
    return ms, session.reveal(scores), wanted


def measured(protocol: str, batch: int) -> tuple[float, float]:
    """Milliseconds of the slowest party, and the largest error beside the largest score."""
    parties = 4 if protocol == "quad" else 3
    found = tacit.run(party, batch, parties=parties, protocol=protocol, device="cuda")
    _, scores, wanted = found[0]
    error = float((scores.cpu() - wanted).abs().max() / wanted.abs().max())
    return max(ms for ms, _, _ in found), error


def rows() -> list[Row]:
    if not torch.cuda.is_available():
        raise Unavailable("torch finds no GPU on this machine")
    made = []
    for batch in BATCHES:
        (trio, _), (quad, error) = measured("trio", batch), measured("quad", batch)
        made.append(
            Row(
                name=f"VGG-16, CIFAR-10, batch {batch}, quad",
                value=quad,
                unit="ms",
                baseline="trio",
                baseline_value=trio,
                target=TARGET,
                lower_is_better=True,
                note=f"relative error {error:.1e}",
            )
        )
    return made
