"""Public numbers that differ from call to call: what is known of them without reading them.

What is decided by looking at public numbers, such as their fraction bits, must not follow from one
draw if a replay of the call draws others. So what holds for every draw is kept with the tensor. The
same is done for numbers of the program, such as a mask that follows from a position: what holds for
them is checked before each replay.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

NOTED = "_tacit_drawn"  # the attribute of a tensor of which something is known
UNBOUNDED = "it computes with public numbers that may be larger the next time"


class Drawn(NamedTuple):
    """What holds for every draw: no magnitude is above `largest`.

    is_mask: all numbers are 0 or `largest`. has_integers: all numbers are integers.
    """

    largest: float
    is_mask: bool = False
    has_integers: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether all numbers are integers."""
        return self.has_integers or (self.is_mask and float(self.largest).is_integer())


def drawn(x: object) -> Drawn | None:
    """Returns what is known of numbers whatever was drawn; None of others, or if written since."""
    found: tuple[Drawn, int] | None = getattr(x, NOTED, None)
    if found is None:
        return None
    assert isinstance(x, Tensor)
    return found[0] if found[1] == _version(x) else None


def note(x: Tensor, known: Drawn | None) -> Tensor:
    """Returns x, of which this is known."""
    if known is not None:
        setattr(x, NOTED, (known, _version(x)))
    return x


def _version(x: Tensor) -> int:
    return 0 if x.is_inference() else x._version


def scaled_mask(mask: Tensor, factor: float, dtype: torch.dtype) -> Tensor:
    """Returns a factor above 0 where a drawn mask is true and 0 elsewhere, of a dtype."""
    return note(mask.to(dtype) * factor, Drawn(factor, is_mask=True))


def scaled(x: Tensor, source: Tensor, factor: float) -> Tensor:
    """Returns x, which is `source` times a factor, with what is known of it."""
    known = drawn(source)
    return x if known is None else note(x, Drawn(known.largest * abs(factor), known.is_mask))


def rounded(x: Tensor, source: Tensor, bits: int) -> Tensor:
    """Returns x, which is `source` times 2^bits rounded, with what is known of it."""
    known = drawn(source)
    return x if known is None else note(x, known._replace(largest=round(known.largest * 2.0**bits)))
