"""A secret together with its dtype, which says how to read it; and the dtypes of results.

NOTE [integer parts]: the protocol's division by 2^f gives the quotient rounded down, or one more.
The sign of the remainder tells which; a comparison of f + 2 bits finds it. So integer parts are
exact, like those of torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Any

import torch
from torch import Tensor

from ..kernels import pack_bits, unpack_bits
from ..protocols import Arith, BitSum, Bool, Plain
from ..ring.drawn_numbers import drawn, note
from .encoding import encode, placed
from .format import Format, cap, most_pending
from .symbolic import SymbolicNumber


@dataclass(frozen=True)
class Value:
    """A share that holds real numbers, integers or truth values.

    share: an `Arith` for numbers. With a floating dtype its integers are fixed-point numbers of the
        session's fraction bits; with an integer dtype they are the integers themselves. A `Bool`
        for truth values. `Plain` in an enclave's session, for all of them.
    saved: other values that a later operation, such as a gradient, needs.
    known: the numbers themselves, if they are public (zeros, ones, a dropout mask).
    """

    share: Arith | Bool | Plain
    dtype: torch.dtype
    saved: dict[str, Value] = field(default_factory=dict, repr=False, compare=False)
    known: Tensor | None = field(default=None, repr=False, compare=False)

    def with_saved(self, **others: Value) -> Value:
        """Returns the same value with other values beside it, by name."""
        return Value(self.share, self.dtype, {**self.saved, **others}, self.known)

    @property
    def shape(self) -> torch.Size:
        """The shape of the tensor."""
        return self.share.shape

    @property
    def is_real(self) -> bool:
        """Whether these are fixed-point numbers."""
        return self.dtype.is_floating_point

    @property
    def is_bit(self) -> bool:
        """Whether these are truth values."""
        return self.dtype == torch.bool

    @property
    def arith(self) -> Arith:
        """The share of numbers."""
        assert isinstance(self.share, Arith)
        return self.share

    @property
    def bits(self) -> Bool:
        """The share of truth values."""
        assert isinstance(self.share, Bool)
        return self.share

    def map(self, change: Callable[[Tensor], Tensor]) -> Value:
        """Returns the value with its elements moved; `change` does the same to a tensor. Local."""
        known = None if self.known is None else note(change(self.known), drawn(self.known))
        if not isinstance(self.share, Bool):
            return Value(self.share.map(change), self.dtype, known=known)
        bits = self.share.map(lambda bits: change(bits[0]).unsqueeze(0))
        return Value(bits, self.dtype, known=known)

    def view(self, shape: Sequence[int]) -> Value:
        """Returns the value in another shape. A division of it is made for this one as well."""
        if not isinstance(self.share, Arith) or self.known is not None:
            return self.map(lambda part: part.reshape(shape))
        return Value(self.share.view(shape), self.dtype)

    def map_list(self, change: Callable[[Tensor], Sequence[Tensor]]) -> list[Value]:
        """Returns the values that a function of several results, such as `torch.split`, gives."""
        if isinstance(self.share, Plain):
            return [Value(part, self.dtype) for part in self.share.map_list(change)]
        if isinstance(self.share, Arith):
            share = self.share
            columns = {i: change(part) for i, part in share.parts.items()}
            rows = zip(*columns.values(), strict=True)
            shares = [share.with_parts(dict(zip(columns, row, strict=True))) for row in rows]
            knowns = [None] * len(shares) if self.known is None else change(self.known)
            pairs = zip(shares, knowns, strict=True)
            return [Value(share, self.dtype, known=known) for share, known in pairs]
        count = len(change(torch.empty(self.shape, device="meta")))
        return [self.map(lambda part, i=i: change(part)[i]) for i in range(count)]  # type: ignore[misc]


# What an operation takes: a secret, or public numbers.
Operand = Value | Tensor | float | int | bool


def result_dtype(*operands: Operand) -> torch.dtype:
    """Returns the dtype that torch gives the result of these operands."""
    return _promoted(*[_kind(x) for x in operands])


def _kind(x: Operand) -> tuple[torch.dtype, bool] | type:
    """Returns what decides the dtype: a tensor's dtype and whether it has dimensions, or a type."""
    if isinstance(x, Value | Tensor):
        return x.dtype, len(x.shape) > 0
    return float if isinstance(x, SymbolicNumber) else type(x)


