"""Public coefficients of a sum over secret bits."""

from __future__ import annotations

from dataclasses import dataclass

from .share import Arith


@dataclass(frozen=True)
class Row:
    """sum over j of (offsets[j] + scales[j] x) b_j."""

    scales: tuple[int, ...]
    offsets: tuple[int, ...]

    def limit(self, x: Arith | None) -> int:
        """What the sum cannot exceed, whatever the bits are."""
        each = 0 if x is None else x.limit
        return sum(map(abs, self.offsets)) + each * sum(map(abs, self.scales))
