"""Memory of a GPU while a function is recorded: which tensors share it, and who still holds it.

Nothing here keeps memory alive. A storage that is noted keeps its identity until the recording
ends, also after its memory is freed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from .arena import Block


class Form(NamedTuple):
    """A tensor without its memory. block: the number of that, or None if it has no elements."""

    block: int | None
    offset: int  # in elements, from the start of the memory
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    def is_of(self, x: Tensor) -> bool:
        """Whether a tensor has this form."""
        return self[1:] == (x.storage_offset(), tuple(x.shape), x.stride(), x.dtype)


class DeviceStep(NamedTuple):
    """A call of torch or of a kernel on a GPU; Forms stand for its tensors.

    results: the tensors of new memory that it returns, in their order, and None for others.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: Sequence[Form | None]


class DeviceBlocks:
    """The storages on a GPU that a recording has to do with; their numbers are negative."""

    def __init__(self) -> None:
        self._blocks: dict[int, Block] = {}  # by the identity of the storage
        self._storages: dict[int, StorageWeakRef] = {}  # by the number of the block

    def knows(self, x: Tensor) -> bool:
        """Whether the memory of a tensor was noted."""
        return x.untyped_storage()._cdata in self._blocks

    def block(self, x: Tensor) -> Block | None:
        """Returns the memory of a tensor, noted from now on; None if it has none."""
        storage = x.untyped_storage()
        if not storage.nbytes():
            return None
        if storage._cdata not in self._blocks:
            number = -1 - len(self._blocks)
            self._blocks[storage._cdata] = Block(0, storage.nbytes(), number)
            self._storages[number] = StorageWeakRef(storage)
        return self._blocks[storage._cdata]

    def form(self, x: Tensor) -> Form:
        """Returns what is to be known of a tensor beside its memory."""
        block = self.block(x)
        number = None if block is None else block.number
        return Form(number, int(x.storage_offset()), tuple(x.shape), x.stride(), x.dtype)

    def held(self) -> dict[int, Tensor]:
        """Returns the bytes of all memory that somebody holds, by the numbers of the blocks."""
        found = {number: tensor_of(storage) for number, storage in self._storages.items()}
        return {number: x for number, x in found.items() if x is not None}


def is_form(x: Any) -> bool:
    """Whether something stands for a tensor."""
    return isinstance(x, Form)


def tensor_of(storage: StorageWeakRef) -> Tensor | None:
    """Returns the bytes of a storage, or None if nobody holds it any more."""
    found = torch.UntypedStorage._new_with_weak_ptr(storage.cdata)
    if found is None:
        return None
    return torch.empty(0, dtype=torch.uint8, device=found.device).set_(found)


def bytes_of(x: Tensor) -> Tensor:
    """Returns all bytes of a tensor's memory."""
    count = x.untyped_storage().nbytes() // x.itemsize
    return x.as_strided((count,), (1,), 0).view(torch.uint8)


def placed(form: Form, memory: Tensor) -> Tensor:
    """Returns the tensor of a form in these bytes."""
    size = form.dtype.itemsize
    typed = memory[: len(memory) // size * size].view(form.dtype)
    return typed.as_strided(form.shape, form.stride, form.offset)
