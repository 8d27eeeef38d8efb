"""What the inputs and outputs of every protocol have in common: checks, and plain bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..errors import ConfigError, Party
from ..kernels import from_bit_planes, unpack_bits
from ..ring import num_words
from ..transport import Spec

if TYPE_CHECKING:
    from .core import ProtocolCore


def check_party(p: ProtocolCore, name: str, party: int) -> None:
    """Raises ConfigError if this is not the rank of a party."""
    if party not in range(p.parties):
        raise ConfigError(f"{name}={party}", limit=f"the parties are 0 to {p.parties - 1}")


def checked_elements(
    p: ProtocolCore, value: Tensor | None, owner: int, shape: Sequence[int] | None
) -> tuple[Tensor | None, Spec]:
    """Returns the owner's ring elements on its device, None at the others, and their spec."""
    check_party(p, "owner", owner)
    if p.rank != owner:
        if shape is None and value is None:
            raise ConfigError(Party(p.rank) + " is not the owner and needs shape=", subject="share")
        form = tuple(shape if shape is not None else value.shape)  # type: ignore[union-attr]
        return None, Spec(form, p.ring.dtype)
    if value is None:
        raise ConfigError("the owner, " + Party(owner) + ", has to give a value", subject="share")
    if value.is_floating_point() or value.is_complex():
        raise ConfigError(f"ring elements are integers, not {value.dtype}", subject="share")
    if shape is not None and tuple(shape) != tuple(value.shape):
        raise ConfigError(
            f"shape={tuple(shape)} is not the value's {tuple(value.shape)}", subject="share"
        )
    spec = Spec(tuple(value.shape), p.ring.dtype)
    return value.to(p.device, p.ring.dtype).contiguous(), spec


def checked_planes(
    p: ProtocolCore, planes: Tensor | None, owner: int, shape: Sequence[int], width: int
) -> tuple[Tensor | None, Spec]:
    """Returns the owner's planes of bits on its device, None at the others, and their spec."""
    check_party(p, "owner", owner)
    spec = Spec((width, num_words(torch.Size(shape).numel())), torch.int64)
    if p.rank != owner:
        return None, spec
    if planes is None or tuple(planes.shape) != spec.shape:
        raise ConfigError(
            "the owner, " + Party(owner) + f", needs planes of {spec.shape}", subject="share_bits"
        )
    return planes.to(p.device), spec


def plain_bits(planes: Tensor, shape: Sequence[int]) -> Tensor:
    """Returns planes on the CPU as bools, or as integers if there are several bits an element."""
    if len(planes) == 1:
        return unpack_bits(planes[0], shape, torch.bool)
    return from_bit_planes(planes, shape, torch.int64)
