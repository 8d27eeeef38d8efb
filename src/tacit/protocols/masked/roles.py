"""Who deals, who evaluates, and which part of a secret plays which role."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Roles:
    """opened: the part that all evaluators hold; masks: the part each evaluator shares with the
    dealer. The last evaluator receives what is dealt, and adds public constants."""

    dealer: int
    evaluators: tuple[int, ...]
    opened: int
    masks: tuple[int, ...]

    @cached_property
    def mask_of(self) -> dict[int, int]:
        return dict(zip(self.evaluators, self.masks, strict=True))

    @property
    def leader(self) -> int:
        return self.evaluators[-1]
