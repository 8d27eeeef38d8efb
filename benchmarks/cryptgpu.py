"""The tables of the CryptGPU paper on one GPU, which three parties in one process share.

Unmodified torch modules with random weights, batch normalisation folded, trio, 64 bits, 16 fraction
bits, exact truncation. Steps are recorded (`session.repeated`); seconds as they are stand beside.
Seconds are of the slowest party, after warm-up, the median of five, the GPU idle before and after;
every output is compared with the plain network's. The baseline is CryptGPU's
own code on an H200, three processes, as measured for this project, or its paper's figure with three
V100s where a name says so. Times on networks add the rounds and the bytes of the busiest party.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch
from benchmarks.measure import Row
from benchmarks.real.fetch import Unavailable
from torch import Tensor, nn
from torch.nn import functional as F

import tacit
from tacit import zoo
from tacit.nn import fold_batch_norm
from tacit.transport import PROFILES, Link, Tally

REPETITIONS = 5
WARM_UP = 2
RELU_SIZE = 10_000_000
OWN, PAPER = "CryptGPU, H200", "CryptGPU's paper"
CIFAR, TINY, LARGE = (3, 32, 32), (3, 64, 64), (3, 224, 224)


@dataclass(frozen=True)
class Case:
    """A network, its input with the batch, the peer's seconds, and how many times it is beaten."""

    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    peer: str
    seconds: float
    target: float | None = None
    trains: bool = False


def tiny_alexnet() -> nn.Module:
    return zoo.small_alexnet("tiny_imagenet", pool="avg")


def tiny_vgg() -> nn.Module:
    return zoo.small_vgg(16, "tiny_imagenet", pool="avg")


CASES = [
    Case("LeNet, MNIST, batch 1", zoo.lenet, (1, 1, 28, 28), PAPER, 0.38),
    Case("AlexNet, CIFAR-10, batch 1", zoo.small_alexnet, (1, *CIFAR), PAPER, 0.91),
    Case("AlexNet, CIFAR-10, batch 64", zoo.small_alexnet, (64, *CIFAR), PAPER, 1.09),
    Case("VGG-16, CIFAR-10, batch 1", zoo.small_vgg, (1, *CIFAR), OWN, 1.41, 0.07),
    Case("VGG-16, CIFAR-10, batch 64", zoo.small_vgg, (64, *CIFAR), OWN, 3.81, 0.19),
    Case("AlexNet, Tiny ImageNet, batch 1", tiny_alexnet, (1, *TINY), PAPER, 0.95),
    Case("VGG-16, Tiny ImageNet, batch 1", tiny_vgg, (1, *TINY), PAPER, 2.30),
    Case("AlexNet, ImageNet, batch 1", zoo.alexnet, (1, *LARGE), PAPER, 1.52),
    Case("VGG-16, ImageNet, batch 1", zoo.vgg16, (1, *LARGE), PAPER, 9.44),
    Case("ResNet-18, ImageNet, batch 1", zoo.resnet18, (1, *LARGE), OWN, 2.00, 0.10),
    Case("ResNet-18, ImageNet, batch 8", zoo.resnet18, (8, *LARGE), OWN, 4.45, 0.22),
    Case("ResNet-50, ImageNet, batch 1", zoo.resnet50, (1, *LARGE), OWN, 5.95, 0.30),
    Case("ResNet-50, ImageNet, batch 8", zoo.resnet50, (8, *LARGE), OWN, 15.6, 0.78),
    Case("ResNet-101, ImageNet, batch 1", zoo.resnet101, (1, *LARGE), PAPER, 17.62),
    Case("ResNet-152, ImageNet, batch 1", zoo.resnet152, (1, *LARGE), PAPER, 25.77, 0.9),
    Case("ResNet-152, ImageNet, batch 8", zoo.resnet152, (8, *LARGE), PAPER, 105.0),
    Case("train LeNet, MNIST, batch 128", zoo.lenet, (128, 1, 28, 28), PAPER, 2.21, None, True),
    Case(
        "train AlexNet, CIFAR-10, batch 128",
        zoo.small_alexnet,
        (128, *CIFAR),
        OWN,
        1.63,
        0.08,
        True,
    ),
    Case("train VGG-16, CIFAR-10, batch 32", zoo.small_vgg, (32, *CIFAR), PAPER, 12.14, None, True),
    Case(
        "train AlexNet, Tiny ImageNet, batch 128",
        tiny_alexnet,
        (128, *TINY),
        PAPER,
        11.30,
        None,
        True,
    ),
    Case(
        "train VGG-16, Tiny ImageNet, batch 8",
        tiny_vgg,
        (8, *TINY),
        PAPER,
        13.75,
        None,
        True,
    ),
]


