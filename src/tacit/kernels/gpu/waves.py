"""Sums of sines and cosines (`tacit.kernels.waves`), all harmonics of an element in one kernel."""

from functools import cache
from math import pi

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ...ring.deterministic import COSINE, SINE
from ...ring.ring import ring_of
from .exact_floats import horner, rounded
from .jit import blocks, kernel

LANES = 128
_NUM_SINE, _NUM_COSINE = tl.constexpr(len(SINE)), tl.constexpr(len(COSINE))
_RADIANS = tl.constexpr(len(SINE) + len(COSINE))  # where the table has the angle of a unit
_SCALE, _FACTORS = tl.constexpr(_RADIANS.value + 1), tl.constexpr(_RADIANS.value + 2)


def deal_waves(
    v: Tensor,
    pad: Tensor,
    factor: Tensor | None,
    period_bits: int,
    fraction_bits: int,
    *,
    at_once: bool,
) -> Tensor:
    """Replaces the pad by cosines and sines of v (and their products with a factor), less it."""
    v, bits, size = v.contiguous(), ring_of(v).bits, v.numel()
    table = _table((), fraction_bits, bits, v.device)
    by = v if factor is None else factor.expand(v.shape).contiguous()
    if size:
        _deal(
            (blocks(size, LANES), 1, 1),
            (v, by, table, pad, size, len(pad), bits - period_bits),
            (bits, factor is not None, at_once, LANES),
        )
    return pad


def add_wave_sum(
    out: Tensor,
    m: Tensor,
    dealt: Tensor,
    sines: tuple[float, ...],
    cosines: tuple[float, ...],
    period_bits: int,
    fraction_bits: int,
    *,
    at_once: bool,
) -> Tensor:
    """Adds a share of the sum of sines and cosines of m + v to `out`."""
    bits, size = ring_of(m).bits, m.numel()
    table = _table((*sines, *cosines), fraction_bits, bits, m.device)
    total = out.contiguous()
    if size:
        _add_sum(
            (blocks(size, LANES), 1, 1),
            (
                m.contiguous(),
                dealt.contiguous(),
                table,
                total,
                size,
                len(sines),
                bits - period_bits,
            ),
            (bits, any(cosines), at_once, LANES),
        )
    return out if total is out else out.copy_(total)


@cache  # for ever: a graph that was captured reads it
def _table(
    factors: tuple[float, ...], fraction_bits: int, ring_bits: int, device: torch.device
) -> Tensor:
    """The constants of the kernels: coefficients, two scales, and factors."""
    values = [*SINE, *COSINE, 2 * pi / 2.0**ring_bits, 2.0**fraction_bits, *factors]
    with _disable_current_modes():
        return torch.tensor(values, dtype=torch.float64, device=device)


@triton.jit
def _sin_cos(turn: tl.tensor, table: tl.tensor, BITS: tl.constexpr) -> tuple[tl.tensor, tl.tensor]:
    """Returns sin and cos of 2 pi turn / 2^BITS, by quadrants."""
    quadrant = (turn + (1 << (BITS - 3))) >> (BITS - 2)
    rest = (turn - (quadrant << (BITS - 2))).to(tl.float64)
    angle = rest * tl.load(table + _RADIANS)
    square = angle * angle
    sine = horner(square, table, 0, _NUM_SINE) * angle
    cosine = horner(square, table, _NUM_SINE, _NUM_COSINE)
    odd = (quadrant & 1) == 1
    first, second = tl.where(odd, cosine, sine), tl.where(odd, sine, cosine)
    first = tl.where((quadrant & 2) == 2, -first, first)
    return first, tl.where(((quadrant + 1) & 2) == 2, -second, second)


@triton.jit
def _in_ring(x: tl.tensor, table: tl.tensor, like: tl.tensor) -> tl.tensor:
    """Returns x times the table's scale as ring elements."""
    return rounded(x * tl.load(table + _SCALE)).to(like.dtype)


@kernel()
def _deal(
    v: tl.tensor,
    factor: tl.tensor,
    table: tl.tensor,
    pad: tl.tensor,
    size: tl.int64,
    count: tl.int64,
    shift: tl.int64,
    BITS: tl.constexpr,
    HAS_FACTOR: tl.constexpr,
    AT_ONCE: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """Replaces the rows of all harmonics; the harmonics are those of `odd_harmonics` or of each."""
    at = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    there = at < size
    one = tl.load(v + at, mask=there, other=0)
    turn = one << shift.to(one.dtype)
    phase = turn
    by = tl.load(factor + at, mask=there, other=0)
    sine, cosine = _sin_cos(turn, table, BITS)
    step = 2 - sine * sine * 4
    # Triton takes two variables of a loop for one if they begin with the same value: so those of
    # the next harmonic are kept, not those of the harmonic before.
    next_sine, next_cosine = step * sine + sine, step * cosine - cosine
    rows = pad + at
    for _ in range(count):
        if AT_ONCE:
            sine, cosine = _sin_cos(phase, table, BITS)
            phase += turn + turn
        dealt_cosine, dealt_sine = _in_ring(cosine, table, one), _in_ring(sine, table, one)
        tl.store(rows, dealt_cosine - tl.load(rows, mask=there), mask=there)
        rows += size
        tl.store(rows, dealt_sine - tl.load(rows, mask=there), mask=there)
        rows += size
        if HAS_FACTOR:
            tl.store(rows, dealt_cosine * by - tl.load(rows, mask=there), mask=there)
            rows += size
            tl.store(rows, dealt_sine * by - tl.load(rows, mask=there), mask=there)
            rows += size
        if not AT_ONCE:
            after_sine, after_cosine = step * next_sine - sine, step * next_cosine - cosine
            sine, cosine = next_sine, next_cosine
            next_sine, next_cosine = after_sine, after_cosine


@kernel()
def _add_sum(
    m: tl.tensor,
    dealt: tl.tensor,
    table: tl.tensor,
    out: tl.tensor,
    size: tl.int64,
    count: tl.int64,
    shift: tl.int64,
    BITS: tl.constexpr,
    HAS_COSINES: tl.constexpr,
    AT_ONCE: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """Adds the products of dealt and public factors of all harmonics."""
    at = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    there = at < size
    one = tl.load(m + at, mask=there, other=0)
    turn = one << shift.to(one.dtype)
    phase = turn
    sine, cosine = _sin_cos(turn, table, BITS)
    step = 2 - sine * sine * 4
    # Triton takes two variables of a loop for one if they begin with the same value: so those of
    # the next harmonic are kept, not those of the harmonic before.
    next_sine, next_cosine = step * sine + sine, step * cosine - cosine
    total = tl.load(out + at, mask=there, other=0)
    rows = dealt + at
    for i in range(count):
        if AT_ONCE:
            sine, cosine = _sin_cos(phase, table, BITS)
            phase += turn + turn
        factor = tl.load(table + _FACTORS + i)
        with_cosine, with_sine = sine * factor, cosine * factor
        if HAS_COSINES:
            factor = tl.load(table + _FACTORS + count + i)
            with_cosine += cosine * factor
            with_sine -= sine * factor
        total += _in_ring(with_cosine, table, one) * tl.load(rows, mask=there, other=0)
        rows += size
        total += _in_ring(with_sine, table, one) * tl.load(rows, mask=there, other=0)
        rows += size
        if not AT_ONCE:
            after_sine, after_cosine = step * next_sine - sine, step * next_cosine - cosine
            sine, cosine = next_sine, next_cosine
            next_sine, next_cosine = after_sine, after_cosine
    tl.store(out + at, total, mask=there)
