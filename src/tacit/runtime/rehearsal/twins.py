"""Float64 copies of secrets, on which torch repeats every operation.

A secret tensor is a view of a cell (NOTE [views] in tensor/secret.py), and its strides are those
that a plain tensor would have. So one plain tensor for each cell is enough: the twin of a secret is
the same view of it, and operations in place write to it as torch does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ...errors import RangeError
from ...fixedpoint import Numbers
from ...fixedpoint.encoding import placed
from ...tensor.debug import RANDOM, UNINITIALISED, may_hide, name_of
from .arguments import changed, leaves

# Operations in which a public number is a factor: it hides nothing, however large it is.
FACTORS = {"mul", "div", "addcmul", "addcdiv", "mm", "bmm", "addmm", "baddbmm"}


@dataclass(frozen=True)
class View:
    """The place of a secret tensor in its cell, whose number is the same at all parties."""

    number: int
    shape: torch.Size
    strides: tuple[int, ...]
    offset: int


class Twins:
    """The twins by the number of the cell. doubtful: those that are known to differ already."""

    def __init__(self, n: Numbers) -> None:
        self.numbers = n
        self._whole: dict[int, Tensor] = {}
        self.doubtful: set[int] = set()

    def keep(self, number: int, tensor: Tensor | None) -> None:
        """Sets the twin of a whole cell; None if it is not known. Takes over the tensor."""
        if tensor is None:
            self._whole.pop(number, None)
        else:
            self._whole[number] = tensor.contiguous()

    def drop(self, number: int) -> None:
        """Forgets a cell."""
        self._whole.pop(number, None)
        self.doubtful.discard(number)

    def whole(self, number: int) -> Tensor | None:
        """Returns the twin of a whole cell, if it is known."""
        return self._whole.get(number)

    def view(self, view: View) -> Tensor:
        """Returns the twin of a secret tensor."""
        return self._whole[view.number].as_strided(view.shape, view.strides, view.offset)

    def know(self, views: Sequence[View]) -> bool:
        """Returns whether all of these are known."""
        return all(view.number in self._whole for view in views)

    def computed(self, func: OpOverload, args: Any, kwargs: Any) -> list[Any] | None:
        """Returns the results of torch's operation on twins, flat; None if they say nothing.

        They say nothing if a random number decides, or if torch cannot do it in float64. Raises
        RangeError for an index or a label that torch refuses.
        """
        operands = leaves((args, kwargs))
        random = RANDOM in func.tags and "attention" not in name_of(func)
        if random or name_of(func).startswith(UNINITIALISED):
            return None
        views = [x for x in operands if isinstance(x, View)]
        if not self.know(views):
            return None
        hides = name_of(func).rstrip("_") not in FACTORS and any(map(may_hide, operands))

        def plain(x: Any) -> Any:
            if isinstance(x, View):
                return self.view(x)
            if isinstance(x, Tensor) and x.is_floating_point():
                return (placed(self.numbers, x) if hides else x).detach().to("cpu", torch.float64)
            if isinstance(x, float) and hides:
                return placed(self.numbers, x)
            return torch.float64 if isinstance(x, torch.dtype) and x.is_floating_point else x

        try:
            made = func(*changed(args, plain), **changed(kwargs, plain))
        except IndexError:
            raise RangeError(
                "an index or a label is outside of its range",
                remedy="check the data, or the number of classes or rows",
                number="index",
            ) from None
        except (RuntimeError, TypeError, ValueError):
            return None
        used = {_memory(self._whole[view.number]) for view in views}
        return [_own(x, used) for x in leaves(made)]


def _memory(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _own(x: Any, used: set[int]) -> Any:
    """A result in memory that no operand has: torch may return an operand."""
    if isinstance(x, Tensor) and _memory(x) in used:
        return x.clone(memory_format=torch.contiguous_format)
    return x
