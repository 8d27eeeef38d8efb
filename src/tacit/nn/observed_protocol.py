"""The plain reference with a notebook: which comparisons a model makes, on how many bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..fixedpoint.debug import kept
from ..protocols import Arith, Bool, Cleartext, cleartext
from ..protocols.masked.costs import MaskedCosts
from ..protocols.steps import Interactive, Steps
from ..protocols.trio import trio_roles
from ..tensor.module_path import module_path


@dataclass(frozen=True)
class Comparison:
    """Signs of `elements` values, taken in a window of `width` bits, for each of `thresholds`."""

    path: str
    elements: int
    width: int
    thresholds: int
    kept: bool  # whether the values are within what was promised

    def bits(self, ring_bits: int) -> int:
        """What all parties of `trio` send for it, ahead of time and online."""
        costs = MaskedCosts(ring_bits, trio_roles(0, 1, 2))
        return sum(costs.signs(self.elements, self.width, self.thresholds).bits.values())


def sign(p: Observed, x: Arith, *, low: int = 0) -> Steps[Bool]:
    """[x < 0], noted."""
    p.note(x, [0], low)
    return (yield from cleartext.sign(p, x, low=low))


def signs(p: Observed, x: Arith, thresholds: Sequence[int], *, low: int = 0) -> Steps[list[Bool]]:
    """[x < t] for each t, noted."""
    p.note(x, thresholds, low)
    return (yield from cleartext.signs(p, x, thresholds, low=low))


class Observed(Cleartext):
    """No secrets, and a list of all comparisons."""

    sign = Interactive(sign, Bool)
    signs = Interactive(signs)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.comparisons: list[Comparison] = []

    def note(self, x: Arith, thresholds: Sequence[int], low: int) -> None:
        """The window is that of `masked.compare.signs`."""
        if not thresholds or not x.numel:
            return
        limit = (x.limit >> x.pending) + bool(x.pending)
        reach = limit + max(map(abs, thresholds))
        reach = (reach >> low) + bool(low)
        width = min(max(reach.bit_length() + 1, 2), self.ring.bits - x.pending - low)
        path = module_path() or ""
        self.comparisons.append(Comparison(path, x.numel, width, len(thresholds), kept=kept(x)))