@dataclass
class Bench:
    """What the parties of a case share: they are threads of one process."""

    case: Case
    models: list[nn.Module]
    x: Tensor
    y: Tensor

    @classmethod
    def of(cls, case: Case) -> Bench:
        torch.manual_seed(7)
        x = torch.rand(case.shape) * 2 - 1
        model = case.make()
        if not case.trains:
            model = _with_statistics(model, x)
        models = [copy.deepcopy(model) for _ in range(3)] + [model]
        classes = model.eval()(x[:1]).shape[1]
        y = F.one_hot(torch.randint(classes, (len(x),)), classes).float()
        return cls(case, models, x, y)


def _with_statistics(model: nn.Module, x: Tensor) -> nn.Module:
    """The network as if trained: its batch normalisation has seen pictures, and is folded."""
    if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules()):
        with torch.no_grad():
            for _ in range(3):
                model.train()(torch.rand(4, *x.shape[1:]) * 2 - 1)
    return fold_batch_norm(model.eval())


def infer(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    with torch.no_grad():
        return model(x)


def train(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """One iteration: forward, backward, a step of gradient descent."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    optimizer.zero_grad()
    scores = model(x)
    F.cross_entropy(scores, y).backward()
    optimizer.step()
    return scores.detach()


@dataclass
class Measured:
    """What one party saw: seconds of repetitions, recorded and as they are, cost of one, its share
    of peak memory."""

    seconds: list[float]
    as_it_is: list[float]
    rounds: int
    sent: int
    memory: float
    scores: Tensor
    split: dict[str, float]


def party(session: tacit.Session, bench: Bench) -> Measured:
    step = train if bench.case.trains else infer
    model = session.share(bench.models[session.rank], owner=0)
    model.train(bench.case.trains)
    x, y = (session.share(value, owner=1) for value in (bench.x, bench.y))
    scores = session.reveal(infer(model, x, y))
    as_it_is, _ = timed(session, lambda: step(model, x, y), WARM_UP)
    repeated = session.repeated(step)
    seconds, cost = timed(session, lambda: repeated(model, x, y), WARM_UP + 2)
    if not bench.case.trains:
        scores = session.reveal(repeated(model, x, y))
    memory = torch.cuda.max_memory_reserved() / session.parties
    split = _split(session, model, x)
    return Measured(seconds, as_it_is, cost.rounds, cost.bytes_sent, memory, scores, split)


def timed(
    session: tacit.Session, step: Callable[[], Tensor], warm_up: int
) -> tuple[list[float], Tally]:
    """Seconds of each call after the first ones, and the cost of one."""
    seconds = []
    for _ in range(warm_up + REPETITIONS):
        meet(session)
        begin = time.perf_counter()
        with session.stats.scope("step") as cost:
            session.numbers.settled(step().value)  # type: ignore[attr-defined]
        meet(session)
        seconds.append(time.perf_counter() - begin)
    return seconds[warm_up:], cost


def meet(session: tacit.Session) -> None:
    """Waits for the GPU and for all parties."""
    torch.cuda.synchronize()
    others = [rank for rank in range(session.parties) if rank != session.rank]
    session.mesh.exchange_bytes(dict.fromkeys(others, b"here"), others)


KINDS = {
    "linear": (nn.Linear, nn.modules.conv._ConvNd),
    "ReLU": (nn.ReLU,),
    "pooling": (nn.modules.pooling._MaxPoolNd, nn.modules.pooling._AvgPoolNd, nn.AdaptiveAvgPool2d),
}


def _split(session: tacit.Session, model: nn.Module, x: Tensor) -> dict[str, float]:
    """Seconds in the layers of each kind in one inference and a softmax after it, the GPU idle
    between layers."""
    spent = dict.fromkeys(KINDS, 0.0)
    handles = []
    for module in model.modules():
        kind = next((k for k, kinds in KINDS.items() if isinstance(module, kinds)), None)
        if kind is not None:
            handles += _timed(session, module, kind, spent)
    scores = infer(model.eval(), x, x)
    for handle in handles:
        handle.remove()
    meet(session)
    begin = time.perf_counter()
    session.numbers.settled(torch.softmax(scores, 1).value)  # type: ignore[attr-defined]
    meet(session)
    return spent | {"softmax": time.perf_counter() - begin}


def _timed(
    session: tacit.Session, module: nn.Module, kind: str, spent: dict[str, float]
) -> list[torch.utils.hooks.RemovableHandle]:
    begin = [0.0]

    def before(*_: object) -> None:
        meet(session)
        begin[0] = time.perf_counter()

    def after(*_: object) -> None:
        meet(session)
        spent[kind] += time.perf_counter() - begin[0]

    return [module.register_forward_pre_hook(before), module.register_forward_hook(after)]


def row(case: Case) -> Row:
    bench = Bench.of(case)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    with torch.no_grad():
        plain = bench.models[-1].train(case.trains)(bench.x)
    parties = tacit.run(party, bench, device="cuda", deadline=300.0)
    error, same = _compare(parties[0].scores, plain, case)
    seconds = max(median(one.seconds) for one in parties)
    as_it_is = max(median(one.as_it_is) for one in parties)
    rounds, sent = max(one.rounds for one in parties), max(one.sent for one in parties)
    shown = ", ".join(f"{kind} {1e3 * s:.0f} ms" for kind, s in parties[1].split.items())
    note = (
        f"not recorded {as_it_is:.3f} s; {sent / 1e6:.1f} MB by the busiest party, {rounds} "
        f"rounds, {parties[0].memory / 1e9:.2f} GB a party at most; "
        f"25gbit {_on(PROFILES['25gbit'], seconds, rounds, sent):.2f} s, "
        f"wan {_on(PROFILES['wan'], seconds, rounds, sent):.2f} s; error {error:.1e} of the "
        f"largest output, top-1 equal {100 * same:.0f} %; layers apart: {shown}"
    )
    target = case.target and case.target / case.seconds
    return Row(
        name=case.name,
        value=seconds,
        unit="s",
        baseline=case.peer,
        baseline_value=case.seconds,
        note=note,
        target=target,
        lower_is_better=True,
    )


def relu_party(session: tacit.Session) -> tuple[list[float], list[float], Tally, float, Tensor]:
    """Seconds recorded and as they are, cost, peak memory a party, the result."""
    x = session.share(_numbers(), owner=0)
    meet(session)
    before = torch.cuda.memory_allocated()
    as_it_is, cost = timed(session, lambda: torch.relu(x), WARM_UP)
    memory = (torch.cuda.max_memory_allocated() - before) / session.parties
    repeated = session.repeated(torch.relu)
    seconds, _ = timed(session, lambda: repeated(x), WARM_UP + 2)
    return seconds, as_it_is, cost, memory, session.reveal(repeated(x))


def _numbers() -> Tensor:
    """Numbers of which every sign and many magnitudes are among."""
    return torch.linspace(-1000, 1000, RELU_SIZE)


def relu_row() -> Row:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    parties = tacit.run(relu_party, device="cuda", deadline=300.0)
    error = float((parties[0][-1] - _numbers().relu()).abs().max())
    if error > 1e-3:
        raise SystemExit(f"ReLU: off by {error}")
    seconds, as_it_is = (max(median(one[i]) for one in parties) for i in (0, 1))
    memory, sent = parties[0][3], max(one[2].bytes_sent for one in parties)
    note = (
        f"not recorded {as_it_is:.3f} s; {memory / 1e9:.2f} GB a party at most beyond the operand "
        f"(CryptGPU 17.5), {sent / 1e6:.0f} MB by the busiest party, {parties[1][2].rounds} rounds"
    )
    return Row(
        name=f"ReLU, {RELU_SIZE} elements",
        value=seconds,
        unit="s",
        baseline=OWN,
        baseline_value=1.255,
        note=note,
        target=0.05 / 1.255,
        lower_is_better=True,
    )


def _compare(scores: Tensor, plain: Tensor, case: Case) -> tuple[float, float]:
    """The largest error in parts of the largest output, and how many classes are the same."""
    error = float((scores - plain).abs().max() / plain.abs().max())
    same = float((scores.argmax(1) == plain.argmax(1)).float().mean())
    if error > 1e-2 or (same < 1 and not case.trains):
        raise SystemExit(f"{case.name}: off by {error:.3f} of the largest output, top-1 {same:.3f}")
    return error, same


def _on(link: Link, seconds: float, rounds: int, sent: int) -> float:
    """Seconds on a network: computing, the rounds' latency and the bytes of the busiest party."""
    return seconds + rounds * link.latency + 8 * sent / link.bandwidth


def rows() -> list[Row]:
    if not torch.cuda.is_available():
        raise Unavailable("torch finds no GPU on this machine")
    return [relu_row(), *(row(case) for case in CASES)]
