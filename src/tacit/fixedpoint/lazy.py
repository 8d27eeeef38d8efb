"""Values that are computed when somebody reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .value import Value


class Deferred(Value):
    """A value of known shape and dtype whose shares are made when first asked for.

    All parties run one program, so all ask at the same place or none does.
    """

    def __init__(
        self,
        make: Callable[[], Value],
        shape: Sequence[int],
        dtype: torch.dtype,
        kept: dict[str, Value] | None = None,
    ) -> None:
        for name, value in (
            ("dtype", dtype),
            ("kept", kept or {}),
            ("_make", make),
            ("_form", torch.Size(shape)),
            ("_made", None),
        ):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Deferred(shape={tuple(self.shape)}, dtype={self.dtype})"

    @property
    def share(self) -> Any:
        return self._now().share

    @property
    def waits(self) -> bool:
        """Whether nobody has asked yet."""
        return self.__dict__["_made"] is None

    def _now(self) -> Value:
        made: Value | None = self.__dict__["_made"]
        if made is None:
            made = self.__dict__["_make"]()
            object.__setattr__(self, "_made", made)
            object.__setattr__(self, "_make", None)  # what it was made of may go
        return made

    @property
    def shape(self) -> torch.Size:
        form: torch.Size = self.__dict__["_form"]
        return form

    @property
    def is_bit(self) -> bool:
        return self.dtype == torch.bool

    def keep(self, **others: Value) -> Value:
        return Deferred(self._now, self.shape, self.dtype, {**self.kept, **others})

    def map(self, change: Callable[[Tensor], Tensor]) -> Value:
        shape = change(torch.empty(self.shape, device="meta")).shape
        return Deferred(lambda: self._now().map(change), shape, self.dtype)
