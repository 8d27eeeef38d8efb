"""The gradients that a recorded function leaves with the tensors that they are of.

A function that calls `backward` sets `grad` where there was none, and adds to it in place where
there was one. The latter is a tensor like others that it writes; the former is one of its results.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from ...fixedpoint import Numbers, Value
from ...fixedpoint.flatten import copied, form
from ...tensor import SecretTensor
from ...tensor.trace import Trace


class Gradients:
    """What a recorded function does to the gradients of these tensors."""

    def __init__(self, leaves: Iterable[SecretTensor]) -> None:
        """Looks at them before the function is recorded."""
        self._leaves = list({id(leaf): leaf for leaf in leaves}.values())
        self._before = [leaf.grad for leaf in self._leaves]
        self._needed: list[tuple[SecretTensor, Tensor | None]] = []
        self._made: list[tuple[SecretTensor, Value | None]] = []

    def undo(self) -> None:
        for leaf, before in zip(self._leaves, self._before, strict=True):
            leaf.grad = before

    def look(self, capture: Trace) -> None:
        """Finds what the function has made of them, while it is recorded, and computes it."""
        for leaf, before in zip(self._leaves, self._before, strict=True):
            now = leaf.grad
            if before is None or id(_cell(before)) in capture.cells:
                self._needed.append((leaf, before))
            if now is not before:
                self._made.append((leaf, now.value if isinstance(now, SecretTensor) else None))
        for _, value in self._made:
            if value is not None:
                form(value)

    def are_as_before(self) -> bool:
        """Whether those that the function used are as they were when it was recorded."""
        return all(_cell(leaf.grad) is _cell(before) for leaf, before in self._needed)

    def hand_out(self, n: Numbers) -> None:
        """Gives the leaves the gradients of the call that has just run."""
        for leaf, value in self._made:
            leaf.grad = None if value is None else SecretTensor(copied(n, value), n)


def _cell(tensor: Tensor | None) -> Any:
    """What makes two tensors the same one."""
    return getattr(tensor, "_cell", None)
