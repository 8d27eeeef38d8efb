"""What a file holds, without its values, and what each party expects of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch

from .contents import Budget, Contents, FileRejected

T = TypeVar("T")
Dims = tuple[int | None, ...]


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of a file; its name is empty if the file has only one."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    def __str__(self) -> str:
        return repr(self.name) if self.name else "the tensor"


@dataclass(frozen=True)
class Announcement:
    """What the owner tells all parties: names, shapes, dtypes, and the number of classes."""

    form: str
    entries: tuple[TensorEntry, ...]
    classes: int = 0

    @classmethod
    def of(cls, contents: Contents) -> Announcement:
        entries = [TensorEntry(k, tuple(t.shape), t.dtype) for k, t in contents.tensors.items()]
        return cls(contents.form, tuple(entries), contents.classes)


@dataclass(frozen=True)
class Expectation:
    """The expected shape and dtype of all tensors, or of some by name; None accepts any."""

    shape: Dims | Mapping[str, Dims] | None
    dtype: torch.dtype | Mapping[str, torch.dtype] | None
    limit: int

    def difference(self, announced: Announcement) -> str | None:
        """Returns the first difference from what was announced, in words, or None."""
        names = {entry.name for entry in announced.entries}
        for what, expected in (("shape", self.shape), ("dtype", self.dtype)):
            if isinstance(expected, Mapping) and (missing := sorted(expected.keys() - names)):
                return f"{what}= names {missing[0]!r}, which is not in it"
        budget = Budget(self.limit)
        for entry in announced.entries:
            shape, dtype = _of(self.shape, entry), _of(self.dtype, entry)
            if shape is not None and not _fits(shape, entry.shape):
                return f"{entry} has shape {entry.shape}, and shape={shape} is expected"
            if dtype is not None and dtype != entry.dtype:
                return f"{entry} is {entry.dtype}, and dtype={dtype} is expected"
            try:
                budget.take(entry.shape)
            except FileRejected as refusal:
                return refusal.reason
        return None


def _of(expected: T | Mapping[str, T] | None, entry: TensorEntry) -> T | None:
    return expected.get(entry.name) if isinstance(expected, Mapping) else expected


def _fits(expected: Dims, shape: tuple[int, ...]) -> bool:
    return len(expected) == len(shape) and all(
        want in (None, size) for want, size in zip(expected, shape, strict=True)
    )
