"""Values that are computed when something reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .value import Value


class LazyValue(Value):
    """A value of known shape and dtype whose share is computed at the first read.

    All parties run the same program, so all of them read it at the same place or none does.
    Subclasses keep fields beside the share that a later operation can use instead of it, for more
    precision; each of them is a kind that the table of rules (tacit.tensor.table) can name.
    """

    def __init__(
        self,
        compute: Callable[[], Value],
        shape: Sequence[int],
        dtype: torch.dtype,
        saved: dict[str, Value] | None = None,
    ) -> None:
        self._compute: Callable[[], Value] | None = compute
        self._computed: Value | None = None
        self._shape = torch.Size(shape)
        self._dtype = dtype
        self._saved = saved or {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={tuple(self.shape)}, dtype={self.dtype})"

    def computed(self) -> Value:
        """The ordinary value. The first call computes it."""
        if self._computed is None:
            assert self._compute is not None
            self._computed = self._compute()
            self._compute = None  # frees the operands
        return self._computed

    @property
    def is_computed(self) -> bool:
        """Whether something has read it."""
        return self._computed is not None

    @property
    def unread(self) -> bool:
        """Whether operations on this value should wait, too, until something reads the result."""
        return False

    @property
    def share(self) -> Any:
        return self.computed().share

    @property
    def shape(self) -> torch.Size:
        return self._shape

    @property
    def dtype(self) -> torch.dtype:
        return self._dtype

    @property
    def saved(self) -> dict[str, Value]:
        return self._saved

    @property
    def is_bit(self) -> bool:
        return self.dtype == torch.bool

    def with_saved(self, **others: Value) -> Value:
        return Deferred(self.computed, self.shape, self.dtype, {**self.saved, **others})

    def map(self, change: Callable[[Tensor], Tensor]) -> Value:
        shape = change(torch.empty(self.shape, device="meta")).shape
        return Deferred(lambda: self.computed().map(change), shape, self.dtype)

    def view(self, shape: Sequence[int]) -> Value:
        return self.map(lambda part: part.reshape(shape))


class Deferred(LazyValue):
    """A value that costs nothing if nothing reads it; results of it are deferred as well."""

    @property
    def unread(self) -> bool:
        return self._computed is None
