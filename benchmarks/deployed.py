"""What parties in processes of their own reach with recorded steps, beside what they should.

Three parties, trio, 64 bits, 16 fraction bits, exact truncation, in processes with TLS on this
machine unless a name says otherwise; random weights, batch normalisation folded. Steps are recorded
(`session.repeated`). Milliseconds are of the slowest party, the median of five after warm-up, begun
together, a GPU idle before and after. Every output is compared with that of plain torch; a case
with a wrong one has no figure. The baseline is the target; a note says what it was before plans.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch
from benchmarks.deployed_links import link_rows
from benchmarks.measure import Row, chosen, elapsed, replayed_ms
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Adam, Optimizer

import tacit
from tacit import zoo
from tacit.errors import PartyFailed
from tacit.nn import fold_batch_norm

REPETITIONS, WARM_UP = 5, 6
DEADLINE = 300.0
LARGEST_ERROR = 2e-2  # of the largest output
_BUILDING = threading.Lock()  # parties that are threads have one random generator


class Product(nn.Module):
    """A matrix product of two inputs."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x @ y


def pictures(batch: int, *shape: int) -> list[Tensor]:
    return [torch.rand(batch, *shape) * 2 - 1]


def tokens(count: int) -> list[Tensor]:
    return [torch.randint(1, 30_000, (1, count))]


def matrices(size: int) -> list[Tensor]:
    return [torch.randn(size, size), torch.randn(size, size)]


@dataclass(frozen=True)
class Case:
    """A model and its inputs, public if they are integers; with an optimizer, a training step."""

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[], list[Tensor]]
    target: float | None  # milliseconds
    before: str  # milliseconds before plans
    transport: str = "processes"
    optimizer: Callable[..., Optimizer] | None = None

    @property
    def device(self) -> str:
        return "cuda" if self.name.startswith("GPU") else "cpu"


CIFAR, LARGE = (3, 32, 32), (3, 224, 224)
_lenet, _cifar = partial(pictures, 1, 1, 28, 28), partial(pictures, 1, *CIFAR)
_large, _training = partial(pictures, 1, *LARGE), partial(pictures, 128, *CIFAR)
VGG, RESNET = "VGG-16, CIFAR-10", "ImageNet, batch"
ALEXNET = "AlexNet, CIFAR-10"
TRAIN = f"GPU: train {ALEXNET}, batch 128"
# Gradients below a unit, 2^-16, are 0 here. With torch's own eps such a one moves a weight as far
# as any other does, so that the weights of plain torch would be others after a few steps.
ADAM = partial(Adam, eps=1e-3)

CASES = [
    Case("CPU: LeNet, threads", zoo.lenet, _lenet, 12, "33 (N1)", "threads"),
    Case("CPU: LeNet", zoo.lenet, _lenet, 12, "29 (x86)"),
    Case("CPU: matmul 512, threads", Product, partial(matrices, 512), 35, "86 (x86)", "threads"),
    Case("CPU: matmul 512", Product, partial(matrices, 512), None, "86 (x86) in threads"),
    Case(f"CPU: {VGG}, threads", zoo.small_vgg, _cifar, 200, "381 (x86)", "threads"),
    Case(f"CPU: {VGG}", zoo.small_vgg, _cifar, 250, "526 (x86)"),
    Case(f"CPU: {ALEXNET}, threads", zoo.small_alexnet, _cifar, 80, "384 (x86)", "threads"),
    Case(f"CPU: {ALEXNET}", zoo.small_alexnet, _cifar, None, "384 (x86) in threads"),
    Case(f"GPU: {VGG}, batch 1", zoo.small_vgg, _cifar, 25, "85"),
    Case(f"GPU: {VGG}, batch 64", zoo.small_vgg, partial(pictures, 64, *CIFAR), 190, "1,030"),
    Case(f"GPU: ResNet-18, {RESNET} 1", zoo.resnet18, _large, 60, "278"),
    Case(f"GPU: ResNet-50, {RESNET} 1", zoo.resnet50, _large, 200, "930"),
    Case(f"GPU: ResNet-50, {RESNET} 8", zoo.resnet50, partial(pictures, 8, *LARGE), 780, "4,400"),
    Case("GPU: BERT, 128 tokens", zoo.bert, partial(tokens, 128), 500, "4,350"),
    Case("GPU: GPT-2, 64 tokens", zoo.gpt2, partial(tokens, 64), 400, "not measured"),
    Case("GPU: BERT, threads", zoo.bert, partial(tokens, 128), 90, "3,052", "threads"),
    Case("GPU: GPT-2, threads", zoo.gpt2, partial(tokens, 64), 70, "3,162", "threads"),
    Case(f"{TRAIN}, SGD", zoo.small_alexnet, _training, 120, "400", optimizer=SGD),
    Case(f"{TRAIN}, Adam", zoo.small_alexnet, _training, 400, "8,600", optimizer=ADAM),
    Case(f"{TRAIN}, SGD, threads", zoo.small_alexnet, _training, None, "15 to 25", "threads", SGD),
    Case(f"{TRAIN}, Adam, threads", zoo.small_alexnet, _training, 30, "2,100", "threads", ADAM),
]
BY_NAME = {case.name: case for case in CASES}


