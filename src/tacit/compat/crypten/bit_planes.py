"""Bits of secret integers: planes of truth values, the lowest bit first, of all 64."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...fixedpoint import Value
from ...kernels import pack_bits, unpack_bits
from ...protocols import BitSum, Bool
from ...tensor import SecretTensor
from .initialization import current_session
from .shares import one_part_each, only_part, own_share, settled_share

BITS = 64
# Of two's complement: the highest bit counts negatively.
POWERS = (*(1 << i for i in range(BITS - 1)), -(1 << BITS - 1))


def planes_of_public(value: Tensor) -> Tensor:
    """Returns the bits of public integers, of shape (64, *shape)."""
    places = torch.arange(BITS).view(BITS, *[1] * value.dim())
    return (value.long() >> places & 1).bool()


def planes_of(secret: Tensor) -> Tensor:
    """Returns the bits of a secret of numbers: of its integers, or of its units of 2^-bits."""
    assert isinstance(secret, SecretTensor)
    numbers = secret.numbers
    share = settled_share(secret)
    bits = numbers.bits_of_integers(Value(share, torch.int64), BITS)
    return torch.stack([SecretTensor(bit, numbers) for bit in bits])


def number_of(planes: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns the numbers that have these bits; they have to be in the range of the session."""
    digits: list[Any] = [*planes.unbind()]
    numbers = digits[0].numbers
    [made] = numbers.protocol.inject_sums(
        [digit.value.bits for digit in digits], None, [BitSum((0,) * BITS, POWERS)]
    )
    limit = 1 << (numbers.fraction_bits + numbers.range_bits)
    return SecretTensor(Value(made.promise(limit), dtype), numbers)


def plain_number(planes: Tensor) -> Tensor:
    """Returns the integers with these public bits."""
    weights = torch.tensor(POWERS).view(BITS, *[1] * (planes.dim() - 1))
    return (planes.long() * weights).sum(0)


def own_words(planes: Tensor) -> Tensor:
    """Returns what this party holds of the bits, as numbers: the secret is the XOR of all."""
    assert isinstance(planes, SecretTensor)
    own = own_share(planes.value.bits.parts, torch.bitwise_xor)
    return plain_number(unpack_bits(own[0], planes.shape, torch.uint8))


def planes_of_words(words: Tensor) -> Tensor:
    """Returns the secret bits of which each party gives what it holds, as numbers."""
    bits, numbers = planes_of_public(words), current_session().numbers
    own, protocol = pack_bits(bits).unsqueeze(0), numbers.protocol
    if (number := only_part()) is not None:
        share = Bool({number: own}, bits.shape)
    else:
        share = protocol.from_bit_parts({protocol.rank: own}, one_part_each(), bits.shape)
    return SecretTensor(Value(share, torch.bool), numbers)


def aligned(planes: Tensor, dims: int) -> Tensor:
    """Returns the planes with dimensions of size 1 in front, so that there are `dims` beside."""
    missing = dims - (planes.dim() - 1)
    return planes.reshape(BITS, *[1] * missing, *planes.shape[1:])
