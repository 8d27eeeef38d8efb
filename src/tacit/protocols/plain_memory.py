"""The memory of an enclave for secret tensors, where it is limited: what operations ask of it.

An operation runs inside `compute`, which opens its operands and makes room for its results first.
Elsewhere a tensor of such a memory may be sealed outside, and reads as zeros.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from ..errors import OutOfMemory
from ..kernels.dispatch_mode import DispatchMode

T = TypeVar("T")
OPENED_PARTS = 16  # of a limited memory: `read` and `write` open so much at a time, or less


@dataclass(frozen=True)
class MemoryCounters:
    """What a limited memory has done so far. `peak` is never above `limit`.

    limit, resident, peak: bytes of plaintext. seconds_sealing, seconds_opening: what chunks took,
    on all threads. seconds_waiting: how long operations waited for chunks and for room.
    """

    limit: int
    resident: int
    peak: int
    opened: int
    evicted: int
    bytes_sealed: int
    bytes_opened: int
    seconds_sealing: float
    seconds_opening: float
    seconds_waiting: float


class PlainMemory(ABC):
    """Secret tensors in plain, of which at most `limit` bytes are inside at any time."""

    limit: int | None

    @abstractmethod
    def adopt(self, tensor: Tensor, name: str) -> None:
        """Takes over the memory of a tensor, with all views: nobody writes to it any more."""

    @abstractmethod
    def new(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Returns a tensor that takes no room until parts of it are opened and written."""

    @abstractmethod
    def opened(
        self, name: str, tensors: Iterable[Tensor], *, write: bool = False
    ) -> AbstractContextManager[None]:
        """Brings tensors inside, where they stay until the end; those of others are left alone.

        With `write` the caller may write to them.
        """

    @abstractmethod
    def working(self, name: str, size: int) -> AbstractContextManager[None]:
        """Makes room for so many bytes of plaintext, until the end."""

    @abstractmethod
    def prefetch(self, name: str, tensors: Iterable[Tensor]) -> None:
        """Says what `opened` is asked for next: it may be brought inside meanwhile.

        As much as there is room for, in the order of the tensors. An earlier call is given up.
        """

    @abstractmethod
    def size_of(self, tensors: Iterable[Tensor]) -> int:
        """Returns the bytes that `opened` brings inside for these tensors."""

    @abstractmethod
    def forget_freed(self) -> None:
        """Gives up the memory of tensors that nobody has any more."""

    @abstractmethod
    def counters(self) -> MemoryCounters | None:
        """Returns what was counted so far; None without a limit."""

    def compute(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Returns function(*args, **kwargs): tensors that belong to this memory.

        What the results take is found on tensors without elements. A view opens nothing.
        """
        form = Form(function, args, kwargs)
        if (views := form.views()) is not None:
            return views
        if not self.fits(form):
            raise self.too_large(name, form)
        with self.opened(name, form.operands):
            with self.working(name, form.new_bytes):
                made = function(*args, **kwargs)
            self.adopt_all(name, made)
        return made

    def fits(self, form: Form) -> bool:
        """Whether the operands and the results of an operation fit at once."""
        return self.limit is None or self._needed(form) <= self.limit

    def too_large(self, name: str, form: Form) -> OutOfMemory:
        """Returns the error for an operation that does not fit, and cannot be cut."""
        return OutOfMemory(
            f"{name} needs {self._needed(form)} bytes of plaintext inside the enclave at once",
            limit=f"memory_limit leaves {self.limit}",
            remedy="use a smaller batch, or a larger memory_limit",
            subject=name,
        )

    def _needed(self, form: Form) -> int:
        return self.size_of(form.operands) + form.new_bytes

    def read(self, name: str, tensor: Tensor) -> Tensor:
        """Returns a copy of a tensor in order, for which the caller is responsible.

        The copy does not count. A small part of the tensor is opened at a time.
        """
        made = torch.empty(tensor.shape, dtype=tensor.dtype)
        for (part, into), following in with_next(self._parts(tensor, made)):
            if following:
                self.prefetch(name, following[:1])
            with self.opened(name, [part]):
                into.copy_(part)
        return made

    def write(self, name: str, into: Tensor, values: Tensor) -> None:
        """Copies values into a tensor of `new`, or a view of it; `read` says how."""
        for part, source in self._parts(into, values):
            with self.opened(name, [part], write=True):
                part.copy_(source)

    def _parts(self, x: Tensor, other: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Returns parts of a tensor, which take little room, with those of one of its shape."""
        assert self.limit is not None
        most = self.limit // OPENED_PARTS
        if extent(x) <= most or x.numel() == 1:
            yield x, other
            return
        dim = max(range(x.dim()), key=lambda dim: x.stride(dim) if x.shape[dim] > 1 else -1)
        step = max(most // (x.stride(dim) * x.element_size()), 1) if x.stride(dim) else x.shape[dim]
        for part, some in zip(x.split(step, dim), other.split(step, dim), strict=True):
            yield from self._parts(part, some)

    def adopt_all(self, name: str, made: Any) -> None:
        """Takes over the memory of all tensors in a result."""
        for one in tree_leaves(made):
            if isinstance(one, Tensor):
                self.adopt(one, name)


class UnlimitedMemory(PlainMemory):
    """The memory of a member without a limit: tensors are torch's own, and nothing leaves."""

    limit = None

    def adopt(self, tensor: Tensor, name: str) -> None:
        """Does nothing."""

    def new(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        return torch.empty(tuple(shape), dtype=dtype)

    def opened(
        self, name: str, tensors: Iterable[Tensor], *, write: bool = False
    ) -> AbstractContextManager[None]:
        return nullcontext()

    def working(self, name: str, size: int) -> AbstractContextManager[None]:
        return nullcontext()

    def prefetch(self, name: str, tensors: Iterable[Tensor]) -> None:
        """Does nothing."""

    def size_of(self, tensors: Iterable[Tensor]) -> int:
        return 0

    def forget_freed(self) -> None:
        """Does nothing."""

    def counters(self) -> None:
        return None

    def read(self, name: str, tensor: Tensor) -> Tensor:
        return tensor

    def write(self, name: str, into: Tensor, values: Tensor) -> None:
        into.copy_(values)

    def compute(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)


UNLIMITED = UnlimitedMemory()


class Form:
    """The shapes of an operation's results, found by running it on the meta device."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.operands: list[Tensor] = []
        self._twins: dict[int, tuple[Tensor, Tensor]] = {}  # by their memory
        twins, named = tree_map_only(Tensor, self._twin, (args, kwargs))
        with _Allocations() as allocated:
            self.results = function(*twins, **named)
        self._allocated = allocated.made

    def _twin(self, x: Tensor) -> Tensor:
        twin = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
        self._twins[_memory(twin)] = twin, x
        self.operands.append(x)
        return twin

    @property
    def new_bytes(self) -> int:
        """The bytes of all tensors that it makes, and of copies of scattered operands."""
        sizes = {_memory(x): x.untyped_storage().nbytes() for x in self._allocated}
        copies = [x.numel() * x.element_size() for x in self.operands if not x.is_contiguous()]
        return sum(size for key, size in sizes.items() if key not in self._twins) + sum(copies)

    def views(self) -> Any:
        """Returns the results if all are views of operands; else None."""
        found = tree_leaves(self.results)
        if not all(isinstance(x, Tensor) and _memory(x) in self._twins for x in found):
            return None
        return tree_map_only(Tensor, self._view, self.results)

    def _view(self, shown: Tensor) -> Tensor:
        _, x = self._twins[_memory(shown)]
        offset = int(x.storage_offset() + shown.storage_offset())
        return x.as_strided(shown.shape, shown.stride(), offset)


class _Allocations(DispatchMode):
    """Keeps all tensors that operations return, so that what they take can be added up."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        self.made += [x for x in tree_leaves(made) if isinstance(x, Tensor) and x.is_meta]
        return made


def with_next(items: Iterable[T]) -> Iterator[tuple[T, T | None]]:
    """Returns each item with the one that follows it; None after the last."""
    return pairwise(chain(items, [None]))  # type: ignore[list-item]


def extent(x: Tensor) -> int:
    """Returns the bytes of memory from the first element of a tensor to its last one."""
    if not x.numel():
        return 0
    reach = sum((count - 1) * stride for count, stride in zip(x.shape, x.stride(), strict=True))
    return (int(reach) + 1) * x.element_size()


def _memory(x: Tensor) -> int:
    return int(x.untyped_storage()._cdata)
