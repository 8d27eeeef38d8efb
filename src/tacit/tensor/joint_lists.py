"""Which elements of the lists of a `_foreach_` operation are computed as one vector.

torch's optimizers call these operations with lists of all their tensors. An operation that takes
rounds is done once for the tensors of one form (fixedpoint/extended/joint_vectors.py).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..fixedpoint import Numbers
from ..fixedpoint.extended.joint_vectors import form, joined
from ..fixedpoint.extended.moments import ExtendedValue, Gradient, Ratio
from .secret import SecretTensor

# Of a joined vector. A quotient of Adam takes 1.5 KB for each element at a party that deals: with
# more elements memory grows, and rounds are a small part of the time anyway.
MOST_ELEMENTS = 1 << 20
# The operations that take rounds.
WITH_GRADIENTS = {"abs", "lerp", "addcmul", "addcdiv", "maximum"}
WITH_EXTENDED = WITH_GRADIENTS | {"add", "mul", "div", "sqrt"}


@dataclass
class _Group:
    """Places in the lists, whose secrets have the same forms, and other arguments are equal."""

    forms: Hashable
    others: list[Any]
    places: list[int]
    elements: int


def groups(name: str, args: Sequence[Any]) -> list[list[int]]:
    """Returns the places in the lists by what is computed together; most lists give one group."""
    found: list[_Group] = []
    for i in range(len(args[0])):
        row = [a[i] for a in args if isinstance(a, list | tuple)]
        forms, elements = _forms(name, row), row[0].numel()
        others = [x for x in row if not isinstance(x, Tensor)]
        for group in found if forms is not None else ():
            fits = group.forms == forms and group.elements + elements <= MOST_ELEMENTS
            if fits and all(map(_equal, group.others, others)):
                group.places.append(i)
                group.elements += elements
                break
        else:
            found.append(_Group(forms, others, [i], elements))
    return [group.places for group in found]


def _forms(name: str, row: Sequence[Any]) -> Hashable | None:
    """The forms of the secrets; None if they are not joined."""
    tensors = [x for x in row if isinstance(x, Tensor)]
    if not all(type(x) is SecretTensor and x.shape == tensors[0].shape for x in tensors):
        return None
    values = [x.label for x in tensors]  # type: ignore[attr-defined]
    extended = any(isinstance(x, ExtendedValue | Ratio) for x in values)
    gradients = any(isinstance(x, Gradient) for x in values)
    if not (extended and name in WITH_EXTENDED) and not (gradients and name in WITH_GRADIENTS):
        return None
    forms = tuple(map(form, values))
    return None if None in forms else forms


def _equal(a: Any, b: Any) -> bool:
    """Whether two numbers are equal. Of symbolic ones that is noted: a replay depends on it."""
    return type(a) is type(b) and bool(a == b)


def together(n: Numbers, args: Sequence[Any], places: Sequence[int]) -> list[Any]:
    """Returns the arguments of one operation on what is at these places of the lists."""
    made: dict[tuple[int, ...], SecretTensor] = {}

    def one(x: Any) -> Any:
        if not isinstance(x, list | tuple):
            return x
        chosen = [x[i] for i in places]
        if not isinstance(chosen[0], Tensor):
            return chosen[0]
        values = [tensor.value for tensor in chosen]
        key = tuple(map(id, values))
        if key not in made:
            made[key] = SecretTensor(joined(n, values), n)
        return made[key]

    return [one(x) for x in args]
