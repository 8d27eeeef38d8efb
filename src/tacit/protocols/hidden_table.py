"""A table whose rows one party takes without telling which."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class HiddenRows:
    """What a member holds of a table whose rows `owner` takes, while member `dealer` deals.

    rows: what the owner adds, or an evaluator's mask in an order that it does not know; nothing at
    the dealer. places: at the owner, by evaluator, where each row stands in that order. See NOTE
    [hidden rows] in masked/hidden_rows.py.
    """

    dealer: int
    owner: int
    shape: torch.Size
    limit: int
    rows: Tensor | None = field(repr=False)
    places: dict[int, Tensor] = field(default_factory=dict, repr=False)
