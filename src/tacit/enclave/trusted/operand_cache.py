"""Operands that are used again: quantised once, and sent to the workers once.

A step of training uses most tensors twice: an input in the forward product and in the gradient of
the weight, an output's gradient in both gradients, a weight in the forward product and in the
gradient of the input. A model that is not trained uses its weights in every call.

Whether an operand is used again must not depend on secrets, because workers see it. So a tensor is
recognised by its memory and its version, which follow from the program, and not by its contents. A
digest of the contents notices writes that torch does not count, such as those through `.data`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from .masking import Operand


class _Entry(NamedTuple):
    storage: StorageWeakRef
    version: int
    digest: int
    operand: Operand


class OperandCache:
    """Keeps the operands that were used last, up to `budget` bytes of integers.

    An operand leaves if it does not fit any longer, or its tensor was freed or written to.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._entries: OrderedDict[object, _Entry] = OrderedDict()
        self._forgotten: list[int] = []

    def get(self, x: Tensor, digest: int, make: Callable[[], Operand]) -> Operand:
        """Returns the operand of a tensor: one that was made before, or a new one of `make`.

        digest: another one, if the contents have changed.
        """
        self._sweep()
        if dense(x) is None or not self._budget:
            return self._passing(make())
        key = (x.data_ptr(), x.dtype, x.shape, x.stride())
        entry = self._entries.pop(key, None)
        if entry and (entry.version, entry.digest) == (x._version, digest):
            self._entries[key] = entry
            return entry.operand
        if entry:
            self._forgotten.append(entry.operand.number)
        operand = make()
        if operand.values.nbytes > self._budget:
            return self._passing(operand)
        storage = StorageWeakRef(x.untyped_storage())
        self._entries[key] = _Entry(storage, x._version, digest, operand)
        return operand

    def forgotten(self) -> tuple[int, ...]:
        """Returns the numbers of operands that were given up since the last call of this."""
        kept = 0
        for key, entry in reversed(list(self._entries.items())):
            kept += entry.operand.values.nbytes
            if kept > self._budget:
                self._drop(key)
        gone, self._forgotten = self._forgotten, []
        return tuple(gone)

    def forget(self, number: int) -> None:
        """Notes that an operand which is not kept here is not used again."""
        self._forgotten.append(number)

    def _passing(self, operand: Operand) -> Operand:
        """Returns an operand that is used once."""
        self.forget(operand.number)
        return operand

    def _sweep(self) -> None:
        for key, entry in list(self._entries.items()):
            if entry.storage.expired():
                self._drop(key)

    def _drop(self, key: object) -> None:
        self._forgotten.append(self._entries.pop(key).operand.number)


def dense(x: Tensor) -> Tensor | None:
    """Returns a view of all elements in the order of memory; None if x has gaps or no version."""
    if x.is_inference() or not x.is_cpu:
        return None
    if x.is_contiguous():
        return x
    return x.mT if x.dim() >= 2 and x.mT.is_contiguous() else None
