"""Elementwise operations on large secrets in chunks, within a limit of memory.

The chunks of one operation run one after the other, each in rounds of its own. The limit is one of
the settings that all parties compare, so all parties cut in the same way. Products are cut locally
instead, at no extra round (`products/chunks.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch import Tensor

from .share import Arith, Bool, Share

if TYPE_CHECKING:
    from .steps import Steps

R = TypeVar("R")
ChunkBytes = int | Callable[..., int]

WORD = 64  # elements: chunks of packed bits begin at a word


def in_chunks(
    p: Any, body: Callable[..., Steps[R]], chunk_bytes: ChunkBytes, args: Sequence[Any], kwargs: Any
) -> Steps[R]:
    """Runs an elementwise operation of a protocol on chunks, one after the other.

    `chunk_bytes` is what an element takes at a party beyond operands and results, or a function of
    the arguments that returns that.
    """
    each = chunk_bytes if isinstance(chunk_bytes, int) else chunk_bytes(*args, **kwargs)
    size = max(p.context.memory_limit // each // WORD, 1) * WORD
    shares = [x for x in _flat(args) if isinstance(x, Share)]
    if not shares or prod(shares[0].shape) <= size:
        return (yield from body(p, *args, **kwargs))
    shape, results = shares[0].shape, []
    flat = [_flattened(x) for x in args]
    for start in range(0, prod(shape), size):
        chunk = [_chunk(x, start, size) for x in flat]
        results.append((yield from body(p, *chunk, **kwargs)))
    return cast(R, _joined(results, shape))


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flat(value)
        else:
            yield value


def _flattened(x: Any) -> Any:
    """Arithmetic shares flattened: copied at most once, not for every chunk; the rest as it is."""
    if isinstance(x, list | tuple):
        return type(x)(map(_flattened, x))
    return x.map(lambda part: part.reshape(-1)) if isinstance(x, Arith) else x


def _chunk(x: Any, start: int, size: int) -> Any:
    """Elements [start, start + size) of shares; the rest as it is."""
    if isinstance(x, list | tuple):
        return type(x)(_chunk(one, start, size) for one in x)
    if not isinstance(x, Share):
        return x
    count = min(size, prod(x.shape) - start)
    if isinstance(x, Arith):
        return x.map(lambda part: part.narrow(0, start, count))
    assert isinstance(x, Bool)
    words = slice(start // WORD, -(-(start + count) // WORD))
    return Bool({i: part[:, words].contiguous() for i, part in x.parts.items()}, (count,))


def _joined(results: Sequence[Any], shape: Sequence[int]) -> Any:
    """The result for all elements, from those of the chunks."""
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
