"""Public tensors that a function writes, such as the number of batches that a batch norm has seen.

A plan writes to them in place, so each replay goes on from what they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, UntypedStorage


class PublicState:
    """What public tensors held at one time, with all of the memory that they are views of."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._storages = [x.untyped_storage() for x in tensors]
        self._held = [storage.clone() for storage in self._storages]

    def restore(self) -> None:
        """Lets the tensors hold again what they held."""
        self._write(self._held)

    @contextmanager
    def put_back(self) -> Iterator[Callable[[], bool]]:
        """In the block, the tensors hold again what they held; after it, what they hold now.

        Gives a function that tells whether they hold what they held before the block.
        """
        now = [storage.clone() for storage in self._storages]
        self._write(self._held)
        try:
            yield lambda: all(map(_equal, self._storages, now))
        finally:
            self._write(now)

    def _write(self, contents: Sequence[UntypedStorage]) -> None:
        for storage, content in zip(self._storages, contents, strict=True):
            storage.copy_(content)


def _equal(a: UntypedStorage, b: UntypedStorage) -> bool:
    return torch.equal(_bytes(a), _bytes(b))


def _bytes(storage: UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)
