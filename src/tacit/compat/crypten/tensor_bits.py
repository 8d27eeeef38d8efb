"""Tensors shared as bits, and the functions of bits that all of CrypTen's tensors have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import ConfigError
from .bit_circuits import moved_up
from .bit_planes import BITS, aligned, plain_number, planes_of, planes_of_public
from .initialization import current_session
from .refused_call import RefusedAssertion
from .sharing_inputs import checked_source
from .wrapping import REAL, Wrapped


class Bits(Wrapped):
    """Methods on the bits of numbers, of 64 in two's complement. Results are shared as bits."""

    binary_class: type[Any]  # set where it is defined: its tensors have these methods too

    @property
    def planes(self) -> Tensor:
        """The bits as truth values, of shape (64, *shape)."""
        return planes_of(self.secret)

    @property
    def scale_bits(self) -> int:
        """How many of the bits are a fraction's: none of integers."""
        if not self.secret.is_floating_point():
            return 0
        return current_session().numbers.fraction_bits

    def binary(self) -> Any:
        """Returns the same numbers shared as bits."""
        return self.of_planes(self.planes, self.scale_bits)

    def of_planes(self, planes: Tensor, scale_bits: int) -> Any:
        """Returns the tensor that has these bits."""
        made = object.__new__(self.binary_class)
        made.hold(planes, scale_bits)
        return made

    def planes_like_own(self, other: Any) -> Tensor:
        """Returns the bits of a tensor, or those that public numbers would have here."""
        if isinstance(other, Bits):
            return other.planes
        public = torch.as_tensor(other)
        if not self.scale_bits:
            if public.is_floating_point():
                raise TypeError("real numbers meet integers that are shared as bits")
            return planes_of_public(public)
        bits = BITS - 1 - self.scale_bits
        most = 2.0**bits
        if not bool(((public >= -most) & (public < most)).all()):
            raise ConfigError(
                "a public number beside a tensor that is shared as bits",
                limit=f"from -2^{bits} to below 2^{bits}, with {self.scale_bits} fraction bits",
            )
        return planes_of_public((public * 2**self.scale_bits).round())

    def aligned_planes(self, other: Any) -> tuple[Tensor, Tensor]:
        """Returns the bits of this tensor and of another one, which meet by broadcasting."""
        mine, theirs = self.planes, self.planes_like_own(other)
        dims = max(mine.dim(), theirs.dim()) - 1
        return aligned(mine, dims), aligned(theirs, dims)

    def _bitwise(self, function: Callable[..., Tensor], other: Any) -> Any:
        return self.of_planes(function(*self.aligned_planes(other)), self.scale_bits)

    def __and__(self, other: Any) -> Any:
        return self._bitwise(torch.logical_and, other)

    def __or__(self, other: Any) -> Any:
        return self._bitwise(torch.logical_or, other)

    def __xor__(self, other: Any) -> Any:
        return self._bitwise(torch.logical_xor, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Any:
        return self.of_planes(torch.logical_not(self.planes), self.scale_bits)

    def lshift(self, value: int) -> Any:
        """Returns the bits moved up by some places; zeros follow."""
        return self.of_planes(moved_up(self.planes, _places(value)), self.scale_bits)

    def rshift(self, value: int) -> Any:
        """Returns the bits moved down by some places; copies of the highest follow."""
        planes = self.planes
        highest = planes[BITS - 1 :].expand(_places(value), *planes.shape[1:])
        return self.of_planes(torch.cat([planes[value:], highest]), self.scale_bits)

    __lshift__, __rshift__ = lshift, rshift


def shared_planes(value: Any, src: int, size: Sequence[int] | None, broadcast_size: bool) -> Tensor:
    """Returns the bits of the integers that party `src` gives."""
    session = current_session()
    checked_source(src, value)
    plain = None if value is None else planes_of_public(torch.as_tensor(value).detach())
    if broadcast_size:
        loaded: Tensor = session.load(plain if session.rank == src else None, owner=src)
        return loaded
    if plain is None and size is None:
        raise ConfigError(
            "a tensor of unknown size", remedy="give a tensor, size or broadcast_size"
        )
    shape = plain.shape if plain is not None else (BITS, *(size or ()))
    secret: Tensor = session.share(plain, owner=src, shape=shape, dtype=torch.bool)
    return secret


def revealed_bits(planes: Tensor, scale_bits: int, dst: int | None) -> Tensor | None:
    """Returns the numbers with these secret bits, at all parties or at `dst`."""
    plain = current_session().reveal(planes, to=dst)
    if plain is None:
        return None
    number = plain_number(plain)
    return (number.double() / 2**scale_bits).to(REAL) if scale_bits else number


def _places(value: int) -> int:
    if type(value) is not int or not 0 <= value < BITS:
        raise RefusedAssertion(f"a shift by {value!r}", limit=f"0 to {BITS - 1} places")
    return value
