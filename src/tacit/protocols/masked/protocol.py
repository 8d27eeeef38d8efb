"""Masked evaluation: the table of contents."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...errors import ProtocolError
from ..base import Protocol
from ..context import Context
from ..share import Arith, Bool
from ..steps import Interactive
from . import arithmetic, boolean, compare, convert, dealer_functions, relu, truncation
from .costs import MaskedCosts
from .roles import Roles


class Masked(Protocol):
    """A protocol in which a dealer deals and evaluators compute, by a table of roles."""

    dealt_tables = True

    def __init__(self, context: Context, roles: Roles, *, exact: bool = True) -> None:
        super().__init__(context, exact=exact)
        self.roles = roles
        self.is_dealer = context.rank == roles.dealer
        self.is_leader = context.rank == roles.leader
        self.others = tuple(e for e in roles.evaluators if e != context.rank)

    bilinear = Interactive(arithmetic.bilinear, Arith)
    truncate = Interactive(truncation.truncate, Arith)
    settled = Interactive(truncation.settled, Arith)
    bit_and = Interactive(boolean.bit_and, Bool)
    sign = Interactive(compare.sign, Bool)
    signs = Interactive(compare.signs)
    is_zero = Interactive(compare.is_zero, Bool)
    inject = Interactive(convert.inject, Arith)
    inject_sums = Interactive(convert.inject_sums)
    relu_with_bit = Interactive(relu.relu_with_bit, Arith, Bool)

    fourier = Interactive(dealer_functions.fourier, Arith)
    exp_negative = Interactive(dealer_functions.exp_table, Arith)

    @property
    def costs(self) -> MaskedCosts:
        """What each operation is declared to cost."""
        return MaskedCosts(self.ring.bits, self.roles)

    def alike(self, x: Arith, y: Arith) -> tuple[Arith, Arith]:
        x, y = super().alike(x, y)
        if x.dealer == y.dealer:
            return x, y
        if None not in (x.dealer, y.dealer):
            raise ProtocolError(
                "these secrets were multiplied under different dealers: settle one of them first"
            )
        p = self.in_roles_of(y if x.dealer is None else x)
        return arithmetic.unsplit(p, x), arithmetic.unsplit(p, y)

    def in_roles_of(self, x: Arith) -> Masked:
        """This protocol in the roles in which x was multiplied, if its mask is still whole."""
        if x.dealer not in (None, self.roles.dealer):
            raise ProtocolError(
                f"this secret was multiplied under dealer {x.dealer}: settle it in those roles"
            )
        return self

    def constant_parts(self, x: Arith | Bool) -> Sequence[int]:
        p = self.in_roles_of(x) if isinstance(x, Arith) else self
        return () if p.is_dealer else (p.roles.opened,)

    def public(self, value: Tensor) -> Arith:
        value = value.to(self.ring.dtype, copy=True)
        low, high = torch.aminmax(value) if value.numel() else (torch.zeros(()),) * 2
        limit = max(-int(low), int(high))
        value = value.to(self.device)
        count = len(self.roles.masks) if self.is_dealer else 1
        masks = [torch.zeros_like(value) for _ in range(count)]
        return arithmetic.make(self, None if self.is_dealer else value, masks, limit)

    def public_bits(self, planes: Tensor, shape: Sequence[int]) -> Bool:
        planes = planes.to(self.device)
        count = len(self.roles.masks) if self.is_dealer else 1
        masks = [torch.zeros_like(planes) for _ in range(count)]
        return boolean.make_bits(self, None if self.is_dealer else planes, masks, shape)
