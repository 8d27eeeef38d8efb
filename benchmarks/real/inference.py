"""Private inference by networks as they are used: trained ones on real pictures, large ones whole.

Three parties in this process, trio, default settings, batch normalisation folded by the owner.
Every output is compared with the plain network's: the class it names, and for each picture the
largest difference in parts of the largest output.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from benchmarks.measure import Row
from torch import Tensor, nn

import tacit
from tacit import zoo
from tacit.nn import fold_batch_norm

from . import trained, vision

ALLOWED = 10.0  # thousandths of the largest output
DEADLINE = 600.0  # a party computes long on a large picture, and the others wait for it
SIDE = 224


@dataclass(frozen=True)
class Case:
    """A network and its pictures, with what it needs to be run."""

    name: str
    make: Callable[[], tuple[nn.Module, Tensor]]
    batch: int


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


def compare(model: nn.Module, images: Tensor, batch: int) -> Outcome:
    """A plain and a private run of the model over the same batches."""
    batches = list(images.split(batch))
    begin = time.perf_counter()
    with torch.no_grad():
        plain = torch.cat([model(images) for images in batches])
    plain_seconds = time.perf_counter() - begin
    folded = fold_batch_norm(model).eval()
    results = tacit.run(party, folded, batches, deadline=DEADLINE)
    got, seconds = results[0][0], max(seconds for _, seconds in results)
    return Outcome(got, plain, seconds, plain_seconds)


def trained_cifar(count: int = 200) -> tuple[nn.Module, Tensor]:
    return trained.cifar10_network(), vision.cifar10_test()[0][:count]


def trained_resnet(count: int = 20) -> tuple[nn.Module, Tensor]:
    return trained.resnet50(), vision.imagenet_pictures()[0][:count]


def random_network(make: Callable[[], nn.Module]) -> tuple[nn.Module, Tensor]:
    """Kaiming's weights, running statistics of two random pictures; and another one."""
    torch.manual_seed(0)
    model = make()
    for part in model.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = None  # the statistics become those of the next batch
    with torch.no_grad():
        model.train()(torch.randn(2, 3, SIDE, SIDE))
    return model.eval(), torch.randn(1, 3, SIDE, SIDE)


CASES = [
    Case("CIFAR-10 network, trained", trained_cifar, 10),
    Case("ResNet-50, trained on ImageNet, 224 x 224", trained_resnet, 1),
    Case("ResNet-18, random, 224 x 224", lambda: random_network(zoo.resnet18), 1),
    Case("VGG-16, random, 224 x 224", lambda: random_network(zoo.vgg16), 1),
]


def case_rows(case: Case) -> list[Row]:
    outcome = compare(*case.make(), case.batch)
    count = len(outcome.plain)
    pictures = f"{count} picture{'s' if count > 1 else ''}, {case.batch} at a time"
    return [
        Row(
            name=f"{case.name}: same class",
            value=outcome.agreement,
            unit="%",
            baseline="plain network",
            baseline_value=100,
            target=0.99,
            note=pictures,
        ),
        Row(
            name=f"{case.name}: largest error",
            value=outcome.error,
            unit="‰ of largest",
            baseline="allowed",
            baseline_value=ALLOWED,
            target=1,
            lower_is_better=True,
        ),
        Row(
            name=f"{case.name}: a picture",
            value=outcome.seconds / count,
            unit="s",
            baseline="plain network",
            baseline_value=outcome.plain_seconds / count,
        ),
    ]


def rows() -> list[Row]:
    return [row for case in CASES for row in case_rows(case)]
