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
        new = {id(x): x for x in results if isinstance(x, Tensor) and is_made(x)}
        self.others = [NEW if id(x) in new else x for x in results]
        self.buffers = TensorBuffers([*new.values()])
        places = {each: i for i, each in enumerate(new)}
        self._places = [places[id(x)] for x in results if id(x) in new]

    def copies(self) -> list[Any]:
        """Returns the results, with copies of what the buffers hold now."""
        clones, places = self.buffers.clones(), iter(self._places)
        return [clones[next(places)] if x is NEW else x for x in self.others]
