"""Who deals, who evaluates, and which part of a secret each of them holds.

x = m + a_1 + ... + a_n mod 2^k, or m ^ a_1 ^ ... ^ a_n for bits. All evaluators know the opened
value m, evaluator i knows its mask a_i, and the dealer knows every a_i and not m. The papers write
m = x + lambda; here a = -lambda, so that x is the sum of its parts in every role.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import torch
from torch import Tensor

from ...errors import ProtocolError
from ..base import Protocol
from ..context import Context
from ..products.bilinear import sum_parts
from ..randomness import Stream, mask_stream
from ..share import WHOLE_MASK, Arith, Bool


@dataclass(frozen=True)
class Roles:
    """The table of roles over parties and parts.

    opened: the number of the part m, which all evaluators hold. masks: for each evaluator, the
    number of the part a_i, which it holds with the dealer. The last evaluator, the leader, receives
    what the dealer sends, but see NOTE [halves] in deal.py, and adds public constants.
    """

    dealer: int
    evaluators: tuple[int, ...]
    opened: int
    masks: tuple[int, ...]

    @cached_property
    def mask_of(self) -> dict[int, int]:
        """The number of each evaluator's mask, by its rank."""
        return dict(zip(self.evaluators, self.masks, strict=True))

    @cached_property
    def opening(self) -> dict[int, Stream]:
        """For each evaluator, the stream of the masks on what it opens, which the dealer knows."""
        return {
            e: mask_stream(
                "open", e, self.dealer, *(other for other in self.evaluators if other != e)
            )
            for e in self.evaluators
        }

    @cached_property
    def dealing(self) -> dict[int, Stream]:
        """For each evaluator that draws shares of what is dealt, their stream.

        They hide what the dealer sends to the leader, and those of the leader, if it draws any,
        what the dealer sends to the first of two evaluators.
        """
        receivers = dict.fromkeys(self.evaluators[:-1], self.leader)
        if self.deals_halves:
            receivers[self.leader] = self.evaluators[0]
        return {e: mask_stream("deal", self.dealer, e, to) for e, to in receivers.items()}

    @property
    def deals_halves(self) -> bool:
        """Whether each evaluator receives one half of long dealt values: NOTE [halves]."""
        return len(self.evaluators) == 2

    @property
    def leader(self) -> int:
        """The rank of the last evaluator."""
        return self.evaluators[-1]


