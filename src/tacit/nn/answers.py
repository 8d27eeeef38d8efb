"""From the scores of a model to its answer, as scikit-learn gives it."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from ..errors import ConfigError

Link = Literal["identity", "sigmoid", "softmax"]


def require_link(link: str, subject: str) -> Link:
    """Returns the link; raises ConfigError if there is none of this name."""
    for known in get_args(Link):
        if link == known:
            return known
    raise ConfigError(f"{link=}", limit=f"one of {', '.join(get_args(Link))}", subject=subject)


def answer(scores: Tensor, link: Link) -> Tensor:
    """Returns numbers for scores of shape (n, k), or probabilities of the classes.

    identity: the scores, of shape (n,) if k = 1. sigmoid: k = 1, and both classes' probabilities
    (n, 2). softmax: those of k classes.
    """
    if link == "softmax":
        return torch.softmax(scores, 1)
    if link == "sigmoid":
        likely = torch.sigmoid(scores)
        return torch.cat([1 - likely, likely], 1)
    return scores.squeeze(1)
