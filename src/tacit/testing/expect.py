"""Compares what a protocol computed with the expected values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ..errors import Error
from ..protocols import Arith, Bool, Protocol
from .values import Integers, integers


def plain_of(p: Protocol, x: Arith | Bool) -> Tensor:
    """Returns the values of a secret, at every party and at a dealer."""
    plain = p.reveal(x, to_dealer=True)
    assert plain is not None
    return plain


def expect(p: Protocol, found: Arith | Bool, wanted: Tensor, what: str) -> None:
    """Reveals a secret. Raises AssertionError unless shape and elements are equal to `wanted`."""
    expect_plain(p, p.reveal(found, to_dealer=True), wanted, what)


def expect_plain(p: Protocol, found: Tensor | None, wanted: Tensor, what: str) -> None:
    """Raises AssertionError unless shape and elements are equal to `wanted`."""
    if found is None or found.shape != wanted.shape:
        shape = None if found is None else tuple(found.shape)
        raise AssertionError(f"{_place(p, what)}: shape {shape}, wanted {tuple(wanted.shape)}")
    wrong = (found.to(wanted.dtype) != wanted).nonzero()
    if len(wrong):
        first = tuple(wrong[0].tolist())
        raise AssertionError(
            f"{_place(p, what)}: {len(wrong)} of {wanted.numel()} elements are wrong, at {first} "
            f"{found[first].item()}, wanted {wanted[first].item()}"
        )


def expect_quotient(
    p: Protocol, found: Arith, dividend: Integers, shift: int, what: str, *, units: int = 1
) -> None:
    """Reveals a secret, which must be dividend / 2^shift, off by at most `units` units.

    `units`: how many rounded quotients were added up.
    """
    plain, wanted = plain_of(p, found), np.asarray(dividend, dtype=object)
    if tuple(plain.shape) != wanted.shape:
        raise AssertionError(f"{_place(p, what)}: wanted shape {wanted.shape}")
    off = max(np.abs(integers(plain) * 2**shift - wanted).reshape(-1), default=0)
    if off > units << shift:
        raise AssertionError(f"{_place(p, what)}: a quotient is off by {off / 2**shift}")


def expect_error(kind: type[Error], action: Callable[[], object], what: str) -> None:
    """Raises AssertionError unless the action raises an error of this kind, with a message."""
    try:
        action()
    except kind as error:
        if not str(error):
            raise AssertionError(f"{what}: {kind.__name__} says nothing") from error
    else:
        raise AssertionError(f"{what}: {kind.__name__} was expected")


def expect_true(p: Protocol, holds: bool | Tensor, what: str) -> None:
    """Raises AssertionError unless the condition holds, for all elements."""
    if not (bool(holds.all()) if isinstance(holds, torch.Tensor) else holds):
        raise AssertionError(_place(p, what))


def _place(p: Protocol, what: str) -> str:
    return f"{p.name}, ring of {p.ring.bits} bits, party {p.rank}: {what}"
