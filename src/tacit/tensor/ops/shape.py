"""Views and other changes of shape: local, and aliases where torch's are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...fixedpoint import Numbers, Operand, Value
from ..table import implements

aten = torch.ops.aten


def _view(overload: Any) -> None:
    """Registers a view of one tensor: torch's own, taken of each part."""

    def take(n: Numbers, self: Value, *args: Any, **kwargs: Any) -> Any:
        return self.map(lambda part: overload(part, *args, **kwargs))

    take.__name__ = overload._schema.name.removeprefix("aten::")
    implements(overload, view=True)(take)


for each in (
    aten.select.int,
    aten.slice.Tensor,
    aten.t.default,
    aten.transpose.int,
    aten.permute.default,
    aten.expand.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.unsqueeze.default,
    aten.diagonal.default,
    aten.unfold.default,
):
    _view(each)


@implements(aten.detach.default, aten.alias.default, view=True)
def alias(n: Numbers, self: Value) -> Value:
    return self


@implements(aten.view.default, aten._unsafe_view.default, view=True)
def view(n: Numbers, self: Value, size: Sequence[int]) -> Value:
    return self.map(lambda part: part.reshape(size))


@implements(aten.cat.default)
def cat(n: Numbers, tensors: Sequence[Operand], dim: int = 0) -> Value:
    full = [x for x in tensors if tuple(x.shape) != (0,)]  # type: ignore[union-attr]
    return n.joined(full or tensors, lambda parts: torch.cat(parts, dim))


@implements(aten.stack.default)
def stack(n: Numbers, tensors: Sequence[Operand], dim: int = 0) -> Value:
    return n.joined(tensors, lambda parts: torch.stack(parts, dim))
