"""Two parties alone, without a dealer, beside the same two with one, taking turns.

One picture through two networks, one party's model and the other's picture: threads of this
process, then processes with TLS. The second inference of a session counts: the first pays for the
setup. Then a training: the example `07_two_parties_alone.py`, whose answers must be as good as
those of a plain training.
"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from benchmarks.measure import Row
from torch import nn

import tacit
from tacit import zoo

DEMAND = 20.0  # seconds for a picture
EXAMPLE = Path(__file__).parents[1] / "examples" / "07_two_parties_alone.py"
NETWORKS = {"LeNet-5": "lenet5", "LeNet": "lenet"}


def inference(session: tacit.Session, name: str) -> tuple[float, float, float, float]:
    """Seconds of the first and the second inference, bytes sent, and the largest error."""
    torch.manual_seed(0)
    plain, x = getattr(zoo, name)().eval(), torch.rand(1, 1, 28, 28)
    torch.manual_seed(0)
    model = session.share(getattr(zoo, name)().eval(), owner=0)
    picture, seconds = session.share(x, owner=1), []
    with torch.no_grad():
        for _ in range(2):
            begin = time.perf_counter()
            with session.stats.scope("inference") as spent:
                found = session.reveal(model(picture))
            seconds.append(time.perf_counter() - begin)
        error = float((found - plain(x)).abs().max())
    return seconds[0], seconds[1], spent.bytes_sent, error


def inference_row(title: str, name: str, transport: str) -> Row:
    settings: dict[str, Any] = {"parties": 2, "protocol": "additive", "transport": transport}
    alone = tacit.run(inference, name, dealer="none", **settings)
    dealt = tacit.run(inference, name, **settings)
    first, second, _, error = alone[0]
    sent = sum(found[2] for found in alone) / 1e6
    return Row(
        name=f"a picture through {title}, {transport}",
        value=second,
        unit="s",
        baseline="demanded",
        baseline_value=DEMAND,
        target=1,
        lower_is_better=True,
        note=f"{sent:.0f} MB in both directions, {first:.2g} s with the setup, {dealt[0][1]:.2g} s "
        f"with a dealer; largest error {error:.1e}",
    )


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("two_parties_alone", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def training_row() -> Row:
    alone = example()
    begin = time.perf_counter()
    settings: dict[str, Any] = {"parties": 2, "protocol": "additive", "dealer": "none"}
    answers = tacit.run(alone.main, **settings)[alone.CLINIC]
    seconds = time.perf_counter() - begin
    x, y = alone.patients()
    torch.manual_seed(0)
    model = alone.trained(x[: alone.TRAIN], y[: alone.TRAIN], nn.Linear(30, 1))
    plain, truth = model(x[alone.TRAIN :]) > 0, y[alone.TRAIN :] > 0
    steps = alone.EPOCHS * alone.TRAIN // alone.BATCH
    return Row(
        name="logistic regression on breast cancer, patients diagnosed rightly",
        value=float((answers == truth).sum()),
        unit=f"of {alone.TEST}",
        baseline="a plain training",
        baseline_value=float((plain == truth).sum()),
        target=0.98,
        note=f"{steps} steps of {alone.BATCH} rows in {seconds:.3g} s, in threads",
    )


def rows() -> list[Row]:
    """Inference with both networks and both transports, and the training."""
    made = [
        inference_row(title, name, transport)
        for title, name in NETWORKS.items()
        for transport in ("threads", "processes")
    ]
    return [*made, training_row()]
