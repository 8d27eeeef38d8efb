"""The gradients that a recorded function computes.

A function that calls `backward` sets `grad` where it was None: such a gradient is one of its
results. Where `grad` was set, it adds to it in place: such a gradient is part of its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from torch import Tensor

from ...fixedpoint import Numbers, Value
from ...fixedpoint.flatten import clone, signature
from ...tensor import SecretTensor
from ...tensor.secret import Cell
from ...tensor.trace import Trace


class GradientsBefore:
    """The gradients that a function found when it was observed, and what it did with them.

    Where there was none, it sets one; a call that finds one there would add to it, and do
    something else. A gradient that it adds to may be another tensor in every call, as after
    `zero_grad`.
    """

    def __init__(self, leaves: Sequence[SecretTensor]) -> None:
        """Remembers the gradients before the call."""
        self._before = [(leaf, leaf.grad) for leaf in leaves]
        self._set: list[SecretTensor] = []
        self._added_to: list[tuple[SecretTensor, Cell]] = []

    def observe(self, trace: Trace) -> None:
        """Finds which of them the function has set, and which it has added to."""
        written = {id(cell): cell for cell in trace.written()}
        for leaf, before in self._before:
            if before is None and leaf.grad is not None:
                self._set.append(leaf)
            elif (cell := written.get(id(_cell(before)))) is not None:
                self._added_to.append((leaf, cell))
        self._before = []

    def are_alike(self) -> bool:
        """Returns whether there are gradients now where there were, and none elsewhere."""
        return all(leaf.grad is None for leaf in self._set) and all(
            isinstance(leaf.grad, SecretTensor) for leaf, _ in self._added_to
        )

    def moved(self) -> Iterator[tuple[Cell, Cell]]:
        """Yields the old and the new cell of each gradient that is another tensor now."""
        for i, (leaf, old) in enumerate(self._added_to):
            new = _cell(leaf.grad)
            if new is not old:
                self._added_to[i] = leaf, new
                yield old, new


class Gradients:
    """The effect of a recorded function on the `grad` of given tensors."""

    def __init__(self, leaves: Iterable[SecretTensor]) -> None:
        """Remembers the gradients before the function is recorded."""
        self._leaves = list({id(leaf): leaf for leaf in leaves}.values())
        self._before = [leaf.grad for leaf in self._leaves]
        self._used: list[tuple[SecretTensor, Cell | None]] = []
        self._results: list[tuple[SecretTensor, Value | None]] = []

    def restore(self) -> None:
        """Puts back the gradients from before the recording."""
        for leaf, before in zip(self._leaves, self._before, strict=True):
            leaf.grad = before

    def set_by_now(self) -> dict[int, SecretTensor]:
        """Returns the tensors whose gradients the function has set, by the cells of those."""
        pairs = zip(self._leaves, self._before, strict=True)
        return {id(_cell(x.grad)): x for x, before in pairs if x.grad is not before}

    def observe(self, capture: Trace) -> None:
        """Finds the gradients that the function used or set, and computes the lazy ones."""
        for leaf, before in zip(self._leaves, self._before, strict=True):
            now = leaf.grad
            if before is None or id(_cell(before)) in capture.cells:
                self._used.append((leaf, _cell(before)))
            if now is not before:
                self._results.append((leaf, now.value if isinstance(now, SecretTensor) else None))
        for _, value in self._results:
            if value is not None:
                signature(value)

    def are_unchanged(self) -> bool:
        """Returns whether the gradients that the function used are still those of the recording."""
        return all(_cell(leaf.grad) is cell for leaf, cell in self._used)

    def replace(self, old: Cell, new: Cell) -> None:
        """Notes that a gradient is another tensor now."""
        self._used = [(leaf, new if cell is old else cell) for leaf, cell in self._used]

    def assign(self, n: Numbers) -> None:
        """Sets `grad` to copies of the results of the call that has just been replayed."""
        for leaf, value in self._results:
            leaf.grad = None if value is None else SecretTensor(clone(n, value), n)


def _cell(tensor: Tensor | None) -> Any:
    """Returns the cell that all aliases of a tensor share."""
    return getattr(tensor, "_cell", None)
