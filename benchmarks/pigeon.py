"""PIGEON's tables: its networks with three parties (`trio`) and four (`quad`), in both rings.

Each party is a process, with TLS between them, on this machine; average pools in place of max-pools
and random weights, as in its paper; batch normalisation folded. Seconds are of the slowest party,
and those of `quad` include the comparison of all views. The first run of a network is not measured.
PIGEON's seconds were measured at another time, on two cores of a Neoverse-N1 (see
`results/peers.json`): they tell the order of magnitude on such a machine. On any other, and where
there are none, the baseline is the plain network.
`--only TEXT` runs the cases with this text in their names, such as cifar, imagenet or layers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from benchmarks import pigeon_layers
from benchmarks.measure import Row, chosen, elapsed, processor
from benchmarks.random_weights import initialise
from torch import Tensor, nn

import tacit
from tacit import zoo
from tacit.errors import PartyFailed
from tacit.nn import fold_batch_norm
from tacit.registry import PROTOCOLS
from tacit.zoo.resnet import BasicBlock, Bottleneck

PEERS: dict[str, Any] = json.loads((Path(__file__).parent / "results" / "peers.json").read_text())
FIGURES: dict[str, Any] = PEERS["pigeon"]
RECORDED = "PIGEON, recorded"
FRACTION_BITS = {64: 16, 32: 12}  # numbers below 2^5 fit 32 bits then; those here are below 2^4
ALLOWED = 0.1  # of the largest output; an error beyond it is no rounding
ELEMENTS = 1_000_000
CIFAR, IMAGENET = (3, 32, 32), (3, 224, 224)
BATCH, RELUS = 64, 5
HALF = 0.5  # of PIGEON's time with four parties


def residual(make: Callable[..., nn.Module], classes: int = 1000) -> nn.Module:
    """A ResNet with an average pool in place of its max-pool, and small residuals.

    With random residuals of full size ResNet-152 is chaotic: rounding its weights to 16 fraction
    bits, in plain torch, changes its largest output by 4.5 %.
    """
    model = make(num_classes=classes)
    model.maxpool = nn.AvgPool2d(3, stride=2, padding=1)
    for block in model.modules():
        if isinstance(block, BasicBlock | Bottleneck):
            last = block.bn3 if isinstance(block, Bottleneck) else block.bn2
            nn.init.constant_(last.weight, 0.25)
    return model


@dataclass(frozen=True)
class Network:
    """A network of the paper, for pictures of one shape."""

    name: str
    data: str
    make: Callable[[], nn.Module]
    picture: tuple[int, int, int]
    batches: tuple[int, ...] = (1,)
    memory_limit: int | None = None

    def build(self) -> nn.Module:
        """The network with random weights, the same at every party."""
        torch.manual_seed(3)
        model, count = self.make(), 2 if self.picture == IMAGENET else 64
        return fold_batch_norm(initialise(model, torch.randn(count, *self.picture))).eval()

    def pictures(self, batch: int) -> Tensor:
        return torch.randn(batch, *self.picture, generator=torch.Generator().manual_seed(4))


NETWORKS = [
    Network("AlexNet", "CIFAR-10", zoo.small_alexnet, CIFAR, (1, BATCH)),
    Network("VGG-16", "CIFAR-10", zoo.small_vgg, CIFAR, (1, BATCH)),
    Network("ResNet-50", "CIFAR-10", lambda: residual(zoo.resnet50, 10), CIFAR, (1, BATCH)),
    Network("ResNet-18", "ImageNet", lambda: residual(zoo.resnet18), IMAGENET),
    Network("ResNet-50", "ImageNet", lambda: residual(zoo.resnet50), IMAGENET),
    Network("ResNet-152", "ImageNet", lambda: residual(zoo.resnet152), IMAGENET),
    Network(
        "VGG-16",
        "ImageNet",
        lambda: zoo.vgg16(pool="avg", dropout=0.0),
        IMAGENET,
        memory_limit=1 << 29,  # encoded, the weights of its first linear layer take 1.8 GB a party
    ),
]


class Setting(NamedTuple):
    """A protocol and a ring."""

    protocol: str
    ring: int

    @property
    def parties(self) -> int:
        return PROTOCOLS[self.protocol].default_parties

    @property
    def title(self) -> str:
        return f"{self.protocol}, {self.ring} bits"

    def run(self, main: Callable[..., Any], *args: Any, **settings: Any) -> list[Any]:
        return tacit.run(
            main,
            *args,
            parties=self.parties,
            protocol=self.protocol,
            ring=self.ring,
            fraction_bits=FRACTION_BITS[self.ring],
            transport="processes",
            deadline=600.0,
            **settings,
        )


SETTINGS = [Setting(protocol, ring) for protocol in ("trio", "quad") for ring in (64, 32)]


class Measured(NamedTuple):
    """What a party measured of a call: median seconds, bytes sent, rounds, the result."""

    seconds: float
    sent: int
    rounds: int
    result: Tensor | None = None


def timed(session: tacit.Session, call: Callable[[], Tensor], repetitions: int) -> Measured:
    """Measures a call, with the comparison of views at its end; the first is not measured."""
    seconds = []
    with torch.no_grad():
        for _ in range(repetitions + 1):
            session.mesh.compare()
            with session.stats.scope("call") as cost:
                begin = time.perf_counter()
                result = call()
                session.numbers.settled(result.value)  # type: ignore[attr-defined]
                session.verify()
                seconds.append(time.perf_counter() - begin)
    revealed = session.reveal(result, to=0)
    return Measured(median(seconds[1:]), cost.bytes_sent, cost.rounds, revealed)


def of_network(session: tacit.Session, index: int, batch: int) -> Measured:
    torch.set_num_threads(1)
    network = NETWORKS[index]
    model = session.share(network.build(), owner=0)
    x = session.share(network.pictures(batch), owner=1)
    return timed(session, lambda: model(x), 3 if network.picture == CIFAR and batch == 1 else 1)


def network_rows(index: int, batch: int, setting: Setting) -> list[Row]:
    network = NETWORKS[index]
    found = setting.run(of_network, index, batch, memory_limit=network.memory_limit)
    model, x = network.build(), network.pictures(batch)
    with torch.no_grad():
        begin = time.perf_counter()
        plain = model(x)
        plain_seconds = time.perf_counter() - begin
    assert found[0].result is not None
    error = float((found[0].result - plain).abs().max() / plain.abs().max())
    if error > ALLOWED:
        raise SystemExit(f"{network.name}: off by {error:.3f} of the largest output")
    same = float((found[0].result.argmax(1) == plain.argmax(1)).float().mean())
    seconds, sent = max(one.seconds for one in found), max(one.sent for one in found)
    figure = recorded(f"{network.name}, {network.data}", setting) if batch == 1 else None
    made = Row(
        name=network_name(network, batch, setting),
        value=seconds,
        unit="s",
        baseline=RECORDED if figure else "plain torch",
        baseline_value=figure or plain_seconds,
        lower_is_better=True,
        target=HALF if figure and setting == ("quad", 64) else None,
        note=f"{batch / seconds:.3g} pictures/s; {sent / 1e6:.4g} MB sent by the busiest party, "
        f"{max(one.rounds for one in found)} rounds; error {error:.1e} of the largest output, "
        f"same class {same:.0%}",
    )
    print(f"  {made.name}: {seconds:.3g} s; {made.note}", flush=True)
    return [made]


def network_name(network: Network, batch: int, setting: Setting) -> str:
    return f"{network.name}, {network.data}, batch {batch}, {setting.title}"


def recorded(case: str, setting: Setting) -> float | None:
    """PIGEON's seconds, if they were measured on a machine like this."""
    if processor() != FIGURES["processor"]:
        return None
    figure: float | None = (
        FIGURES["seconds"].get(case, {}).get(f"{setting.protocol} {setting.ring}")
    )
    return figure