@lru_cache(maxsize=1024)
def _promoted(*kinds: Any) -> torch.dtype:
    result: Tensor | float = reduce(_joined, map(_example, kinds))
    return result.dtype if isinstance(result, Tensor) else torch.tensor(result).dtype


def _example(kind: Any) -> Tensor | float:
    if isinstance(kind, type):
        return kind(1)
    dtype, wide = kind
    return torch.empty((1,) * wide, dtype=dtype, device="meta")


def _joined(a: Tensor | float, b: Tensor | float) -> Tensor:
    dim = max((x.dim() for x in (a, b) if isinstance(x, Tensor)), default=0)
    return torch.empty((1,) * dim, dtype=torch.result_type(a, b), device="meta")


# Operands in one form ----------------------------------------------------------------------------

# A function that makes one tensor of the elements of several.
Combine = Callable[[list[Tensor]], Tensor]


def public(n: Format, value: Tensor) -> Value:
    """Returns public numbers as a value, for operations that cannot take them as they are.

    Masks saturate, see NOTE [masks] in encoding.py.
    """
    if value.dtype == torch.bool:
        return Value(n.protocol.pack(value), value.dtype, known=value)
    elements = encode(n, placed(n, value), n.bits_of(value.dtype))
    return Value(n.protocol.public(elements), value.dtype, known=value)


def operand(n: Format, x: Operand) -> Value:
    """Returns x as a value."""
    return x if isinstance(x, Value) else public(n, torch.as_tensor(x))


def real(n: Format, x: Operand) -> Value:
    """Returns x as a real: torch's functions convert integers and truth values in the same way."""
    value = operand(n, x)
    return value if value.is_real else convert(n, value, torch.get_default_dtype())


def convert(n: Format, x: Value, dtype: torch.dtype) -> Value:
    """Returns x in another dtype.

    Bits become numbers in 1 round. A real becomes the integer next to it towards zero, by two
    comparisons and a division. A number becomes the bit [x != 0] by one `is_zero`.
    """
    if x.dtype == dtype:
        return x
    if isinstance(x.share, Bool):
        x = Value(n.protocol.to_arith(x.share), torch.int64)
    if dtype == torch.bool:
        zero = n.protocol.is_zero(x.arith)
        return Value(n.protocol.bit_not(zero), dtype)
    shift = n.bits_of(dtype) - n.bits_of(x.dtype)
    if shift < 0:
        return Value(trunc_integer(n, x.arith, -shift), dtype)
    return Value(x.arith.scaled(1 << shift) if shift else x.arith, dtype)


def settled(n: Format, x: Value) -> Value:
    """Returns x with no division pending. Changes the share in place, so it is done once."""
    if isinstance(x.share, Arith) and (x.share.pending or x.share.dealer is not None):
        n.protocol.settled(x.share)
        return Value(cap(n, x.share), x.dtype)
    return x


def addable(n: Format, x: Arith) -> Arith:
    """Returns x so that any number of the range can be added to it, or stand beside it.

    A number that meets a pending division is multiplied by 2^pending. Where the ring cannot hold
    that product, the division is made first. Changes x in place, so it is made once.
    """
    return n.protocol.settled(x) if x.pending and x.pending > most_pending(n) else x


def comparable(n: Format, x: Arith, thresholds: Iterable[int]) -> Arith:
    """Returns x so that it can be compared with public thresholds, in units: as `addable`."""
    largest = max(map(abs, thresholds), default=0)
    fits = largest << x.pending < 1 << (n.ring.bits - 3)
    return cap(n, x if fits else n.protocol.settled(x))


