"""The polynomial of a tensor's words at two secret points, modulo 2^61 - 1."""

# mypy: disable-error-code="assignment"

import triton
import triton.language as tl
from torch import Tensor

from .chacha import key_blocks, key_words, pairs
from .jit import blocks, kernel, signed

LANE_BITS = 8  # a program has 2^8 lanes
FEW_STEPS, MANY_STEPS = 2, 5  # a lane has 2^2 or 2^5 coefficients
MANY_WORDS = 1 << 18


def chacha20_polynomial(
    key: Tensor, values: Tensor, totals: Tensor, operation: int, offset: int
) -> Tensor:
    """Adds the polynomial of the 32-bit words of `values`, at two points, to `totals`.

    Returns `totals`, int64 of shape (2, 2). The points are the first words of the block of the
    stream at byte `offset`.
    """
    words = values.nbytes // 4
    if words:
        steps = FEW_STEPS if words < MANY_WORDS else MANY_STEPS
        grid = (blocks(words, 1 << (LANE_BITS + steps)), 1, 1)
        arguments = (key, values, totals, words, signed(offset // 64), signed(operation))
        _polynomial(grid, arguments, (steps, LANE_BITS))
    return totals


@triton.jit
def _times(a: tl.tensor, b: tl.tensor) -> tl.tensor:
    """Returns a b modulo 2^61 - 1, at most 2^61; a <= 2^61 + 2^32 and b <= 2^61."""
    PRIME: tl.constexpr = (1 << 61) - 1
    low, high = a * b, tl.umulhi(a, b)
    total = (low & PRIME) + ((low >> 61) | (high << 3))
    return (total & PRIME) + (total >> 61)


@triton.jit
def _at(
    source: tl.tensor,
    words: tl.tensor,
    r: tl.tensor,
    STEP_BITS: tl.constexpr,
    LANE_BITS: tl.constexpr,
) -> tl.tensor:
    """Returns the lanes' terms of this program's part of the polynomial at the point r.

    Of L lanes, lane l has the coefficients l, l + L, l + 2 L, ... of the part.
    """
    LANES: tl.constexpr = 1 << LANE_BITS
    STEPS: tl.constexpr = 1 << STEP_BITS
    lane, start = tl.arange(0, LANES), tl.program_id(0).to(tl.int64) * (LANES * STEPS)
    power, step = lane.to(tl.uint64) * 0 + r, r  # to be r^(l + 1) and r^L
    for bit in tl.static_range(LANE_BITS):
        power = tl.where((lane >> bit) & 1 == 1, _times(power, step), power)
        step = _times(step, step)
    total = lane.to(tl.uint64) * 0
    for k in range(STEPS):
        place = start + (STEPS - 1 - k) * LANES + lane
        x = tl.load(source + place, mask=place < words, other=0).to(tl.uint32, bitcast=True)
        total = _times(total, step) + x.to(tl.uint64)
    part, skip = step, tl.program_id(0)  # r to the number of a part's coefficients; parts before
    for _ in tl.static_range(STEP_BITS):
        part = _times(part, part)
    total = _times(total, power)
    while skip > 0:
        total = tl.where(skip & 1 == 1, _times(total, part), total)
        part, skip = _times(part, part), skip >> 1
    return total


@kernel()
def _polynomial(
    key: tl.tensor,
    values: tl.tensor,
    totals: tl.tensor,
    words: tl.int64,
    block: tl.int64,
    operation: tl.int64,
    STEP_BITS: tl.constexpr,
    LANE_BITS: tl.constexpr,
) -> None:
    """totals[s] += low and high words of x_0 r_s + x_1 r_s^2 + ..., a program's part of it."""
    PRIME: tl.constexpr = (1 << 61) - 1
    points = pairs(key_blocks(key_words(key), tl.program_id(0).to(tl.int64) * 0 + block, operation))
    source = values.to(tl.pointer_type(tl.int32), bitcast=True)
    for s in tl.static_range(2):
        terms = _at(source, words, points[s] & PRIME, STEP_BITS, LANE_BITS)
        tl.atomic_add(totals + 2 * s, tl.sum((terms & 0xFFFFFFFF).to(tl.int64), 0))
        tl.atomic_add(totals + 2 * s + 1, tl.sum((terms >> 32).to(tl.int64), 0))