class MaskedBase(Protocol):
    """One party's role, and the parts that it holds: what every operation in this folder uses."""

    def __init__(self, context: Context, roles: Roles, *, exact: bool = True) -> None:
        super().__init__(context, exact=exact)
        self._assign(roles)

    def _assign(self, roles: Roles) -> None:
        self.roles = roles
        self.is_dealer = self.rank == roles.dealer
        self.is_leader = self.rank == roles.leader
        self.others = tuple(e for e in roles.evaluators if e != self.rank)

    # Parts by role -----------------------------------------------------------------------------

    def opened(self, x: Arith | Bool) -> Tensor:
        """Returns m, at an evaluator."""
        return x.parts[self.roles.opened]

    def own_mask(self, x: Arith | Bool) -> Tensor:
        """Returns a_i, at evaluator i."""
        return x.parts[self.roles.mask_of[self.rank]]

    def mask_parts(self, x: Arith) -> list[Tensor]:
        """Returns ring elements that add up to a, at the dealer."""
        if WHOLE_MASK in x.parts:
            return [x.parts[WHOLE_MASK]]
        return [x.parts[i] for i in self.roles.masks]

    def whole_mask(self, x: Arith) -> Tensor:
        """Returns a = a_1 + ... + a_n, at the dealer."""
        return sum_parts(self.mask_parts(x))

    def whole_mask_bits(self, x: Bool) -> Tensor:
        """Returns a = a_1 ^ ... ^ a_n, at the dealer."""
        return reduce(torch.bitwise_xor, (x.parts[i] for i in self.roles.masks))

    def make(self, m: Tensor | None, masks: list[Tensor], limit: int) -> Arith:
        """Returns the share with parts m and a_i at evaluator i, and all a_i at the dealer."""
        if m is None:
            return Arith(dict(zip(self.roles.masks, masks, strict=True)), self.ring, limit=limit)
        [mask] = masks
        parts = {self.roles.opened: m, self.roles.mask_of[self.rank]: mask}
        return Arith(parts, self.ring, limit=limit)

    def make_bits(self, m: Tensor | None, masks: list[Tensor], shape: Sequence[int]) -> Bool:
        """Returns the bits with parts m and a_i at evaluator i, and all a_i at the dealer."""
        if m is None:
            return Bool(dict(zip(self.roles.masks, masks, strict=True)), shape)
        [mask] = masks
        return Bool({self.roles.opened: m, self.roles.mask_of[self.rank]: mask}, shape)

    def unsplit(self, x: Arith) -> Arith:
        """Returns x with its mask known to the dealer alone, as a product has it. Local."""
        if x.dealer is not None:
            return x
        if self.is_dealer:
            share = x.with_parts({WHOLE_MASK: self.whole_mask(x)})
        else:
            share = x.with_parts({self.roles.opened: self.opened(x)})
        share.dealer = self.roles.dealer
        return share

    def rounded_locally(self, x: Arith) -> Arith:
        """floor(m / 2^t) - floor(-a / 2^t): if m + a wraps, it is off by a multiple of 2^(k-t).

        No window is so wide: see NOTE [sign of a quotient] in compare.py.
        """
        p = self.in_roles_of(x)
        share, t = p.unsplit(x), x.pending
        share = share.map(lambda part: -(-part >> t) if p.is_dealer else part >> t)
        limit = min((x.limit >> t) + 1, (1 << (x.ring.bits - 2 - t)) - 1)
        return Arith(share.parts, x.ring, limit=limit, dealer=p.roles.dealer)

    # What the local operations of `core.py` ask for ----------------------------------------------

    def in_roles_of(self, x: Arith) -> MaskedBase:
        """Returns this protocol in the roles of x, if x is a product whose mask a dealer knows."""
        if x.dealer is None or x.dealer == self.roles.dealer:
            return self
        return self.with_dealer(x.dealer)

    def with_dealer(self, dealer: int) -> MaskedBase:
        """Returns this protocol with its roles rotated so that this party deals, if it can be."""
        raise ProtocolError(
            f"this secret was multiplied under dealer {dealer}",
            remedy="settle it in those roles",
        )

    def aligned(self, x: Arith, y: Arith) -> tuple[Arith, Arith]:
        x, y = super().aligned(x, y)
        if x.dealer == y.dealer:
            return x, y
        if None not in (x.dealer, y.dealer):
            raise ProtocolError(
                "these secrets were multiplied under different dealers",
                remedy="settle one of them first",
            )
        p = self.in_roles_of(y if x.dealer is None else x)
        return p.unsplit(x), p.unsplit(y)

    def constant_parts(self, x: Arith | Bool) -> Sequence[int]:
        """Evaluators add a public constant to m; the dealer has nothing to add it to."""
        p = self.in_roles_of(x) if isinstance(x, Arith) else self
        return () if p.is_dealer else (p.roles.opened,)

    def constant(self, value: Tensor, *, limit: int) -> Arith:
        """m = value, and all masks are zero."""
        return self.make(*self._public_parts(value), limit)

    def constant_bits(self, planes: Tensor, shape: Sequence[int]) -> Bool:
        """m = planes, and all masks are zero."""
        return self.make_bits(*self._public_parts(planes), shape)

    def _public_parts(self, value: Tensor) -> tuple[Tensor | None, list[Tensor]]:
        count = len(self.roles.masks) if self.is_dealer else 1
        masks = [torch.zeros_like(value) for _ in range(count)]
        return None if self.is_dealer else value, masks
