"""Fixed places for tensors and values, and arguments with the secrets taken out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from ...fixedpoint import Value
from ...fixedpoint.flatten import form, rebuilt, tensors
from ...tensor import SecretTensor

if TYPE_CHECKING:
    from ..session import Session

SECRET = object()


class Room:
    """Fixed memory for tensors of these forms, in one piece of each dtype."""

    def __init__(self, like: Sequence[Tensor]) -> None:
        self._cuts: list[tuple[torch.dtype, int, torch.Size]] = []
        sizes: dict[torch.dtype, int] = {}
        for tensor in like:
            start = sizes.get(tensor.dtype, 0)
            self._cuts.append((tensor.dtype, start, tensor.shape))
            sizes[tensor.dtype] = start + -(-tensor.numel() // 16) * 16
        device = like[0].device if like else None
        self._flat = {
            dtype: torch.empty(size, dtype=dtype, device=device) for dtype, size in sizes.items()
        }
        self.tensors = self._cut(self._flat)
        self.put(like)

    def put(self, new: Sequence[Tensor]) -> None:
        """Copies tensors to their places."""
        for place, tensor in zip(self.tensors, new, strict=True):
            place.copy_(tensor)

    def copies(self) -> list[Tensor]:
        """What lies here now, in memory of its own."""
        return self._cut({dtype: flat.clone() for dtype, flat in self._flat.items()})

    def _cut(self, flat: dict[torch.dtype, Tensor]) -> list[Tensor]:
        return [
            flat[dtype][start : start + shape.numel()].view(shape)
            for dtype, start, shape in self._cuts
        ]


class Values:
    """Values of fixed form in a room of their own."""

    def __init__(self, session: Session, values: Sequence[Value]) -> None:
        self._numbers, self._like = session.numbers, list(values)
        self.forms = [form(value) for value in values]
        self.room = Room([part for value in values for part in tensors(value)])

    def put(self, values: Sequence[Value]) -> None:
        self.room.put([part for value in values for part in tensors(value)])

    def fixed(self) -> list[Value]:
        """The values that lie here, and change when others are put."""
        return self._made(self.room.tensors)

    def copies(self) -> list[Value]:
        return self._made(self.room.copies())

    def _made(self, parts: Sequence[Tensor]) -> list[Value]:
        taken = iter(parts)
        return [
            rebuilt(self._numbers, value, [next(taken) for _ in tensors(value)])
            for value in self._like
        ]


class Structure(NamedTuple):
    """Arguments or results: the secret ones apart from the rest."""

    secrets: list[SecretTensor]
    others: list[Any]  # SECRET in the place of a secret
    spec: TreeSpec

    @classmethod
    def of(cls, things: Any) -> Structure:
        leaves, spec = tree_flatten(things)
        others = [SECRET if isinstance(x, SecretTensor) else x for x in leaves]
        return cls([x for x in leaves if isinstance(x, SecretTensor)], others, spec)

    @property
    def values(self) -> list[Value]:
        return [x.value for x in self.secrets]

    def with_secrets(self, session: Session, values: Sequence[Value]) -> Any:
        new = iter(values)
        leaves = [
            SecretTensor(next(new), session.numbers) if x is SECRET else x for x in self.others
        ]
        return tree_unflatten(leaves, self.spec)


class Pattern:
    """What calls have in common that do the same work, and torch's modes at the time."""

    def __init__(self, given: Structure) -> None:
        self._spec, self._others = given.spec, [remembered(x) for x in given.others]
        self._forms = [form(value) for value in given.values]
        self._modes = _modes()

    def fits(self, given: Structure) -> bool:
        """Whether the secrets have the same forms, and the rest is equal."""
        return (
            self._spec == given.spec
            and self._modes == _modes()
            and all(map(equal, self._others, given.others))
            and self._forms == [form(value) for value in given.values]
        )


def _modes() -> tuple[Any, ...]:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_default_dtype(),
    )


def remembered(thing: Any) -> Any:
    """The thing, as it can be compared with later: a tensor may be written to in the meantime."""
    return thing.clone() if isinstance(thing, Tensor) else thing


def equal(a: Any, b: Any) -> bool:
    """Whether something public is the same; what cannot be compared is not."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and a.device == b.device and torch.equal(a, b)
    try:
        return a is b or bool(type(a) is type(b) and a == b)
    except Exception:
        return False
