"""Where it pays to compute: the GPU beside the CPU of the same machine, layer by layer.

Three parties in one process. Convolutions and ReLUs of the sizes of the CryptGPU paper, with
everything on the CPU and with everything on the GPU; then a network with everything on the GPU
beside the same with its products only there, as PIGEON. Median of five, after warm-up.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from benchmarks.cryptgpu import meet
from benchmarks.measure import Row
from benchmarks.real.fetch import Unavailable
from torch import Tensor, nn
from torch.nn import functional as F

import tacit
from tacit import zoo
from tacit.nn import fold_batch_norm

REPETITIONS = 5
RELUS = (10_000, 100_000, 1_000_000, 10_000_000)
CONVOLUTIONS = (  # batch, channels, side, channels out, kernel, padding
    (1, 3, 32, 64, 3, 1),
    (1, 64, 56, 64, 3, 1),
    (1, 512, 14, 512, 3, 1),
    (8, 64, 56, 64, 3, 1),
)
NETWORKS: tuple[tuple[str, Callable[[], nn.Module], tuple[int, ...]], ...] = (
    ("VGG-16, CIFAR-10, batch 1", zoo.small_vgg, (1, 3, 32, 32)),
    ("ResNet-18, ImageNet, batch 8", zoo.resnet18, (8, 3, 224, 224)),
)


def party(
    session: tacit.Session, operation: Callable[..., Tensor], operands: tuple[Any, ...]
) -> float:
    """Seconds of an operation on secrets."""
    secret = [session.share(copy.deepcopy(x), owner=1) for x in operands]
    repeated = session.repeated(operation)
    seconds = []
    for repetition in range(REPETITIONS + 4):
        meet(session)
        begin = time.perf_counter()
        with torch.no_grad():
            session.numbers.settled(repeated(*secret).value)  # type: ignore[attr-defined]
        meet(session)
        if repetition > 3:
            seconds.append(time.perf_counter() - begin)
    return median(seconds)


def seconds(operation: Callable[..., Tensor], *operands: Any, **where: Any) -> float:
    return max(tacit.run(party, operation, operands, deadline=120.0, **where))


def row(name: str, ours: float, baseline: str, base: float, shape: str = "") -> Row:
    """How many times as fast as the baseline."""
    return Row(
        name=name,
        value=1 / ours,
        unit="runs/s",
        baseline=baseline,
        baseline_value=1 / base,
        note=f"{ours:.4f} s to {base:.4f}{shape}",
    )


def on_both(name: str, operation: Callable[..., Tensor], *operands: Tensor) -> Row:
    found = {where: seconds(operation, *operands, device=where) for where in ("cuda", "cpu")}
    return row(name, found["cuda"], "CPU", found["cpu"])


def _relus() -> list[Row]:
    return [on_both(f"ReLU of {n:,}", torch.relu, torch.randn(n)) for n in RELUS]


def _convolutions() -> list[Row]:
    made = []
    for n, c, side, out, k, padding in CONVOLUTIONS:
        x, weight = torch.randn(n, c, side, side), torch.randn(out, c, k, k) / (c * k * k) ** 0.5

        def conv(x: Tensor, weight: Tensor, padding: int = padding) -> Tensor:
            return F.conv2d(x, weight, padding=padding)

        name = f"conv ({n},{c},{side},{side}) x ({out},{c},{k},{k})"
        made.append(on_both(name, conv, x, weight))
    return made


def _networks() -> list[Row]:
    made = []
    for name, make, shape in NETWORKS:
        torch.manual_seed(2)
        model, x = fold_batch_norm(make().eval()), torch.rand(shape)

        def infer(model: nn.Module, x: Tensor) -> Tensor:
            return model(x)

        found = {
            place: seconds(infer, model, x, device="cuda", placement=place)
            for place in ("gpu", "linear")
        }
        made.append(row(f"{name}: all on the GPU", found["gpu"], "products only", found["linear"]))
    return made


def rows() -> list[Row]:
    if not torch.cuda.is_available():
        raise Unavailable("torch finds no GPU on this machine")
    return [*_relus(), *_convolutions(), *_networks()]
