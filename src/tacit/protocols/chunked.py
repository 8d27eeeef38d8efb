"""Operations on large secrets a piece at a time, within a budget of memory.

The pieces of one operation are done one after the other, each in rounds of its own. All parties
have the same budget (it is among the settings whose digest the handshake compares), so they cut
alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from math import prod
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import torch
from torch import Tensor

from .share import Arith, Bool, Share
from .steps import Steps

if TYPE_CHECKING:
    from .base import Protocol

P = ParamSpec("P")
R = TypeVar("R")
Body = Callable[Concatenate[Any, P], Steps[R]]

WORD = 64  # elements: pieces of packed bits begin at a word


def in_pieces(bytes_per_element: Callable[..., int] | int) -> Callable[[Body[P, R]], Body[P, R]]:
    """An elementwise operation that keeps to the memory limit of its protocol.

    `bytes_per_element` is what it takes at a party beyond operands and results, or a function of
    its arguments that says so.
    """

    def cut(body: Body[P, R]) -> Body[P, R]:
        @wraps(body)
        def steps(p: Any, *args: P.args, **kwargs: P.kwargs) -> Steps[R]:
            limit = p.context.memory_limit
            if limit is None:
                return body(p, *args, **kwargs)
            cost = bytes_per_element
            each = cost if isinstance(cost, int) else cost(*args, **kwargs)
            size = max(limit // each // WORD, 1) * WORD
            return _one_by_one(p, body, size, args, kwargs)

        return steps  # type: ignore[return-value]

    return cut


def _one_by_one(
    p: Protocol, body: Callable[..., Steps[R]], size: int, args: Sequence[Any], kwargs: Any
) -> Steps[R]:
    """The operation on `size` elements after another."""
    whole = [x for x in _flat(args) if isinstance(x, Share)]
    if not whole or prod(whole[0].shape) <= size:
        return (yield from body(p, *args, **kwargs))
    shape, results = whole[0].shape, []
    lined_up = [_lined_up(x) for x in args]
    for start in range(0, prod(shape), size):
        some = [_piece(x, start, size) for x in lined_up]
        results.append((yield from body(p, *some, **kwargs)))
    return cast(R, _joined(results, shape))


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flat(value)
        else:
            yield value


def _lined_up(x: Any) -> Any:
    """Elements of what is secret in one row: copied once, if at all, and not for every piece."""
    if isinstance(x, list | tuple):
        return type(x)(map(_lined_up, x))
    return x.map(lambda part: part.reshape(-1)) if isinstance(x, Arith) else x


def _piece(x: Any, start: int, size: int) -> Any:
    """Elements [start, start + size) of what is secret; the rest as it is."""
    if isinstance(x, list | tuple):
        return type(x)(_piece(one, start, size) for one in x)
    if not isinstance(x, Share):
        return x
    count = min(size, prod(x.shape) - start)
    if isinstance(x, Arith):
        return x.map(lambda part: part.narrow(0, start, count))
    assert isinstance(x, Bool)
    words = slice(start // WORD, -(-(start + count) // WORD))
    return Bool({i: part[:, words].contiguous() for i, part in x.parts.items()}, (count,))


def _joined(results: Sequence[Any], shape: Sequence[int]) -> Any:
    """The results for the whole of it, from those of the pieces."""
    first = results[0]
    if isinstance(first, list | tuple):
        return type(first)(_joined(column, shape) for column in zip(*results, strict=True))
    if isinstance(first, Bool):
        return Bool(_parts(results, 1), shape)
    assert isinstance(first, Arith)
    parts = {i: part.view(tuple(shape)) for i, part in _parts(results, 0).items()}
    return first.with_parts(parts, limit=max(result.limit for result in results))


def _parts(results: Sequence[Any], dim: int) -> dict[int, Tensor]:
    return {i: torch.cat([result.parts[i] for result in results], dim) for i in results[0].parts}
