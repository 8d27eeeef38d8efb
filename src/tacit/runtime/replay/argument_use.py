"""What a function does with the plain tensors among its arguments: it shares them, or computes."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from torch import Tensor

from ...tensor import SecretTensor
from .noted_memory import NotedMemory, storage_of


class ArgumentUse:
    """Follows plain arguments, by their places, through operations on public tensors.

    shared: those that are shared. used: those that Python reads, or that meet secrets as public
    operands.
    """

    def __init__(self, others: Sequence[Any]) -> None:
        self.shared: set[int] = set()
        self.used: set[int] = set()
        self._sources: dict[int, Set[int]] = {}  # places, by the storage of what is made of them
        self._made = NotedMemory()
        for i, x in enumerate(others):
            if isinstance(x, Tensor) and not isinstance(x, SecretTensor):
                self._note(x, frozenset((i,)))

    def of(self, x: Tensor) -> Set[int]:
        """Returns the places of the arguments that a tensor is made of."""
        return self._sources.get(storage_of(x), frozenset())

    def note(self, found: Sequence[Tensor], made: Sequence[Tensor]) -> None:
        """Notes that tensors are made of others."""
        if not self._sources:
            return
        sources = frozenset[int]().union(*map(self.of, found))
        for x in made if sources else ():
            self._note(x, sources)

    def _note(self, x: Tensor, sources: Set[int]) -> None:
        self._made.add(x)
        self._sources[storage_of(x)] = self.of(x) | sources

    def note_use(self, tensors: Sequence[Tensor]) -> None:
        """Notes that the contents of tensors are read, or are operands of secrets."""
        if self._sources:
            self.used.update(*map(self.of, tensors))

    def forget(self) -> None:
        """Forgets what is made of arguments; what is shared and used stays known."""
        self._sources.clear()
        self._made.clear()
