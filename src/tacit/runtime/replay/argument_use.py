"""What a function does with the plain tensors among its arguments: it shares them, or computes."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from torch import Tensor

from ...tensor import SecretTensor


class ArgumentUse:
    """Follows plain arguments, by their places, through operations on public tensors.

    shared: those that are shared. used: those that Python reads, or that meet secrets as public
    operands.
    """

    def __init__(self, others: Sequence[Any]) -> None:
        self.shared: set[int] = set()
        self.used: set[int] = set()
        self._sources: dict[int, Set[int]] = {}  # places, by the storage of what is made of them
        for i, x in enumerate(others):
            if isinstance(x, Tensor) and not isinstance(x, SecretTensor):
                self._sources[storage_of(x)] = self.of(x) | {i}

    def of(self, x: Tensor) -> Set[int]:
        """Returns the places of the arguments that a tensor is made of."""
        return self._sources.get(storage_of(x), frozenset())

    def note(self, found: Sequence[Tensor], made: Sequence[Tensor]) -> None:
        """Notes that tensors are made of others."""
        if not self._sources:
            return
        sources, known = frozenset[int]().union(*map(self.of, found)), set(map(storage_of, found))
        for storage in map(storage_of, made):
            before = self._sources.get(storage, frozenset()) if storage in known else frozenset()
            self._sources[storage] = before | sources  # a new storage may have an old identity

    def note_use(self, tensors: Sequence[Tensor]) -> None:
        """Notes that the contents of tensors are read, or are operands of secrets."""
        if self._sources:
            self.used.update(*map(self.of, tensors))


def storage_of(tensor: Tensor) -> int:
    """Returns the identity of a tensor's memory."""
    return tensor.untyped_storage()._cdata