def of_relu(session: tacit.Session, promised: bool) -> Measured:
    """A ReLU of real numbers, or of words of which nothing is promised, as PIGEON's."""
    torch.set_num_threads(1)
    real = torch.randn(ELEMENTS)
    x, p = session.share(real, owner=1), session.protocol
    words = p.share((real * 1000).to(p.ring.dtype), 1, (ELEMENTS,))
    seconds = []
    for _ in range(RELUS + 1):
        session.mesh.compare()
        with session.stats.scope("call") as cost:
            begin = time.perf_counter()
            torch.relu(x) if promised else p.relu(words)
            session.verify()
            seconds.append(time.perf_counter() - begin)
    return Measured(median(seconds[1:]), cost.bytes_sent, cost.rounds)


def relu_rows(setting: Setting, promised: bool) -> list[Row]:
    found = setting.run(of_relu, promised)
    name, each = relu_name(setting, promised), [one.sent / ELEMENTS for one in found]
    figure = recorded("ReLU of 1,000,000", setting)
    made = Row(
        name=name,
        value=max(one.seconds for one in found),
        unit="s",
        baseline=RECORDED if figure else "1,000,000 a second",
        baseline_value=figure or 1.0,
        lower_is_better=True,
        target=HALF if figure and setting == ("quad", 64) else None,
        note=f"{max(one.rounds for one in found)} rounds; bytes an element sent by each party: "
        + ", ".join(f"{one:.1f}" for one in each),
    )
    published = FIGURES["ReLU, bytes an element"][f"{setting.protocol} {setting.ring}"]
    sent = Row(
        name=f"{name}: sent by the busiest party",
        value=max(each),
        unit="bytes/element",
        baseline=published["source"],
        baseline_value=published["busiest party"],
        lower_is_better=True,
        target=1.0 if setting.protocol == "quad" else None,
    )
    return [made, sent]