@dataclass(frozen=True)
class Measured:
    """What one party saw: milliseconds of a step, its scores, and what is recorded of it."""

    ms: float
    scores: Tensor
    recorded: str


def built(case: Case) -> tuple[nn.Module, list[Tensor]]:
    """Returns the model and its inputs, the same at all parties."""
    with _BUILDING:
        torch.manual_seed(7)
        inputs, model = case.inputs(), case.make()
        if any(isinstance(one, nn.BatchNorm2d) for one in model.modules()):
            with torch.no_grad():
                for _ in range(3):
                    model.train()(torch.rand(4, *inputs[0].shape[1:]) * 2 - 1)
            model = fold_batch_norm(model.eval())
        return model.train(case.optimizer is not None), inputs


def stepping(case: Case, model: nn.Module) -> Callable[..., Tensor]:
    """Returns a step: scores of the inputs, and with an optimizer an update of the weights."""

    def infer(*inputs: Tensor) -> Tensor:
        with torch.no_grad():
            made = model(*inputs)
        scores: Tensor = made if isinstance(made, Tensor) else made[0]
        return scores

    if case.optimizer is None:
        return infer
    optimizer = case.optimizer(model.parameters(), lr=1e-3)

    def train(x: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        scores: Tensor = model(x)
        F.cross_entropy(scores, labels).backward()
        optimizer.step()
        return scores.detach()

    return train


def arguments(case: Case, inputs: list[Tensor]) -> list[Tensor]:
    """Returns what a step takes: the inputs, and for a training labels of ten classes."""
    if case.optimizer is None:
        return inputs
    return [*inputs, F.one_hot(torch.arange(len(inputs[0])) % 10, 10).float()]


def party(session: tacit.Session, name: str) -> Measured:
    case = BY_NAME[name]
    model, inputs = built(case)
    own = session.share(model, owner=0)
    given = [
        session.share(x, owner=1) if x.is_floating_point() else x for x in arguments(case, inputs)
    ]
    step = session.repeated(stepping(case, own))
    ms, scores = replayed_ms(
        lambda: step(*given), session, warm_up=WARM_UP, repetitions=REPETITIONS
    )
    return Measured(ms, session.reveal(scores).cpu(), step.summary().splitlines()[-1].strip())


def plain(case: Case) -> tuple[float, Tensor]:
    """Returns milliseconds of a step in plain torch, and the scores of the last one of parties."""
    model, inputs = built(case)
    step, given, seconds = stepping(case, model), arguments(case, inputs), []
    warm_up, repetitions = (WARM_UP, REPETITIONS) if case.optimizer else (1, 2)
    for _ in range(warm_up + repetitions):
        begin = time.perf_counter()
        scores = step(*given)
        seconds.append(time.perf_counter() - begin)
    return 1e3 * median(seconds[warm_up:]), scores


def row(name: str) -> Row:
    case = BY_NAME[name]
    plain_ms, wanted = plain(case)
    found = tacit.run(party, name, device=case.device, transport=case.transport, deadline=DEADLINE)
    error = max(float((one.scores - wanted).abs().max() / wanted.abs().max()) for one in found)
    if not error <= LARGEST_ERROR:
        raise WrongOutput(f"off by {error:.3f} of the largest output")
    return Row(
        name=name,
        value=max(one.ms for one in found),
        unit="ms",
        baseline="target" if case.target else "plain torch, CPU",
        baseline_value=case.target or plain_ms,
        target=1.0 if case.target else None,
        lower_is_better=True,
        note=f"before plans {case.before}; {cores()}; error {error:.1e} of the largest output; "
        f"plain torch on the CPU {plain_ms:.1f} ms; party 1: {found[1].recorded}",
    )


class WrongOutput(RuntimeError):
    """Parties computed something else than plain torch."""


def cores() -> str:
    return f"{len(os.sched_getaffinity(0))} cores"


def rows(only: Sequence[str] = ()) -> Iterator[Row]:
    """All cases that this machine can run, or those with one of these texts in their names."""
    cases: list[tuple[str, Callable[[], list[Row]]]]
    cases = [(case.name, partial(_listed, case.name)) for case in CASES]
    cases += link_rows("cuda" if torch.cuda.is_available() else "cpu")
    for name, run in chosen(cases, only):
        with elapsed(name):
            made = attempted(name, run)
        yield from made


def _listed(name: str) -> list[Row]:
    return [row(name)]


def attempted(name: str, run: Callable[[], list[Row]]) -> list[Row]:
    """The rows of a case, printed at once; none if it fails or gives wrong outputs."""
    if name.startswith("GPU") and not torch.cuda.is_available():
        return []
    try:
        made = run()
    except (PartyFailed, WrongOutput, ImportError) as error:
        print(f"  {name}: left out: {str(error).splitlines()[0]}", flush=True)
        return []
    for one in made:
        print(f"  {one.name}: {one.value:.4g} {one.unit}; {one.note}", flush=True)
    return made
