"""Two parties and a dealer on one GPU beside three parties of `trio`: ResNet-18 at 224 x 224.

In one process the call is recorded and replayed; in processes with TLS it runs as it is. Median of
seven calls, after warm-up.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from benchmarks.measure import Row, replayed_ms
from benchmarks.real.fetch import Unavailable
from torch import Tensor, nn

import tacit
from tacit import zoo
from tacit.nn import fold_batch_norm

REPETITIONS, WARM_UP = 7, 6
TARGETS = {"threads": 20.0, "processes": 120.0}  # ms


def network() -> nn.Module:
    torch.manual_seed(7)
    model = zoo.resnet18()
    with torch.no_grad():
        for _ in range(3):  # statistics of its batch norms
            model.train()(torch.rand(4, 3, 224, 224) * 2 - 1)
    return fold_batch_norm(model.eval()).eval()


def party(session: tacit.Session, model: nn.Module, x: Tensor) -> tuple[float, Tensor]:
    """Milliseconds of a call, and its result."""
    own, picture = session.share(copy.deepcopy(model), owner=0), session.share(x, owner=1)
    call = session.repeated(lambda x: own(x))
    with torch.no_grad():
        ms, scores = replayed_ms(
            lambda: call(picture), session, warm_up=WARM_UP, repetitions=REPETITIONS
        )
    return ms, session.reveal(scores)


def measured(model: nn.Module, x: Tensor, **settings: Any) -> tuple[float, float]:
    """Milliseconds of the slowest party, and the largest error of the scores."""
    found = tacit.run(party, model, x, device="cuda", deadline=120.0, **settings)
    wanted = model(x).detach()
    return max(ms for ms, _ in found), float(
        (found[0][1] - wanted).abs().max() / wanted.abs().max()
    )


def rows() -> list[Row]:
    if not torch.cuda.is_available():
        raise Unavailable("torch finds no GPU on this machine")
    model, x = network(), torch.rand(1, 3, 224, 224) * 2 - 1
    made = []
    for transport, target in TARGETS.items():
        ms, error = measured(model, x, parties=2, protocol="additive", transport=transport)
        trio, _ = measured(model, x, transport=transport)
        made.append(
            Row(
                name=f"ResNet-18, two parties and a dealer, {transport}",
                value=ms,
                unit="ms",
                baseline="trio",
                baseline_value=trio,
                lower_is_better=True,
                note=f"target {target:.0f} ms; relative error {error:.1e}",
            )
        )
    return made
