"""The public numbers that meet secrets in a call, and what else it returns.

Two calls in a row must agree in them. A number that Python's code takes from elsewhere, such as a
counter or a generator of random numbers, would be fixed in a recording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import string_at
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import TreeSpec, tree_leaves

from ...tensor import SecretTensor
from .buffers import equal_public

VARIES = object()  # stands for numbers that each replay computes anew


class SeenOperands:
    """The operations on secrets in one call, with their public arguments, and public results."""

    def __init__(self) -> None:
        self._calls: list[tuple[OpOverload, list[Any]]] = []
        self._results: tuple[TreeSpec, Sequence[Any]] | None = None

    def note(
        self, func: OpOverload, args: Any, kwargs: Any, varies: Callable[[Tensor], bool]
    ) -> None:
        """Notes an operation. varies: whether a replay computes the contents of a tensor anew."""
        given = [x for x in tree_leaves((args, kwargs)) if not isinstance(x, SecretTensor)]
        self._calls.append((func, [_noted(x, varies) for x in given]))

    def note_results(self, others: Sequence[Any], spec: TreeSpec) -> None:
        """Notes what a function returns besides secrets; tensors are results of a replay."""
        self._results = spec, [x for x in others if not isinstance(x, Tensor)]

    def difference(self, before: SeenOperands) -> str | None:
        """Returns in what a call differs from the one before, or None."""
        pairs = zip(self._calls, before._calls, strict=False)
        if len(self._calls) != len(before._calls) or not all(a[0] is b[0] for a, b in pairs):
            return "it does something else than in the call before"
        pairs = zip(self._calls, before._calls, strict=True)
        if not all(_alike(a[1], b[1]) for a, b in pairs):
            return "it computes with other public numbers than in the call before"
        if self._results is None or before._results is None:
            return None
        (spec, results), (spec_before, results_before) = self._results, before._results
        if spec != spec_before or not all(map(equal_public, results, results_before)):
            return "it returns something else that is public than in the call before"
        return None


def _noted(x: Any, varies: Callable[[Tensor], bool]) -> Any:
    if not isinstance(x, Tensor):
        return x
    return VARIES if not x.is_cpu or varies(x) else _digest(x)


def _digest(x: Tensor) -> bytes:
    with _disable_current_modes(), torch.no_grad():
        held = x.contiguous()
        return blake2b(string_at(held.data_ptr(), held.nbytes), digest_size=16).digest()


def _alike(now: Sequence[Any], before: Sequence[Any]) -> bool:
    pairs = zip(now, before, strict=False)
    return len(now) == len(before) and all(
        a is VARIES or b is VARIES or equal_public(a, b) for a, b in pairs
    )
