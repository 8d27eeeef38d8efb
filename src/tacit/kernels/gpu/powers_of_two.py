"""Powers of two (`tacit.kernels.powers_of_two`): one kernel for a table, one for a product."""

from functools import cache
from math import log

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ...ring.deterministic import EXP
from .exact_floats import horner, power_of_two, rounded
from .jit import blocks, kernel

LANES = 128
_NUM_EXP = tl.constexpr(len(EXP))


def deal_powers(v: Tensor, pad: Tensor, bits: int, step: int, table_bits: int, last: int) -> Tensor:
    """Replaces the pad by the table of v less the pad."""
    size = v.numel()
    if size:
        _deal(
            (blocks(size, LANES), 1, 1),
            (v.contiguous(), _table(bits, v.device), pad, size, bits, step, table_bits, last),
            (len(pad), LANES),
        )
    return pad


def add_power(
    out: Tensor, m: Tensor, table: Tensor, bits: int, step: int, public_bits: int
) -> Tensor:
    """Adds a share of 2^-(m + v) to `out`."""
    size, total, constants = m.numel(), out.contiguous(), _table(bits, m.device)
    if size:
        _add(
            (blocks(size, LANES), 1, 1),
            (m.contiguous(), table.contiguous(), constants, total, size, bits, step, public_bits),
            (len(table), LANES),
        )
    return out if total is out else out.copy_(total)


@cache  # for ever: a graph that was captured reads it
def _table(bits: int, device: torch.device) -> Tensor:
    """The constants of the kernels: coefficients, and the logarithm of a unit of an exponent."""
    values = [*EXP, -log(2) / 2.0**bits]
    with _disable_current_modes():
        return torch.tensor(values, dtype=torch.float64, device=device)


@triton.jit
def _split(
    u: tl.tensor, bits: tl.tensor, step: tl.tensor, ENTRIES: tl.constexpr
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Returns the place of an entry, the exponent's lowest bits, and its fraction."""
    whole = u >> bits
    rest = whole - ((whole >> step) << step)
    return (whole >> step) & (ENTRIES - 1), rest, u - (whole << bits)


@triton.jit
def _power_of_half(fraction: tl.tensor, constants: tl.tensor) -> tl.tensor:
    """Returns 2^-x for a fraction x of 1."""
    return horner(fraction.to(tl.float64) * tl.load(constants + _NUM_EXP), constants, 0, _NUM_EXP)


@kernel()
def _deal(
    v: tl.tensor,
    constants: tl.tensor,
    pad: tl.tensor,
    size: tl.int64,
    bits: tl.int64,
    step: tl.int64,
    table_bits: tl.int64,
    last: tl.int64,
    ENTRIES: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """Replaces all entries; that of j = -1 is the last one before that of 0."""
    at = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    there = at < size
    u = tl.load(v + at, mask=there, other=0).to(tl.int64)
    place, rest, fraction = _split(u, bits, step, ENTRIES)
    unit = (u * 0 + 1) << bits
    power = _power_of_half(unit - fraction, constants) * power_of_two(rest + 1)
    rows = pad + at
    for entry in range(ENTRIES):
        j = (entry - place) & (ENTRIES - 1)
        j = tl.where(j == ENTRIES - 1, -1, j)
        value = rounded(power * power_of_two(table_bits - (j << step)))
        before = tl.load(rows, mask=there, other=0)
        value = tl.where(j < last, value, 0).to(tl.int64).to(before.dtype)
        tl.store(rows, value - before, mask=there)
        rows += size


@kernel()
def _add(
    m: tl.tensor,
    table: tl.tensor,
    constants: tl.tensor,
    out: tl.tensor,
    size: tl.int64,
    bits: tl.int64,
    step: tl.int64,
    public_bits: tl.int64,
    ENTRIES: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """Adds the products of the selected entries and the powers of m's rest."""
    at = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    there = at < size
    u = tl.load(m + at, mask=there, other=0).to(tl.int64)
    place, rest, fraction = _split(u, bits, step, ENTRIES)
    power = _power_of_half(fraction, constants) * power_of_two(-rest)
    total = tl.load(out + at, mask=there, other=0)
    chosen = tl.load(table + place * size + at, mask=there, other=0)
    factor = rounded(power * power_of_two(at * 0 + public_bits))
    tl.store(out + at, total + factor.to(tl.int64).to(total.dtype) * chosen, mask=there)
