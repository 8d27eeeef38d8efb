"""Correlated randomness that the parties make themselves, from oblivious transfers between pairs.

Each party draws its shares of all masks alone. A product of two sums over parties has terms that
one party knows, and cross terms of two parties, each of which takes transfers (`oblivious/`). The
first call that needs any sets them up; all others find them ready. Everything travels in the rounds
of the call that needs it, and depends on no secret.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from ...crypto import wipe
from ...kernels import stream, unpack_bits
from ...ring import OtProduct, num_words
from ...transport import Spec
from ..oblivious import (
    Transfers,
    and_triples,
    cross_product,
    product_cost,
    receive_product,
    send_product,
    set_up,
)
from ..products.bilinear import MUL, Bilinear, sum_parts
from ..products.matrix_forms import matrix_form
from ..randomness import common_stream
from ..steps import PASS, Round, Steps, together
from .source import BitPairs, Owners, Source, Square, Triple

if TYPE_CHECKING:
    from .base import BeaverBase

Tensors = TypeVar("Tensors", bound=tuple[Tensor, ...])
KEY_BYTES = 16
SESSION_BYTES = 32


class Pairwise(Source):
    """One party's ends of the transfers with all others. On the CPU; results go to the device."""

    def __init__(self, p: BeaverBase) -> None:
        self._p = p
        self._key, self._draws = secrets.token_bytes(KEY_BYTES), 0
        self._transfers: dict[int, Transfers] = {}
        self._is_starting = False

    def wipe(self) -> None:
        """Overwrites all secrets, at the end of a session."""
        wipe(self._key)
        for transfers in self._transfers.values():
            transfers.wipe()
        self._transfers = {}

    # The source --------------------------------------------------------------------------------

    def bilinear_triple(
        self, op: Bilinear, a: Sequence[int], b: Sequence[int], owners: Owners
    ) -> Steps[Triple]:
        """NOTE [owned factors]: the owner of an operand draws the whole mask of it, b.

        It knows the operand y, so y - b tells it nothing new, and the other party lacks b. Of the
        cross terms a_0 b_1 and a_1 b_0 only one is left, or none: half of the transfers, or none.
        The part of the other party, which is opened as it is, holds words of a sharing of zero,
        from the key of these two parties.
        """
        x, y = (self._mask(shape, owner) for shape, owner in zip((a, b), owners, strict=True))
        left, right, finish = matrix_form(op, x, y)
        ranks = [self._p.ranks if owner is None else (owner,) for owner in owners]
        cross = yield from self._cross(left, right, *ranks)
        return self._placed(Triple(x, y, op(x, y) + finish(cross)))

    def square_pair(self, shape: Sequence[int]) -> Steps[Square]:
        """a^2 has each cross term twice: one product a pair, of the lower rank's transfers."""
        a = self._own(shape)
        product = self._product(a.numel(), 1, 1, 1, self._p.ring.bits)
        factor = a.reshape(-1, 1, 1)
        yield from self._ready()
        halves = yield from together(
            *(
                receive_product(transfers.receiver, product, factor)
                if self._p.rank < peer
                else send_product(transfers.sender, product, factor)
                for peer, transfers in (self._transfers if a.numel() else {}).items()
            )
        )
        total = sum(halves, torch.zeros_like(factor)).reshape(a.shape)
        a, c = self._placed((a, MUL(a, a) + 2 * total))
        return Square(a, c)

    def and_triples(self, rows: Sequence[int], words: int) -> Steps[list[Triple]]:
        """All in one: random transfers make them in pairs, in one round.

        Among more than two parties each has a factor b for each pair. Who has b sends by how much
        it differs from one b for all, and the other corrects its share: one round more.
        """
        a = self._own((sum(rows) * words,), torch.int64)
        yield from self._ready()
        made = yield from together(*(and_triples(t, a) for t in self._transfers.values()))
        if len(made) == 1:
            [(b, c)] = made
        else:
            b, c = yield from self._joined_bits(a, made)
        columns = [planes.view(sum(rows), words).split(list(rows)) for planes in (a, b, c)]
        return [self._placed(Triple(*column)) for column in zip(*columns, strict=True)]

    def bit_pairs(self, bits: int, shape: Sequence[int], chosen: Sequence[int]) -> Steps[BitPairs]:
        """r_j = 1 r_j and r_j a, for a factor 1 of party 0 and the factors a_i of all.

        If any bit is chosen, the products of all are made.
        """
        form, dtype = tuple(shape), self._p.ring.dtype
        planes = self._own((bits, num_words(torch.Size(form).numel())), torch.int64)
        flags = torch.stack([unpack_bits(row, form, dtype) for row in planes]).view(-1)
        if not chosen:
            elements = yield from self._flipped(0, flags, torch.ones_like(flags).view(-1, 1))
            planes, elements = self._placed((planes, elements.view(bits, *form)))
            return BitPairs(planes, elements, None, None)
        a = self._own(form)
        factor = a.reshape(-1).repeat(bits)
        both = torch.stack([torch.ones_like(flags), factor], 1)
        first, *others = yield from together(
            self._flipped(0, flags, both),
            *(self._flipped(rank, flags, factor.view(-1, 1)) for rank in self._p.ranks[1:]),
        )
        elements = first[:, 0].reshape(bits, *form)
        products = sum_parts([first[:, 1], *(other[:, 0] for other in others)])
        picked = products.reshape(bits, *form)[list(chosen)]
        return BitPairs(*self._placed((planes, elements, a, picked)))

    def random_part(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        return self._own(shape, dtype).to(self._p.device)

    def bit_times(self, chooser: int, operand: Tensor) -> Steps[Tensor]:
        """Returns a share of b v, for bits b of one of two parties and elements v of the other.

        operand: b at the chooser, as ring elements, and v at the other. 1 transfer an element.
        """
        [peer] = self._p.others
        if not operand.numel():
            return operand
        product = self._product(operand.numel(), 1, 1, 1, 1)
        yield from self._ready()
        factor = operand.cpu().reshape(-1, 1, 1)
        if self._p.rank == chooser:
            made = yield from receive_product(self._transfers[peer].receiver, product, factor)
        else:
            made = yield from send_product(self._transfers[peer].sender, product, factor)
        return made.reshape(operand.shape).to(self._p.device)

    # Transfers ---------------------------------------------------------------------------------

    def _ready(self) -> Steps[None]:
        """Sets the transfers up, once: 2 rounds. Calls beside the first wait for it."""
        p = self._p
        while not self._transfers and self._is_starting:
            yield PASS
        if self._transfers:
            return
        self._is_starting = True
        shape, word = (SESSION_BYTES // 8,), torch.int64
        drawn = [
            p.context.randomness.draw(common_stream("transfers", p.rank, peer), shape, word)
            for peer in p.others
        ]
        made = yield from together(
            *(
                set_up(p.rank, peer, words.cpu().numpy().tobytes())
                for peer, words in zip(p.others, drawn, strict=True)
            )
        )
        self._transfers = dict(zip(p.others, made, strict=True))

    def _cross(
        self, left: Tensor, right: Tensor, lefts: Sequence[int], rights: Sequence[int]
    ) -> Steps[Tensor]:
        """Returns a share of the cross terms of left @ right, of all pairs.

        lefts, rights: who has a term of either. The transfers are for the bits of the smaller
        matrix, and of rows of the other one.
        """
        batch, m, k = left.shape
        n = right.shape[-1]
        if not batch * m * k * n:
            return left.new_zeros(batch, m, n)
        if m > n:
            return (yield from self._cross(right.mT, left.mT, rights, lefts)).mT
        product = self._product(batch, m, k, n, self._p.ring.bits)
        left, right = left.contiguous(), right.contiguous()
        yield from self._ready()
        terms = [(i, j) for i in lefts for j in rights if i != j]
        if self._p.parties == 2 and len(terms) < 2:
            return (yield from self._one_way(product, left, right, terms))
        made = yield from together(
            *(cross_product(one, product, left, right) for one in self._transfers.values())
        )
        return sum_parts(made)

    def _one_way(
        self, product: OtProduct, left: Tensor, right: Tensor, terms: Sequence[tuple[int, int]]
    ) -> Steps[Tensor]:
        """Returns a share of the only cross term of two parties, if there is one."""
        if not terms:
            return left.new_zeros(product.result)
        [(chooser, sender)] = terms
        if self._p.rank == chooser:
            return (yield from receive_product(self._transfers[sender].receiver, product, left))
        return (yield from send_product(self._transfers[chooser].sender, product, right))

    def _joined_bits(
        self, a: Tensor, made: Sequence[tuple[Tensor, Tensor]]
    ) -> Steps[tuple[Tensor, Tensor]]:
        """Returns b and the share of a & b, from a b and a share for each pair."""
        b = self._own(a.shape, torch.int64)
        peers, spec = self._p.others, Spec(tuple(a.shape), torch.int64)
        send = {peer: [b ^ own] for peer, (own, _) in zip(peers, made, strict=True)}
        received = yield Round(send, {peer: [spec] for peer in peers})
        c = a & b
        for peer, (own, share) in zip(peers, made, strict=True):
            c ^= share ^ (a & (own ^ received[peer][0].cpu()))
        return b, c

    def _flipped(self, owner: int, flags: Tensor, factor: Tensor) -> Steps[Tensor]:
        """Returns a share of r v for the bits r, each the exclusive or of all parties' flags.

        v are columns of elements that `owner` has as `factor`. It multiplies by its own flag; then
        party after party chooses by its flag b between s and v - s, that is, adds b (v - 2 s) to
        the shares s of those before it: one transfer from each of them.
        """
        p = self._p
        if not len(flags):
            return factor
        product = self._product(len(flags), 1, 1, factor.shape[1], 1)
        yield from self._ready()
        order = [owner, *(rank for rank in p.ranks if rank != owner)]
        factor = factor if p.rank == owner else torch.zeros_like(factor)
        share = factor * flags.unsqueeze(1)
        for place, chooser in enumerate(order[1:], 1):
            if p.rank == chooser:
                choices = flags.view(-1, 1, 1)
                made = yield from together(
                    *(
                        receive_product(self._transfers[rank].receiver, product, choices)
                        for rank in order[:place]
                    )
                )
            elif p.rank in order[:place]:
                values = (factor - 2 * share).unsqueeze(1)
                sender = self._transfers[chooser].sender
                made = ((yield from send_product(sender, product, values)),)
            else:
                made = ()
                for _ in range(product_cost(product, chooser, owner).rounds):
                    yield PASS
            share = sum_parts([share, *(one.view(share.shape) for one in made)])
        return share

    # Local -------------------------------------------------------------------------------------

    def _own(self, shape: Sequence[int], dtype: torch.dtype | None = None) -> Tensor:
        """Returns uniform words that only this party knows."""
        out = torch.empty(tuple(shape), dtype=dtype or self._p.ring.dtype)
        self._draws += 1
        return stream(self._key, out, operation=self._draws, cipher="aes128-ctr")

    def _mask(self, shape: Sequence[int], owner: int | None) -> Tensor:
        """Returns this party's share of a mask, which an owner of the operand knows alone."""
        if owner not in (None, self._p.rank):
            return torch.zeros(tuple(shape), dtype=self._p.ring.dtype)
        return self._own(shape)

    def _product(self, batch: int, m: int, k: int, n: int, bits: int) -> OtProduct:
        return OtProduct(batch, m, k, n, bits, self._p.ring)

    def _placed(self, tensors: Tensors) -> Tensors:
        """Returns the same tuple on the device of the shares."""
        moved = [tensor.to(self._p.device) for tensor in tensors]
        return type(tensors)(*moved) if isinstance(tensors, Triple) else type(tensors)(moved)
