"""Numbers as ring elements. Every number is checked before it is encoded, sent or computed with.

NOTE [range]: an input, a summand or a number that takes an element's place is at most 2^range_bits
in magnitude; as an integer, at most 2^(range_bits + f). A factor gets fraction bits of its own
(`factor_bits`) and is at most 2^(range_bits + f). NaN fits nowhere. What does not fit raises
RangeError, with the class and the position of the first such number, and what to do.

NOTE [masks]: programs hide elements with -inf, the smallest float, -1e30 or -1e9. Such a number
stands for "as low as possible" and becomes -2^(range_bits - 3), so that sums of a few of them stay
within the range. With fewer than 7 range bits it becomes -16, so that e^-16 is below a unit, or
half of the range:
- placed into a tensor (`masked_fill`, `where`, `pad`, `full_like`, an assignment): from -2^28 down,
  and from 1e30 up, which becomes the same number with the other sign;
- added to a tensor: in a public tensor with dimensions, from -1e30 down and from 1e30 up; also
  from -2^28 down if all other elements are 0. A single number that is added is never a mask;
- subtracted from a tensor: the same without the second half, because a target may be 1e9.
"""

from __future__ import annotations

import math
from typing import overload

import torch
from torch import Tensor

from ..errors import RangeError
from ..protocols import Arith
from ..ring.drawn_numbers import NOTED, drawn, rounded
from .format import Format, largest_of, most_pending, range_remedy, spare_bits
from .symbolic import SymbolicNumber, decided

DOUBLE = torch.float64
MASK = -(2.0**28)
BOUNDLESS = 1e30
# A public factor has at least this many significant bits, even if that costs a round.
SIGNIFICANT = 16

PUBLIC = "a public operand"
NAN, INFINITE, TOO_LARGE, ZERO = "NaN", "infinite", "too large", "zero"


@overload
def encode(n: Format, value: Tensor, fraction_bits: int) -> Tensor: ...
@overload
def encode(n: Format, value: float, fraction_bits: int) -> int: ...
@overload
def encode(n: Format, value: Tensor | float, fraction_bits: int) -> Tensor | int: ...
def encode(n: Format, value: Tensor | float, fraction_bits: int) -> Tensor | int:
    """Returns the ring elements of public numbers with `fraction_bits`, rounded to the nearest.

    A Python number gives a Python integer. Raises RangeError for a number beyond NOTE [range].
    """
    require_in_range(n, value, fraction_bits)
    return elements(n, value, fraction_bits)


def require_in_range(
    n: Format, value: Tensor | float, fraction_bits: int, what: str = PUBLIC
) -> None:
    """Raises RangeError, which calls the numbers `what`, unless all are in NOTE [range]."""
    bits = min(n.range_bits + max(n.fraction_bits, fraction_bits), n.ring.bits - 2) - fraction_bits
    if not largest_of(value) <= 2.0**bits:
        raise refusal(n, value, bits, what)


@overload
def encode_factor(n: Format, value: Tensor, fraction_bits: int) -> Tensor: ...
@overload
def encode_factor(n: Format, value: Tensor | float, fraction_bits: int) -> Tensor | int: ...
def encode_factor(n: Format, value: Tensor | float, fraction_bits: int) -> Tensor | int:
    """Returns the ring elements of public factors.

    A factor above 2^(range_bits + f) takes even one unit beyond the range, and is refused.
    """
    bits = min(n.range_bits + n.fraction_bits, n.ring.bits - 2 - fraction_bits)
    if not largest_of(value) <= 2.0**bits:
        raise refusal(n, value, bits, "a public factor")
    return elements(n, value, fraction_bits)


def elements(n: Format, value: Tensor | float, fraction_bits: int) -> Tensor | int:
    """Returns the ring elements of numbers that are known to fit."""
    if not isinstance(value, Tensor):
        whole = not isinstance(value, float | SymbolicNumber)
        return int(value) << fraction_bits if whole else round(value * 2.0**fraction_bits)
    if value.dtype.is_floating_point:
        scaled = value.detach().to(torch.float64) * 2.0**fraction_bits
        made = scaled.round_().to(n.ring.dtype)
    else:
        made = value.to(n.ring.dtype) << fraction_bits
    return rounded(made, value, fraction_bits) if hasattr(value, NOTED) else made


def factor_bits(n: Format, x: Arith, value: Tensor | float, grown: int = 0) -> int:
    """Returns how many fraction bits a public factor of x gets: as many as fit.

    So that small factors (a learning rate, 1 / n) keep their relative precision: a product is off
    by a unit at most, however small the factor. `grown`: by how many bits a sum of such products is
    larger than one product.
    """
    if not isinstance(value, Tensor):
        number = value if isinstance(value, SymbolicNumber) else float(value)
        largest, whole, single = abs(number), number.is_integer(), True
    elif not value.dtype.is_floating_point or not value.numel():
        return 0
    elif (known := drawn(value)) is not None:
        largest, whole, single = known.largest, known.is_whole, False
    else:
        detached, single = value.detach().to(torch.float64), value.numel() == 1
        largest, whole = largest_of(detached), bool((detached == detached.round()).all())
    if whole and largest < 2.0**20:
        return 0
    if not largest < math.inf:
        raise refusal(n, value, n.ring.bits - 2, "a public factor")

    def fitting(largest: float) -> int:
        magnitude = _magnitude(largest)
        enough = max(most_pending(n) - x.pending, SIGNIFICANT - magnitude)
        fits = min(spare_bits(n, x) - grown - magnitude, n.ring.bits - 4 - x.pending)
        bits = max(min(fits, enough), 0)
        return min(bits, _places(largest)) if single else bits  # 1 / 4 needs no more than two

    return decided(fitting, largest)