def relu_name(setting: Setting, promised: bool) -> str:
    promise = "" if promised else ", nothing promised"
    return f"ReLU of 1,000,000, {setting.title}{promise}"


def of_layers(session: tacit.Session, index: int) -> dict[str, pigeon_layers.Spent]:
    torch.set_num_threads(1)
    network = NETWORKS[index]
    model, x = session.share(network.build(), owner=0), session.share(network.pictures(1), owner=1)
    return pigeon_layers.spent(session, model, x)


def layer_rows(index: int, setting: Setting) -> list[Row]:
    network = NETWORKS[index]
    published = FIGURES["MB a picture and party"].get(f"{network.name}, {setting.title}", {})
    found = setting.run(of_layers, index, memory_limit=network.memory_limit)
    return pigeon_layers.rows(layers_name(network, setting), found, published)


def layers_name(network: Network, setting: Setting) -> str:
    return f"{network.name}, {network.data}, layers, {setting.title}"


def rows(only: Sequence[str] = ()) -> Iterator[Row]:
    """All cases, or those with one of these texts in their names."""
    cases: list[tuple[str, Callable[[], list[Row]]]] = []
    for setting in SETTINGS:
        for promised in (True, False):
            name = relu_name(setting, promised)
            cases.append((name, partial(relu_rows, setting, promised)))
        for index, network in enumerate(NETWORKS):
            for batch in network.batches:
                name = network_name(network, batch, setting)
                cases.append((name, partial(network_rows, index, batch, setting)))
            if network.data == "ImageNet":
                name = layers_name(network, setting)
                cases.append((name, partial(layer_rows, index, setting)))
    for name, run in chosen(cases, only):
        with elapsed(name):
            made = attempted(name, run)
        yield from made


def attempted(name: str, run: Callable[[], list[Row]]) -> list[Row]:
    """The rows of a case; none if a party fails: four that hold VGG-16 take 25 GB together."""
    try:
        return run()
    except PartyFailed as error:
        print(f"  {name}: left out: {str(error).splitlines()[0]}", flush=True)
        return []
