"""Rows of a table at secret places.

A secret place is a row of bits that are 1 at the place; reading a table is a product with such
rows. A place outside its range matches nothing: it reads 0, and raises no error.

NOTE [grid]: A table of many rows is a grid of R rows and C columns of entries of d numbers; row i
of the table is entry (i // C, i % C). A place then has R + C bits instead of R C. The first product
takes the row i // C of the grid, C d numbers, and the second one the entry i % C of that. What one
place costs, for 519,820 rows of 32 numbers:

| way                 | bits made | numbers opened by products | multiplications |
|---------------------|-----------|----------------------------|-----------------|
| one row of bits     | 519,820   | 32                         | 16.6 million    |
| grid of 2,031 x 256 | 2,287     | 8,224                      | 16.6 million    |

The grid takes more rounds: the quotient i // C, and the second product. One product for each bit
of the place would take 19 bits, and open half of the table in the first product.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .arithmetic import add, matmul, mul, sub
from .compare import equal, less
from .format import Format
from .logic import logical_xor
from .value import Operand, Value, combined, convert, floor_integer, settled

Array = Value | Tensor
WORDS_OF_A_BIT = 3  # about what it takes to make a bit and to convert it to a number
LEAST_SAVING = 4  # a grid that sends less than so much less is not worth its rounds


def one_hot(n: Format, index: Value, size: int, *, wraps: bool = False) -> Value:
    """Returns bits of shape (*index.shape, size), 1 at the place. One `is_zero` of few bits each.

    With `wraps`, negative places count from the end, at twice the cost.
    """
    column = _column(index, size)
    places = torch.arange(size)
    bits = equal(n, column, places)
    return logical_xor(n, bits, equal(n, column, places - size)) if wraps else bits


def _column(index: Value, size: int) -> Value:
    """Returns places below `size` in a dimension more, with the promise that few bits matter."""
    share = index.arith.promise((2 * size) << index.arith.pending)
    return Value(share.unsqueeze(len(index.shape)), index.dtype)


def one_hot_numbers(n: Format, index: Value, size: int, *, wraps: bool = False) -> Value:
    """Returns the same as `one_hot`, as integers."""
    return convert(n, one_hot(n, index, size, wraps=wraps), torch.int64)


def take_rows(n: Format, table: Operand, index: Value, *, wraps: bool = False) -> Value:
    """Returns table[index], by one or two products with one-hot rows. See NOTE [grid]."""
    table = array(table)
    count, rest = table.shape[0], table.shape[1:]
    width, number = rest.numel(), index.share.numel
    flat = mapped(table, lambda part: part.reshape(count, width))
    if (columns := grid_columns(count, width)) == 1:
        marks = one_hot_numbers(n, index, count, wraps=wraps)
        found = matmul(n, marks.map(lambda part: part.reshape(number, count)), flat)
    else:
        row, column = _grid_marks(n, index, count, columns, wraps=wraps)
        missing = -count % columns
        grid = mapped(flat, lambda part: torch.nn.functional.pad(part, (0, 0, 0, missing)))
        found = matmul(n, row, mapped(grid, lambda part: part.reshape(-1, columns * width)))
        entries = found.map(lambda part: part.reshape(number, columns, width))
        found = matmul(n, column.map(lambda part: part.unsqueeze(1)), entries)
    return found.map(lambda part: part.reshape(*index.shape, *rest))


def take_rows_backward(
    n: Format, grad: Operand, index: Value, count: int, *, wraps: bool = False
) -> Value:
    """Returns the gradient of `take_rows` by its table, which has `count` rows.

    On a grid, the first product puts each gradient at its column, and the second adds up rows.
    """
    grad = array(grad)
    rest, number = grad.shape[len(index.shape) :], index.share.numel
    width = rest.numel()
    flat = mapped(grad, lambda part: part.reshape(number, width))
    if (columns := grid_columns(count, width)) == 1:
        marks = one_hot_numbers(n, index, count, wraps=wraps)
        total = matmul(n, marks.map(lambda part: part.reshape(number, count).t()), flat)
    else:
        row, column = _grid_marks(n, index, count, columns, wraps=wraps)
        placed = mul(
            n,
            column.map(lambda part: part.unsqueeze(2)),
            mapped(flat, lambda part: part.unsqueeze(1)),
        )
        entries = placed.map(lambda part: part.reshape(number, columns * width))
        grid = matmul(n, row.map(lambda part: part.t()), entries)
        total = grid.map(lambda part: part.reshape(-1, width)[:count])
    return total.map(lambda part: part.reshape(count, *rest))


def grid_columns(count: int, width: int) -> int:
    """Returns how many columns the grid of a table has, a power of two; 1 for no grid.

    Those with which a place needs the fewest words: its bits, and what the first product opens.
    """

    def words(columns: int) -> int:
        bits = -(-count // columns) + columns
        return WORDS_OF_A_BIT * bits + columns * width

    best = min((1 << i for i in range(1, count.bit_length() + 1)), key=words)
    return best if LEAST_SAVING * words(best) <= WORDS_OF_A_BIT * count else 1


def _grid_marks(
    n: Format, index: Value, count: int, columns: int, *, wraps: bool
) -> tuple[Value, Value]:
    """Returns the one-hot rows of i // columns and of i % columns, as integers, a row a place."""
    rows = -(-count // columns)
    flat = _column(index, count).map(lambda part: part.reshape(-1, 1))
    if wraps:
        flat = add(n, flat, mul(n, convert(n, less(n, flat, 0), torch.int64), count))
    flat = settled(n, flat)
    quotient = floor_integer(n, flat.arith, columns.bit_length() - 1).promise(2 * rows)
    high = Value(quotient, torch.int64)
    low = Value(sub(n, flat, mul(n, high, columns)).arith.promise(columns), torch.int64)
    spread = [_repeated(high, rows), _repeated(low, columns)]
    places = torch.cat([torch.arange(rows), torch.arange(columns)])
    bits = equal(n, combined(n, spread, lambda parts: torch.cat(parts, 1)), places)
    marks = convert(n, bits, torch.int64)
    return marks.map(lambda part: part[:, :rows]), marks.map(lambda part: part[:, rows:])


def _repeated(column: Value, times: int) -> Value:
    return column.map(lambda part: part.expand(-1, times))


def array(x: Operand) -> Array:
    """Returns a number as a tensor; everything else is an array."""
    return x if isinstance(x, Value) else torch.as_tensor(x)


def mapped(x: Array, change: Callable[[Tensor], Tensor]) -> Array:
    """Returns x with its elements moved by `change`."""
    return x.map(change) if isinstance(x, Value) else change(x)
