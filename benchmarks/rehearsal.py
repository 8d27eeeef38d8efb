"""What a rehearsal (`tacit check`) costs, and how near its forecast of times is.

A network is rehearsed beside one private run in threads and five plain ones, which take turns. Then
it runs on links with a latency and a bandwidth, in processes of this machine, beside the forecast
for such links. Threads would share Python's lock, and what the processes do for the first time only
is over before the time is taken, as in the forecast. A forecast is for parties with machines of
their own: on fewer cores than parties, or beside other work, runs take longer than it says.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from benchmarks.measure import Row, interleaved, one_thread
from torch import Tensor, nn

import tacit
from tacit import zoo

PLAIN_RUNS = 5
LINKS = ("1gbit", "wan")
PICTURE = (1, 3, 32, 32)
WORDS, TOKENS = 100, 16


def tiny_bert() -> nn.Module:
    return zoo.bert(words=WORDS, positions=TOKENS, depth=2, width=128, heads=2, hidden=512)


# The network, the shape of its input, and how often it runs.
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "LeNet": (zoo.lenet, (1, 1, 28, 28), 15),
    "AlexNet, CIFAR-10": (zoo.small_alexnet, PICTURE, 7),
    "VGG-16, CIFAR-10": (zoo.small_vgg, PICTURE, 3),
    "BERT, 2 layers of 128": (tiny_bert, (1, TOKENS), 7),
}


def job(session: tacit.Session, network: nn.Module, inputs: Tensor) -> float:
    """Returns the seconds of sharing, a forward pass and a reveal."""
    begin = time.perf_counter()
    model, x = session.share(deepcopy(network), owner=0), session.share(inputs, owner=1)
    with torch.no_grad():
        y = model(x)
    session.reveal(y[0] if isinstance(y, tuple) else y)
    return time.perf_counter() - begin


def second_job(session: tacit.Session, network: nn.Module, inputs: Tensor) -> float:
    """Returns the seconds of a job in processes that have done one before."""
    job(session, network, inputs)
    return job(session, network, inputs)


def made(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(1)
    network = make().eval()
    words = len(shape) == 2
    return network, torch.randint(0, WORDS, shape) if words else torch.randn(shape)


def cost_row(name: str, network: nn.Module, inputs: Tensor, repetitions: int) -> Row:
    def plain() -> None:
        with torch.no_grad():
            network(inputs)

    calls: dict[str, Callable[[], Any]] = {
        "plain": plain,
        "private": partial(tacit.run, job, network, inputs),
        "check": partial(tacit.check, job, network, inputs),
    }
    seconds = interleaved(calls, repetitions=repetitions)
    allowed = PLAIN_RUNS * seconds["plain"] + seconds["private"]
    return Row(
        name=f"{name}: a rehearsal",
        value=seconds["check"],
        unit="s",
        baseline="5 plain and 1 private run",
        baseline_value=allowed,
        target=1.0,
        lower_is_better=True,
        note=f"a plain run {seconds['plain'] * 1e3:.1f} ms, a private one "
        f"{seconds['private'] * 1e3:.0f} ms",
    )


def forecast_row(name: str, network: nn.Module, inputs: Tensor, link: str) -> Row:
    """The least of several, as other work on this machine only adds."""
    found = [tacit.check(job, network, inputs) for _ in range(3)]
    run = partial(tacit.run, second_job, network, inputs, network=link, transport="processes")
    runs = [max(run()) for _ in range(3)]
    return Row(
        name=f"{name} on {link}: the forecast",
        value=min(one.seconds[link] for one in found),
        unit="s",
        baseline="a run in processes",
        baseline_value=min(runs),
        note=f"{found[0].rounds} rounds; 0.7 to 1.3 is wanted",
    )


def rows() -> list[Row]:
    found = []
    with one_thread():
        for name, (make, shape, repetitions) in CASES.items():
            network, inputs = made(make, shape)
            found.append(cost_row(name, network, inputs, repetitions))
            found += [forecast_row(name, network, inputs, link) for link in LINKS]
    return found
