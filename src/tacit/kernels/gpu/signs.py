"""The beginning of a comparison (`tacit.kernels.signs`): two starts each."""

from functools import cache

import torch
from torch import Tensor

from . import gate_kernels as starts
from .gates import Numbers, num_rows, start
from .planes import bit_planes, quotient_planes


def sign_tables(mask: Tensor, digits: Numbers, pad: Tensor, *, shift: int, negate: bool) -> Tensor:
    """`pad`, replaced by the tables of -(-mask >> shift) and its top bit, XOR it."""
    v = quotient_planes(mask, sum(digits) + 1, shift)
    return start(starts.leaf_tables, "table", (v, pad, pad), digits, (*_top(digits), -negate))


def sign_leaves(
    opened: Tensor, tables: Tensor, digits: Numbers, mask: Tensor, *, low: int, first: bool
) -> Tensor:
    """The carries of the digits, in the last of which are the top bits."""
    u, out = bit_planes(opened, sum(digits) + 1, low), torch.empty_like(mask)
    numbers = (-first, len(digits), *_top(digits))
    return start(starts.leaves, "table", (u, tables, mask, out), digits, numbers)


@cache
def _top(digits: Numbers) -> Numbers:
    """The digit that meets the top bits, and their places among bits and rows."""
    rows = sum(num_rows("table", digit) for digit in digits)
    return len(digits) - 1, sum(digits), rows
