"""The cleartext protocol at one party without peers, and a report of each comparison it makes.

`tacit.validate` and `tacit.calibrate` run models on it: it rounds as a real session does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..config import Config
from ..crypto import agree_keys
from ..ring import RING32, RING64
from ..transport import memory_meshes
from . import cleartext
from .cleartext import Cleartext
from .context import Context
from .share import Arith, Bool
from .steps import Interactive, Steps
from .trio import Trio

ALONE = 0  # the rank of the only party


@dataclass(frozen=True)
class Comparison:
    """The signs of `elements` values in a window of `width` bits, for each of `thresholds`."""

    elements: int
    width: int
    thresholds: int

    def bits(self, ring_bits: int) -> int:
        """Returns what all parties of `trio` send for it, ahead of time and online."""
        costs = Trio.declared_costs(ring_bits)
        return sum(costs.signs(self.elements, self.width, self.thresholds).bits.values())


Observer = Callable[[Arith, Comparison], None]


def sign(p: Observed, x: Arith, *, low: int = 0) -> Steps[Bool]:
    """Returns [x < 0], and reports it."""
    p.report(x, [0], low)
    return (yield from cleartext.sign(p, x, low=low))


def signs(p: Observed, x: Arith, thresholds: Sequence[int], *, low: int = 0) -> Steps[list[Bool]]:
    """Returns [x < t] for each t, and reports them."""
    p.report(x, thresholds, low)
    return (yield from cleartext.signs(p, x, thresholds, low=low))


class Observed(Cleartext):
    """No secrets; `observer` gets the operand and the size of every comparison."""

    sign = Interactive(sign, Bool)
    signs = Interactive(signs)

    def __init__(self, context: Context, observer: Observer, **settings: Any) -> None:
        super().__init__(context, **settings)
        self._observer = observer

    def report(self, x: Arith, thresholds: Sequence[int], low: int) -> None:
        """Calls the observer; the window is the one that `masked.compare.signs` computes."""
        if not thresholds or not x.numel:
            return
        limit = (x.limit >> x.pending) + bool(x.pending)
        reach = limit + max(map(abs, thresholds))
        reach = (reach >> low) + bool(low)
        width = min(max(reach.bit_length() + 1, 2), self.ring.bits - x.pending - low)
        self._observer(x, Comparison(x.numel, width, len(thresholds)))


def cleartext_alone(config: Config, observer: Observer | None = None) -> Cleartext:
    """Returns the cleartext protocol of a single party, which `observer` watches if given."""
    [mesh] = memory_meshes(1)
    keys = agree_keys(mesh.exchange_bytes, rank=ALONE, parties=1, session=b"rehearsal")
    context = Context(mesh, keys, RING32 if config.ring == 32 else RING64)
    return Cleartext(context) if observer is None else Observed(context, observer)
