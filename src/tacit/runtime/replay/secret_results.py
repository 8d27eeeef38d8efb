"""The secrets among the results of a recorded function: what shares memory does so in replays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from ...fixedpoint import Numbers, Value
from ...tensor import SecretTensor
from ...tensor.secret import Layout, Take


class _View(NamedTuple):
    """A result: the place of its tensor, and the part of that tensor that it shows, if not all."""

    place: int
    part: tuple[Layout, Take] | None


class SecretResults:
    """The tensors that results are, or are views of: a write to one of those shows in the others.

    values: of the tensors.
    """

    def __init__(self, secrets: Sequence[SecretTensor], gradients: dict[int, SecretTensor]) -> None:
        """gradients: the leaves whose gradients the function has set, by the cells of those."""
        alike: dict[int, list[SecretTensor]] = {}
        for x in secrets:
            alike.setdefault(id(x._cell), []).append(x)
        bases = [_base(xs, is_gradient=cell in gradients) for cell, xs in alike.items()]
        places = {cell: i for i, cell in enumerate(alike)}
        self.values = [base.value for base in bases]
        self._leaves = [gradients.get(cell) for cell in alike]
        self._views = [_view(x, places[id(x._cell)], bases[places[id(x._cell)]]) for x in secrets]

    def made(self, numbers: Numbers, values: Sequence[Value]) -> list[SecretTensor]:
        """Returns the results, for other values of the tensors. Gradients are those of now."""
        pairs = zip(self._leaves, values, strict=True)
        bases = [
            SecretTensor(value, numbers) if leaf is None else cast("SecretTensor", leaf.grad)
            for leaf, value in pairs
        ]
        return [_shown(bases[view.place], view) for view in self._views]


def _base(alike: Sequence[SecretTensor], *, is_gradient: bool) -> SecretTensor:
    """Returns the tensor whose value is kept: that of all aliases, or the only one of them."""
    first = alike[0]
    return first.base() if is_gradient or any(x is not first for x in alike) else first


def _view(x: SecretTensor, place: int, base: SecretTensor) -> _View:
    if x is base or x._take is None:
        return _View(place, None)
    return _View(place, ((x.stride(), int(x.storage_offset())), x._take))


def _shown(base: SecretTensor, view: _View) -> SecretTensor:
    if view.part is None:
        return base
    layout, take = view.part
    return base.viewed(take(base.value), layout, take)
