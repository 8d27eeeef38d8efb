"""Where the time of a replay goes: its steps, timed one by one at this party."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import NamedTuple

import torch

from .plan import Begin, Exchange, Finish, Step
from .segments import Segment

COMPUTING, STARTING = "computing", "starting work of the GPU"
AROUND = "before and after the steps"


class Part(NamedTuple):
    """Seconds that went into something, and how many steps they were."""

    seconds: float = 0.0
    steps: int = 0


class StepTimes:
    """Runs steps, and adds up their time by what they do.

    A GPU works on while its party does other things. What is sent waits for it, and the end does.
    """

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {}

    def run(self, steps: Iterable[Step], first: int) -> None:
        """Does all steps of a plan; `first` is the number of the function's first call."""
        for step in steps:
            for name, call in _parts(step):
                begin = perf_counter()
                call(first)
                seconds, count = self.parts.get(name, Part())
                self.parts[name] = Part(seconds + perf_counter() - begin, count + 1)

    @property
    def has_run(self) -> bool:
        """Whether there was a replay."""
        return bool(self.parts)

    def described(self, name: str, seconds: float) -> str:
        """Returns the parts of a call of this many seconds as text, the longest first."""
        total = f"{1e3 * seconds:.2f} ms"
        if not self.has_run:
            return f"{name}: {total}, not replayed"
        inside = sum(part.seconds for part in self.parts.values())
        parts = {**self.parts, AROUND: Part(seconds - inside, 1)}
        lines = [f"{name}: {total}"]
        for what, (taken, steps) in sorted(parts.items(), key=lambda item: -item[1].seconds):
            times = f", {steps} times" if steps > 1 else ""
            lines.append(f"  {1e3 * taken:9.2f} ms {what}{times}")
        return "\n".join(lines)


def _parts(step: Step) -> Iterator[tuple[str, Callable[[int], object]]]:
    """What a step does, one after the other, by name."""
    if isinstance(step, Begin):
        yield _sending(step.exchange), step.exchange.begin
    elif isinstance(step, Finish):
        yield _waiting(step.exchange), step.exchange.finish
    elif isinstance(step, Exchange):
        yield _sending(step), step.begin
        yield _waiting(step), step.finish
    else:
        yield (STARTING if isinstance(step, Segment) else COMPUTING), step


def _sending(one: Exchange) -> str:
    if not one.sent:
        return _waiting(one) if one.receive else COMPUTING
    after = ", after the GPU's work" if one.mesh.device.type == "cuda" else ""
    return f"sending to {_named(one.sent)}{after}"


def _waiting(one: Exchange) -> str:
    if not one.receive:
        return _sending(one) if one.sent else COMPUTING
    if one.ahead:
        return f"waiting for what {_named(one.receive)} deals"
    return f"waiting for the message of {_named(one.receive)}"


def _named(parties: Iterable[int]) -> str:
    return " and ".join(f"party {one}" for one in sorted(parties))


def wait_for_gpu(device: torch.device) -> None:
    """Waits until a party's GPU, if it has one, has nothing to do."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()
