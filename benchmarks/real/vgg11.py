"""VGG-11 learns CIFAR-10 as Goten trains it. One script for every protocol, and for plain torch.

    python -m benchmarks.real.vgg11 --protocol enclave --precision swalp
    python -m benchmarks.real.vgg11 --protocol trio --width 8 --pictures 512 --batch 64 --epochs 1

Party 0 has the network and gets it trained, party 1 has the pictures. The defaults are the paper's:
batches of 512, SGD with a rate of 0.5 that is halved every 30 epochs, momentum 0.9 and weight decay
5e-4. In the last epochs the rate goes to a constant and the weights are averaged, as SWALP does.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, fields
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD
from torch.optim.lr_scheduler import StepLR
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn

import tacit
from tacit import zoo

from . import vision

MOMENTUM, DECAY = 0.9, 5e-4
CLASSES = 10
MEAN, DEVIATION = 120.7, 64.2  # of all pixels of the training set
DEADLINE = 600.0
DRAWING = Lock()  # torch has one generator for all threads, and so for parties that are threads


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is trained, on how much, and how.

    width: channels of the first layer.
    averaged_epochs: so many epochs at the end have another rate, and weights that are averaged.
    average_every: so many steps lie between two weights of the average.
    seed: of the first weights, the chosen pictures and their order.
    """

    width: int = 64
    pictures: int = 50_000
    batch: int = 512
    epochs: int = 200
    rate: float = 0.5
    halved_every: int = 30
    averaged_epochs: int = 20
    averaged_rate: float = 0.01
    average_every: int = 98
    seed: int = 0

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of the pictures, and of their classes."""
        return [(self.pictures, 3, 32, 32), (self.pictures, CLASSES)]

    def network(self) -> nn.Module:
        """A network with random weights, the same for all parties."""
        with DRAWING, torch.random.fork_rng():
            torch.manual_seed(self.seed)
            return zoo.goten_vgg(width=self.width)

    def batches(self, epoch: int) -> tuple[Tensor, ...]:
        """The rows of each batch of an epoch, in an order that all parties know."""
        generator = torch.Generator().manual_seed(1000 * self.seed + epoch)
        return torch.randperm(self.pictures, generator=generator).split(self.batch)


def train(
    model: nn.Module, x: Tensor, y: Tensor, plan: Plan, report: Callable[[Tensor], None]
) -> AveragedModel:
    """Trains in place, and returns the model with averaged weights; all secret, or all plain.

    `report` gets the last loss of each epoch.
    """
    optimizer = SGD(model.parameters(), plan.rate, momentum=MOMENTUM, weight_decay=DECAY)
    schedule = StepLR(optimizer, plan.halved_every, gamma=0.5)
    averaged, constant = AveragedModel(model), SWALR(optimizer, plan.averaged_rate, anneal_epochs=1)
    for epoch in range(plan.epochs):
        is_averaged = epoch >= plan.epochs - plan.averaged_epochs
        for step, rows in enumerate(plan.batches(epoch), 1):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            if is_averaged and step % plan.average_every == 0:
                averaged.update_parameters(model)
        report(loss.detach())
        (constant if is_averaged else schedule).step()
    update_bn((x[rows] for rows in plan.batches(0)), averaged)
    return averaged


def learn(session: tacit.Session, plan: Plan) -> tuple[list[float], nn.Module, nn.Module]:
    """Returns the losses, and to party 0 the network and the one with averaged weights."""
    owns = session.rank == 1
    given = pictures(plan) if owns else [torch.empty(shape) for shape in plan.shapes]
    x, y = session.share(list(given), owner=1)
    model = session.share(plan.network(), owner=0)
    losses: list[float] = []
    averaged = train(model, x, y, plan, lambda loss: losses.append(float(session.reveal(loss))))
    return losses, session.reveal(model, to=0), session.reveal(averaged.module, to=0)


def learn_in_plain(
    plan: Plan, device: str | None = None
) -> tuple[list[float], nn.Module, nn.Module]:
    """The same without secrets, in float32 on a device."""
    losses: list[float] = []
    model = plan.network().to(device)
    x, y = (part.to(device) for part in pictures(plan))
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        averaged = train(model, x, y, plan, lambda loss: losses.append(float(loss)))
    return losses, model.cpu(), averaged.module.cpu()


def normalised(images: Tensor) -> Tensor:
    return (images - MEAN) / DEVIATION


def pictures(plan: Plan) -> tuple[Tensor, Tensor]:
    """Some of the training set, with a column for each class."""
    images, labels = vision.cifar10_train()
    generator = torch.Generator().manual_seed(plan.seed)
    chosen = torch.randperm(len(images), generator=generator)[: plan.pictures]
    return normalised(images[chosen]), F.one_hot(labels[chosen], CLASSES).float()


@torch.no_grad()
def accuracy(model: nn.Module) -> float:
    """How many of 100 test pictures a plain network has right."""
    images, labels = vision.cifar10_test()
    model.eval()
    found = torch.cat([model(part).argmax(1) for part in normalised(images).split(1000)])
    return 100 * float((found == labels).float().mean())


def main() -> None:
    """Trains with the settings of the command line, and prints losses and accuracies."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real.vgg11", description=__doc__)
    for one in fields(Plan):
        kind = type(one.default)
        parser.add_argument(f"--{one.name.replace('_', '-')}", type=kind, default=one.default)
    parser.add_argument("--protocol", default="enclave", help='"none" is plain torch')
    parser.add_argument("--precision", help="of an enclave: fixed or swalp")
    parser.add_argument("--outsourcing", help="of an enclave: three-server, two-server or none")
    parser.add_argument("--device", help="of parties, of an enclave's workers, or of plain torch")
    given = vars(parser.parse_args())
    settings = {
        name: given.pop(name) for name in ("protocol", "precision", "outsourcing", "device")
    }
    plan = Plan(**given)
    chosen: dict[str, Any] = {name: value for name, value in settings.items() if value}
    if chosen["protocol"] == "none":
        losses, model, averaged = learn_in_plain(plan, chosen.get("device"))
    else:
        losses, model, averaged = tacit.run(learn, plan, deadline=DEADLINE, **chosen)[0]
    print(f"losses {', '.join(f'{loss:.3f}' for loss in losses)}")
    print(f"{accuracy(model):.2f} % right, with averaged weights {accuracy(averaged):.2f} %")


if __name__ == "__main__":
    main()
