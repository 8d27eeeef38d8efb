"""Operations on tensors that do not fit into a limited memory at once: some rows after the others.

A row is what an index of the first dimension selects. The numbers of rows are chosen so that pieces
begin at multiples of VECTOR elements wherever rows allow it: then elementwise kernels treat each
element as in the whole tensor, and results are the same bit by bit. Sums over rows are added piece
by piece, so they may round differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import gcd, prod
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from .plain_memory import Form, PlainMemory

VECTOR = 64  # elements: a multiple of what a processor computes at a time
IN_FLIGHT = 3  # pieces that share the memory: the one at hand, its results, and the next one

Function = Callable[..., Any]
IsCut = Callable[[Tensor], bool]  # whether an operand has the rows; others are used whole


def has_rows(shape: Sequence[int]) -> IsCut:
    """Returns which operands of an elementwise operation have the rows of its result's shape."""
    return lambda x: bool(shape) and x.dim() == len(shape) and x.shape[0] == shape[0]


def by_rows(
    memory: PlainMemory, is_cut: IsCut, name: str, function: Function, *args: Any, **kwargs: Any
) -> Any:
    """Returns function(*args, **kwargs), whose rows depend on the same rows of operands."""
    if memory.limit is None:
        return function(*args, **kwargs)
    form = Form(function, args, kwargs)
    if form.views() is not None or memory.fits(form):
        return memory.compute(name, function, *args, **kwargs)
    made = [memory.new(name, x.shape, x.dtype) for x in tree_leaves(form.results)]
    for piece in _pieces(memory, is_cut, name, form):
        found = memory.compute(name, function, *piece.args, **piece.kwargs)
        for whole, part in zip(made, tree_leaves(found), strict=True):
            into = whole.narrow(0, piece.first, piece.rows)
            with memory.opened(name, [part]), memory.opened(name, [into], write=True):
                into.copy_(part)
        del found, part
    results = iter(made)
    return tree_map_only(Tensor, lambda _: next(results), form.results)


def summed(
    memory: PlainMemory, is_cut: IsCut, name: str, function: Function, *args: Any, **kwargs: Any
) -> Any:
    """Returns function(*args, **kwargs), whose results are sums over the rows of operands."""
    if memory.limit is None:
        return function(*args, **kwargs)
    form = Form(function, args, kwargs)
    if memory.fits(form):
        return memory.compute(name, function, *args, **kwargs)
    total: Any = None
    for piece in _pieces(memory, is_cut, name, form):
        found = memory.compute(name, function, *piece.args, **piece.kwargs)
        total = found if total is None else memory.compute(name, _added, total, found)
    return total


def _added(total: Any, more: Any) -> Any:
    if isinstance(total, Tensor):
        return total + more
    return type(total)(one + two for one, two in zip(total, more, strict=True))


class Piece(NamedTuple):
    """The first row, the number of rows, and the arguments for them."""

    first: int
    rows: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def _pieces(memory: PlainMemory, is_cut: IsCut, name: str, form: Form) -> Iterator[Piece]:
    cut = [x for x in form.operands if is_cut(x)]
    if len({x.shape[0] for x in cut}) != 1:
        raise memory.too_large(name, form)

    def taken(start: int, count: int) -> Piece:
        def part(x: Tensor) -> Tensor:
            return x.narrow(0, start, count) if any(x is one for one in cut) else x

        return Piece(start, count, *tree_map_only(Tensor, part, (form.args, form.kwargs)))

    rows = cut[0].shape[0]
    one = Form(form.function, *taken(0, 1)[2:])
    step = _step(memory, form, one, cut)
    if not step:
        raise memory.too_large(name, one)
    for start in range(0, rows, step):
        memory.prefetch(name, [x[start + step : start + 2 * step] for x in cut])
        yield taken(start, min(step, rows - start))


def _step(memory: PlainMemory, form: Form, one: Form, cut: Sequence[Tensor]) -> int:
    """Returns how many rows a piece has; 0 if not even one fits.

    one: the same operation on one row. What it takes beyond a row counts once.
    """
    assert memory.limit is not None
    rows = cut[0].shape[0]
    row_bytes = sum(x.nbytes for x in cut) // rows
    more = (form.new_bytes - one.new_bytes) // max(rows - 1, 1)
    whole = memory.size_of(x for x in form.operands if not any(x is y for y in cut))
    room = memory.limit - whole - max(one.new_bytes - more, 0)
    most = int(room / IN_FLIGHT // max(row_bytes + more, 1)) or int(memory.fits(one))
    even = VECTOR // gcd(VECTOR, *(prod(x.shape[1:]) for x in cut))
    return max(min(most // even * even or most, rows), 0)
