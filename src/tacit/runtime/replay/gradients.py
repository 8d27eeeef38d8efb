"""The gradients that a recorded function computes.

A function that calls `backward` sets `grad` where it was None: such a gradient is one of its
results. Where `grad` was set, it adds to it in place: such a gradient is part of its state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from ...fixedpoint import Numbers, Value
from ...fixedpoint.flatten import clone, signature
from ...tensor import SecretTensor
from ...tensor.trace import Trace


class Gradients:
    """The effect of a recorded function on the `grad` of given tensors."""

    def __init__(self, leaves: Iterable[SecretTensor]) -> None:
        """Remembers the gradients before the function is recorded."""
        self._leaves = list({id(leaf): leaf for leaf in leaves}.values())
        self._before = [leaf.grad for leaf in self._leaves]
        self._used: list[tuple[SecretTensor, Tensor | None]] = []
        self._results: list[tuple[SecretTensor, Value | None]] = []

    def restore(self) -> None:
        """Puts back the gradients from before the recording."""
        for leaf, before in zip(self._leaves, self._before, strict=True):
            leaf.grad = before

    def observe(self, capture: Trace) -> None:
        """Finds the gradients that the function used or set, and computes the lazy ones."""
        for leaf, before in zip(self._leaves, self._before, strict=True):
            now = leaf.grad
            if before is None or id(_cell(before)) in capture.cells:
                self._used.append((leaf, before))
            if now is not before:
                self._results.append((leaf, now.value if isinstance(now, SecretTensor) else None))
        for _, value in self._results:
            if value is not None:
                signature(value)

    def are_unchanged(self) -> bool:
        """Returns whether the gradients that the function used are still those of the recording."""
        return all(_cell(leaf.grad) is _cell(before) for leaf, before in self._used)

    def assign(self, n: Numbers) -> None:
        """Sets `grad` to copies of the results of the call that has just been replayed."""
        for leaf, value in self._results:
            leaf.grad = None if value is None else SecretTensor(clone(n, value), n)


def _cell(tensor: Tensor | None) -> Any:
    """Returns the cell that all aliases of a tensor share."""
    return getattr(tensor, "_cell", None)