def _magnitude(x: float) -> int:
    """The smallest e with x <= 2^e."""
    mantissa, exponent = math.frexp(x)
    return exponent - (mantissa == 0.5)


def _places(x: float) -> int:
    """How many fraction bits x has."""
    return x.as_integer_ratio()[1].bit_length() - 1


def require_divisor(value: Tensor, used: Tensor | None = None) -> None:
    """Raises RangeError if a public divisor is 0 or NaN, or if what is `used` for it is 0."""
    used = value if used is None else used
    wrong = (used == 0) | value.isnan()
    if not bool(wrong.any()):
        return
    position = first_position(wrong)
    found = NAN if bool(value[position].isnan()) else ZERO
    rounds = found == ZERO and bool(value[position] != 0)
    raise RangeError(
        f"a public divisor {'rounds to zero' if rounds else f'is {found}'}{in_words(position)}",
        remedy="scale it, or use more fraction_bits" if rounds else "select with torch.where",
        position=position,
        number=found,
    )


# Masks ------------------------------------------------------------------------------------------


@overload
def placed(n: Format, value: Tensor) -> Tensor: ...
@overload
def placed(n: Format, value: Tensor | float) -> Tensor | float: ...
def placed(n: Format, value: Tensor | float) -> Tensor | float:
    """Returns numbers that take the places of elements; masks saturate, see NOTE [masks]."""
    if not isinstance(value, Tensor):
        end = mask_end(n)
        return -end if value <= MASK else end if value >= BOUNDLESS else value
    if not value.dtype.is_floating_point or largest_of(value) <= 2.0**n.range_bits:
        return value
    return _saturated(n, value, MASK)


def summand(n: Format, value: Tensor | float) -> Tensor | float:
    """Returns numbers that are added to a tensor; masks saturate, see NOTE [masks]."""
    if not isinstance(value, Tensor) or not value.dim() or not value.dtype.is_floating_point:
        return value
    if largest_of(value) <= 2.0**n.range_bits:
        return value
    others = (value > MASK) & (value < BOUNDLESS)
    is_mask = bool(others.any()) and not bool((others & (value != 0)).any())
    return _saturated(n, value, MASK if is_mask else -BOUNDLESS)


def mask_end(n: Format) -> float:
    """Returns the number that stands for infinity; see NOTE [masks]."""
    return 2.0 ** max(n.range_bits - 3, min(n.range_bits - 1, 4))


def subtrahend(n: Format, value: Tensor | float) -> Tensor | float:
    """Returns numbers that are subtracted from a tensor; masks saturate, see NOTE [masks]."""
    if not isinstance(value, Tensor) or not value.dim() or not value.dtype.is_floating_point:
        return value
    if largest_of(value) <= 2.0**n.range_bits:
        return value
    made = _saturated(n, value, -BOUNDLESS)
    require_in_range(n, made, n.fraction_bits)
    return made.to(value.dtype)


def _saturated(n: Format, value: Tensor, lowest: float) -> Tensor:
    wide, end = value.detach().to(torch.float64), mask_end(n)
    low = torch.where(wide <= lowest, -end, wide)
    made = torch.where(wide >= BOUNDLESS, end, low)
    return made if n.trace is None else n.trace.bounded(made)


# Refusals ---------------------------------------------------------------------------------------


def refusal(n: Format, value: Tensor | float, bits: int, what: str) -> RangeError:
    """Returns the error for numbers, called `what`, of which one is above 2^bits or NaN.

    A public number that stands alone is shown; elements of a tensor never are.
    """
    number = value.detach() if isinstance(value, Tensor) else torch.tensor(value, dtype=DOUBLE)
    wide = number.to(DOUBLE) if number.is_floating_point() else number
    position = first_position(~((wide >= -(2.0**bits)) & (wide <= 2.0**bits)))
    one = wide[position]
    found = NAN if one.isnan() else INFINITE if one.isinf() else TOO_LARGE
    alone = not isinstance(value, Tensor) and found == TOO_LARGE
    called = f"{what} of magnitude {abs(value):g}" if alone else what
    return RangeError(
        f"{called} is {'beyond the range' if found == TOO_LARGE else found}{in_words(position)}",
        limit=None if found == NAN else f"2^{bits} in magnitude",
        remedy=_remedy(n, found, hides=what == PUBLIC),
        position=position,
        number=found,
    )


def _remedy(n: Format, found: str, *, hides: bool) -> str:
    if found == NAN and n.protocol.rank >= n.protocol.parties:
        return "the dealer does not learn revealed values: use session.reveal(x, to_dealer=True)"
    if found == NAN:
        return "replace it, with torch.nan_to_num or by a mean, or leave its row out"
    if found == INFINITE:
        return "clamp it, or replace it with torch.nan_to_num(x, posinf=..., neginf=...)"
    return range_remedy(n) + ("; -inf in a mask hides an element" if hides else "")


def first_position(wrong: Tensor) -> tuple[int, ...]:
    """Returns the position of the first True."""
    place = torch.unravel_index(wrong.flatten().to(torch.uint8).argmax(), wrong.shape)
    return tuple(int(i) for i in place)


def in_words(position: tuple[int, ...]) -> str:
    """Returns the position in words."""
    if len(position) == 2:
        return f" at row {position[0]}, column {position[1]}"
    if not position:
        return ""
    return f" at {position[0] if len(position) == 1 else position}"
