"""The public tensors among the results of a recorded function, such as what it reveals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from .buffers import TensorBuffers

NEW = object()  # stands for a tensor that the function has made


class PublicResults:
    """Results that are not secret: new tensors are copied to buffers, others stay as they are.

    others: the results, with NEW in the place of each new tensor.
    """

    def __init__(self, results: Sequence[Any], is_made: Callable[[Tensor], bool]) -> None:
        new = [isinstance(x, Tensor) and is_made(x) for x in results]
        pairs = list(zip(results, new, strict=True))
        self.others = [NEW if is_new else x for x, is_new in pairs]
        self.buffers = TensorBuffers([x for x, is_new in pairs if is_new])

    def copies(self) -> list[Any]:
        """Returns the results, with copies of what the buffers hold now."""
        made = iter(self.buffers.clones())
        return [next(made) if x is NEW else x for x in self.others]
