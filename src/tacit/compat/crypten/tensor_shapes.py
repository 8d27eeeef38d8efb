"""Views, copies and elements of CrypTen's tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from .wrapping import Wrapped, in_place, operands, real, same


class Shapes(Wrapped):
    """Methods that move elements, or add to some of them. Indices are public."""

    t, transpose, permute = same("t"), same("transpose"), same("permute")
    view, reshape, flatten = same("view"), same("reshape"), same("flatten")
    squeeze, unsqueeze, narrow = same("squeeze"), same("unsqueeze"), same("narrow")
    expand, repeat, roll, flip = same("expand"), same("repeat"), same("roll"), same("flip")
    split, chunk, unbind = same("split"), same("chunk"), same("unbind")
    unfold, index_select, gather = same("unfold"), same("index_select"), same("gather")
    trace, tril, triu = same("trace"), same("tril"), same("triu")
    index_add, scatter = same("index_add", tensor="source"), same("scatter")
    scatter_add = same("scatter_add", other="src")
    index_fill, scatter_ = same("index_fill"), in_place("scatter")
    index_add_, scatter_add_ = in_place("index_add"), in_place("scatter_add")
    index_fill_ = in_place("index_fill")
    clone = same("clone")

    def take(self, index: Any, dimension: int | None = None) -> Any:
        """Returns the elements at public places: of the flat tensor, or along a dimension."""
        if dimension is None:
            return self.wrapped(self.secret.flatten()[index])
        places = (slice(None),) * (dimension % self.secret.dim())
        return self.wrapped(self.secret[(*places, index)])

    def pad(self, pad: Any, mode: str = "constant", value: Any = 0) -> Any:
        """Returns the tensor with a border of `value`, which may be secret."""
        if mode != "constant":
            return self.wrapped(functional.pad(self.real, tuple(pad), mode=mode))
        if not isinstance(value, Wrapped):
            return self.wrapped(functional.pad(self.secret, tuple(pad), value=value))
        border = functional.pad(torch.zeros(self.secret.shape), tuple(pad), value=1)
        return self.wrapped(functional.pad(self.real, tuple(pad)) + border * value.real)

    def __getitem__(self, index: Any) -> Any:
        return self.wrapped(self.secret[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        new = operands(value)
        if isinstance(new, torch.Tensor) and new.dtype != self.secret.dtype:
            new = new.to(self.secret.dtype)
        with torch.no_grad():
            self.secret[index] = new

    @staticmethod
    def cat(tensors: Any, dim: int = 0) -> Any:
        """Returns the tensors one after the other along a dimension."""
        return _joined(torch.cat, tensors, dim)

    @staticmethod
    def stack(tensors: Any, dim: int = 0) -> Any:
        """Returns the tensors one after the other along a new dimension."""
        return _joined(torch.stack, tensors, dim)


def _joined(join: Any, tensors: Any, dim: int) -> Any:
    """Returns the joined tensor: secret if one of them is."""
    first: Any = next((one for one in tensors if isinstance(one, Wrapped)), None)
    if first is None:
        return join(list(tensors), dim=dim)
    if all(isinstance(one, Wrapped) and one.holds_bits for one in tensors):
        return first.joined_bits(join, tensors, dim)
    kinds = {operands(one).dtype for one in tensors}
    parts = [operands(one) if len(kinds) == 1 else real(one) for one in tensors]
    return first.wrapped(join(parts, dim=dim))