def aligned(n: Format, shares: Sequence[Arith]) -> list[Arith]:
    """Returns the shares with one pending division and with the same parts at this party."""
    shares = [addable(n, share) for share in shares]
    common = shares[0]
    for share in shares[1:]:
        common, _ = n.protocol.aligned(common, share)
    return [n.protocol.aligned(share, common)[0] for share in shares]


def combined(
    n: Format, operands: Sequence[Operand], combine: Combine, *, adds: bool = False
) -> Value:
    """Returns one value made of the elements of several, as `torch.cat` or `torch.stack` do.

    `combine` is called with the list of the operands' parts. It moves elements; with `adds` it may
    also add them. Bits stay bits. Local.
    """
    dtype = result_dtype(*operands)
    values = [convert(n, operand(n, x), dtype) for x in operands]
    if dtype == torch.bool:
        return Value(_combined_bits([x.bits for x in values], combine), dtype)
    shares = aligned(n, [x.arith for x in values])
    limits = [share.limit for share in shares]
    parts = {i: combine([share.parts[i] for share in shares]) for i in shares[0].parts}
    most_terms = max(1, *(share.numel for share in shares))
    limit = sum(limits) * most_terms if adds else max(limits)
    return Value(cap(n, shares[0].with_parts(parts, limit=limit)), dtype)


def _combined_bits(shares: Sequence[Bool], combine: Combine) -> Bool:
    parts = {}
    for i in shares[0].parts:
        bits = [unpack_bits(share.parts[i][0], share.shape, torch.uint8) for share in shares]
        parts[i] = combine(bits)
    shape = next(iter(parts.values())).shape
    return Bool({i: pack_bits(bits).unsqueeze(0) for i, bits in parts.items()}, shape)


def _divided(n: Format, x: Arith, bits: int) -> tuple[Arith, Arith]:
    """Returns q, which is x / 2^bits rounded down or one more, and x - 2^bits q. One division."""
    p = n.protocol
    x = p.settled(cap(n, x))
    quotient = p.settled(p.add_public(x, 0).divided(bits))
    remainder = p.sub(x, quotient.scaled(1 << bits))
    return quotient, remainder.promise(2 << bits)


def floor_integer(n: Format, x: Arith, bits: int) -> Arith:
    """Returns the integer at or below x / 2^bits. See NOTE [integer parts]."""
    quotient, remainder = _divided(n, x, bits)
    return n.protocol.sub(quotient, n.protocol.to_arith(n.protocol.sign(remainder)))


def trunc_integer(n: Format, x: Arith, bits: int) -> Arith:
    """Returns x / 2^bits rounded towards zero. One comparison more than `floor_integer`.

    Adds 2^bits - 1 to negative numbers, then rounds down.
    """
    p = n.protocol
    negative = p.to_arith(p.sign(cap(n, x)))
    x = p.settled(x)
    return floor_integer(n, p.add(x, p.mul_public(negative, (1 << bits) - 1)), bits)


def nearest_integer(n: Format, x: Arith, bits: int) -> Arith:
    """Returns the integer closest to x / 2^bits; of two, the even one.

    With x / 2^bits + 1/2 = 2 q + r, the result is 2 q if r <= 1, and 2 q + 1 if r > 1: r = 1 is
    the tie. Where q is one too large, r is in [-2, 0), and the result is 2 q - 1 or 2 q - 2.
    """
    p = n.protocol
    one = 1 << bits
    quotient, remainder = _divided(n, p.add_public(p.settled(x), one >> 1), bits + 1)
    below = p.signs(remainder, (-one + 1, 0, one + 1))
    row = BitSum((0, 0, 0), (-1, -1, -1))
    [less] = p.inject_sums(below, None, [row])
    return p.add_public(p.add(quotient.scaled(2), less), 1)
