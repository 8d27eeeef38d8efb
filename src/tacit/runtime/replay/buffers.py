"""Buffers at fixed addresses for a recorded graph, and arguments with their secrets taken out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from decimal import Decimal
from fractions import Fraction
from functools import cache
from types import BuiltinFunctionType, MethodType
from typing import Any, NamedTuple

import numpy
import torch
from torch import Tensor
from torch._prims_common import make_contiguous_strides_for
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from ...fixedpoint import Numbers, Value
from ...fixedpoint.flatten import signature, tensors, with_tensors
from ...tensor import SecretTensor
from .object_kinds import ATOMS

BITS = {torch.float64: torch.int64, torch.float32: torch.int32, torch.float16: torch.int16}
BITS[torch.bfloat16] = torch.int16
SECRET = object()  # stands for a secret tensor in a flattened tree
# What is equal and of one of these types is the same. An equal object of another type may hold
# something else, or later: nobody looks into it.
VALUES = ATOMS | {MethodType, BuiltinFunctionType, Fraction, Decimal, slice, range, torch.device}
LEAVES = frozenset((SecretTensor, Tensor, int, float, bool, str, type(None)))


class TensorBuffers:
    """Memory at fixed addresses for tensors of given shapes, one allocation per dtype."""

    def __init__(self, like: Sequence[Tensor]) -> None:
        self._slices: list[tuple[torch.dtype, torch.Size, tuple[int, ...], int]] = []
        sizes: dict[torch.dtype, int] = {}
        for tensor in like:
            start = sizes.get(tensor.dtype, 0)
            strides = make_contiguous_strides_for(tensor.shape)
            self._slices.append((tensor.dtype, tensor.shape, strides, start))
            sizes[tensor.dtype] = start + -(-tensor.numel() // 16) * 16
        device = like[0].device if like else None
        self._flat = {
            dtype: torch.empty(size, dtype=dtype, device=device) for dtype, size in sizes.items()
        }
        self.tensors = self._split(self._flat)
        self.copy_from(like)

    @property
    def num_bytes(self) -> int:
        """How much memory there is."""
        return sum(flat.nbytes for flat in self._flat.values())

    def copy_from(self, new: Sequence[Tensor]) -> None:
        """Overwrites the buffers with the values of other tensors."""
        for buffer, tensor in zip(self.tensors, new, strict=True):
            buffer.copy_(tensor)

    def spoil(self) -> None:
        """Overwrites all contents with others."""
        for flat in self._flat.values():
            flat.view(torch.uint8).bitwise_not_()

    def clones(self) -> list[Tensor]:
        """Returns copies of the current contents, in new memory."""
        return self._split({dtype: flat.clone() for dtype, flat in self._flat.items()})

    def _split(self, flat: dict[torch.dtype, Tensor]) -> list[Tensor]:
        return [
            flat[dtype].as_strided(shape, strides, start)
            for dtype, shape, strides, start in self._slices
        ]


class ValueBuffers:
    """Buffers for the parts of secret values; the form of each value is fixed."""

    def __init__(self, numbers: Numbers, values: Sequence[Value]) -> None:
        self._numbers, self._like = numbers, list(values)
        self.signatures = [signature(value) for value in values]
        self._buffers = TensorBuffers([part for value in values for part in tensors(value)])

    @property
    def num_bytes(self) -> int:
        """How much memory there is."""
        return self._buffers.num_bytes

    def copy_from(self, values: Sequence[Value]) -> None:
        """Overwrites the buffers with the parts of other values of the same forms."""
        self._buffers.copy_from([part for value in values for part in tensors(value)])

    def spoil(self) -> None:
        """Overwrites all contents with others."""
        self._buffers.spoil()

    def aliases(self) -> list[Value]:
        """Returns values that alias the buffers: they change with each `copy_from`."""
        return self._rebuild(self._buffers.tensors)

    def clones(self) -> list[Value]:
        """Returns copies of the current values, in new memory."""
        return self._rebuild(self._buffers.clones())

    def _rebuild(self, parts: Sequence[Tensor]) -> list[Value]:
        taken = iter(parts)
        return [
            with_tensors(self._numbers, value, [next(taken) for _ in tensors(value)])
            for value in self._like
        ]


class SecretTree(NamedTuple):
    """A nest of arguments or results, flattened, with the secret tensors apart from the rest."""

    secrets: list[SecretTensor]
    others: list[Any]  # SECRET where a secret was
    spec: TreeSpec

    @classmethod
    def of(cls, tree: Any) -> SecretTree:
        """Takes the secrets out of a nest of lists, tuples and dicts."""
        return cls._of_leaves(*tree_flatten(tree))

    @classmethod
    def of_call(cls, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> SecretTree:
        """Returns what `of` does for (args, kwargs); mostly no argument is a nest: that is fast."""
        if kwargs or not LEAVES.issuperset(map(type, args)):
            return cls.of((args, kwargs))
        return cls._of_leaves([*args], _flat_call(len(args)))

    @classmethod
    def _of_leaves(cls, leaves: list[Any], spec: TreeSpec) -> SecretTree:
        others = [SECRET if isinstance(x, SecretTensor) else x for x in leaves]
        return cls([x for x in leaves if isinstance(x, SecretTensor)], others, spec)

    @property
    def values(self) -> list[Value]:
        """The values of the secrets."""
        return [x.value for x in self.secrets]

    def with_secrets(self, numbers: Numbers, values: Sequence[Value]) -> Any:
        """Returns the nest with new secrets of these values."""
        return self.filled([SecretTensor(value, numbers) for value in values])

    def filled(self, secrets: Sequence[SecretTensor]) -> Any:
        """Returns the nest with these secrets."""
        new = iter(secrets)
        leaves = [next(new) if x is SECRET else x for x in self.others]
        return tree_unflatten(leaves, self.spec)


@cache
def _flat_call(num_arguments: int) -> TreeSpec:
    """Returns the form of a call with so many arguments, of which none is a nest."""
    return tree_flatten(((None,) * num_arguments, {}))[1]


class CallSignature:
    """What two calls that do the same work have in common: forms, public arguments, modes.

    private: the places of tensors among the plain arguments whose contents may differ, as they
    are shared; None as long as that is not known, and no contents are compared. varying: those of
    other plain tensors whose contents may differ from call to call. alike: those among them that
    meet secrets, so that all parties must give the same; the rest may be a party's own affair.
    """

    def __init__(
        self,
        given: SecretTree,
        private: Set[int] | None = None,
        varying: Set[int] = frozenset(),
        alike: Set[int] = frozenset(),
    ) -> None:
        self._spec, self._others = given.spec, [snapshot(x) for x in given.others]
        self._signatures = [signature(value) for value in given.values]
        self._modes = _modes()
        self.private, self.varying, self.alike = private, varying, alike

    def refined(
        self, given: SecretTree, private: Set[int], varying: Set[int], alike: Set[int]
    ) -> CallSignature:
        """Returns the signature of a call that fits, with what is known of its plain arguments.

        The forms of its secrets are those from before: calls may compute them if they are lazy.
        """
        made = CallSignature(given, private, varying, alike)
        made._signatures = self._signatures
        return made

    def fits(self, given: SecretTree) -> bool:
        """Returns whether forms and public arguments are those of a call of this kind."""
        return self.has_form(given) and self.differing(given) <= self.varying

    def differing(self, given: SecretTree) -> Set[int]:
        """Returns the places of public tensors that have other contents in a call of this form."""
        if self.private is None:
            return frozenset()
        return {
            i
            for i, x in enumerate(self._others)
            if isinstance(x, Tensor) and i not in self.private
            if i in self.varying or not equal_public(x, given.others[i])
        }

    def has_form(self, given: SecretTree) -> bool:
        """Returns whether everything but the contents of public tensors is the same."""
        return (
            self._spec == given.spec
            and self._modes == _modes()
            and all(map(_same_form, self._others, given.others))
            and self._signatures == [signature(value) for value in given.values]
        )


def _same_form(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)
    if type(a) is type(b) is numpy.ndarray:
        return a.shape == b.shape and _same_memory(a, b)
    return is_same(a, b)


def _modes() -> tuple[Any, ...]:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_default_dtype(),
    )


def snapshot(value: Any) -> Any:
    """Returns what to compare with later: a copy of a tensor, which may be written to meanwhile."""
    return value.clone() if isinstance(value, Tensor) else value


def is_same(a: Any, b: Any) -> bool:
    """Returns whether one object may stand for another: it is that, or an equal one of `VALUES`."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) in (tuple, torch.Size):
        return len(a) == len(b) and all(map(is_same, a, b))
    if isinstance(a, numpy.generic) and not isinstance(a, numpy.void):
        return _same_memory(a, b)
    return type(a) in VALUES and equal_public(a, b)


def _same_memory(a: Any, b: Any) -> bool:
    same: bool = a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return same


def equal_public(a: Any, b: Any) -> bool:
    """Returns whether two public values are equal; values that cannot be compared are not.

    0 and -0 are not, and NaN is equal to itself: code may decide by the sign, or by what is none.
    """
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return _same_form(a, b) and (a.is_meta or torch.equal(_bits(a), _bits(b)))
    if type(a) is type(b) is float:
        return a.hex() == b.hex()
    try:
        return a is b or bool(type(a) is type(b) and a == b)
    except Exception:
        return False


def _bits(x: Tensor) -> Tensor:
    """Returns floats as integers of the same bits; other tensors as they are."""
    return x.detach().view(BITS[x.dtype]) if x.dtype in BITS else x
