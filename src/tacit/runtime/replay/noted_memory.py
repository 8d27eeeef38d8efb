"""Which memory of torch is noted while a function is observed, by its identity."""

from __future__ import annotations

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef


class NotedMemory:
    """A set of tensors' memory: a tensor is in it if it is a view of memory that was added.

    Memory that is freed leaves its identity to the next that torch allocates, which an observer
    does not always see. A weak reference prevents that: it keeps the identity, not the contents.
    """

    def __init__(self) -> None:
        self._references: dict[int, StorageWeakRef] = {}

    def add(self, *tensors: Tensor) -> None:
        """Notes the memory of tensors."""
        for x in tensors:
            if x not in self:
                self._references[storage_of(x)] = StorageWeakRef(x.untyped_storage())

    def __contains__(self, tensor: Tensor) -> bool:
        return storage_of(tensor) in self._references

    def clear(self) -> None:
        """Forgets all."""
        self._references.clear()


def storage_of(tensor: Tensor) -> int:
    """Returns the identity of a tensor's memory."""
    return tensor.untyped_storage()._cdata
