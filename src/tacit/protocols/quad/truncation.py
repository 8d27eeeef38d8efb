"""Division of secrets by 2^t.

NOTE [exact]: with c = m + 2^(k-2) and w = -a, the quotient of x = m + a is, rounded down or up,
    A - q - 2^(k-t) c_top w_top,
where the value side knows A and the top bit of c, and the mask side q and the top bit of w
(`kernels/injection.py`). The product of the top bits is the form F; only t bits of each count.
The sum is also that of other terms: with h = 2^(k-2) + 1, m' = a - h has c' = -1 - w, and
a' = m + h has w' = -1 - c. These are w and c with all bits flipped, so that c' and w' differ above
the low t bits by as much as c and w do, and their top bits by the same. So each side evaluates as
masked evaluation does, m and the shares of -a, or m' and the shares of -a', and both get the same
number, also where |x| is too large.
"""

from __future__ import annotations

from torch import Tensor

from ...kernels import deal_exact, exact_share, from_bit_planes, unpack_bits
from ..masked.deal import ring_spec
from ..share import Arith
from ..steps import Steps, together
from .arithmetic import split
from .base import QuadBase
from .gate import Gate, deal_mask, deal_value, evaluate


def settled(p: QuadBase, x: Arith) -> Steps[Arith]:
    """Returns x with nothing pending and its mask in two shares. x itself becomes that share."""
    if x.pending:
        x.settle((yield from p.truncate.steps(x)))
    elif x.dealer is not None:
        x.settle((yield from split(p, x)))
    return x


def truncate(p: QuadBase, x: Arith, *, exact: bool | None = None) -> Steps[Arith]:
    """Returns x / 2^pending, rounded down or up; |x| < 2^(k-2). 1 round.

    Exact: never off by more than one unit. Probabilistic: as NOTE [probabilistic] of
    `masked/truncation.py` says, one element dealt by each side.
    """
    if not x.pending:
        return x
    x.check_pending()
    x = x.with_parts(x.parts)  # a copy: another call of a parallel block may settle x meanwhile
    t, limit = x.pending, (min(x.limit, 1 << (p.ring.bits - 2)) >> x.pending) + 1
    if p.exact if exact is None else exact:
        parts = yield from evaluate(p, _exact(p, x, t))
        return Arith(parts, p.ring, limit=limit)
    known, spec = p.known(x), ring_spec(p, x.shape)
    masks, values = yield from together(
        deal_mask(p, -(-known >> t) if p.on_mask_side else None, spec),
        deal_value(p, None if p.on_mask_side else known >> t, spec),
    )
    return Arith(masks | values, p.ring, limit=limit)


def exact_terms(p: QuadBase, x: Arith) -> tuple[Tensor, Tensor]:
    """Returns what this side evaluates with, m or m', and the mask that it deals for, a or a'.

    See NOTE [exact]; both are made of the term of x that this side knows.
    """
    known, h = p.known(x).contiguous(), (1 << (p.ring.bits - 2)) + 1
    return (known - h, known) if p.on_mask_side else (known, known + h)


def _exact(p: QuadBase, x: Arith, t: int) -> Gate:
    """NOTE [exact]: each side deals its term of the quotient, and its top bit."""
    element, narrow = ring_spec(p, x.shape), ring_spec(p, x.shape, width=t)
    opened, mask = exact_terms(p, x)

    def deal(pads: list[Tensor]) -> list[Tensor]:
        quotient, top = deal_exact(mask, t)
        return [quotient - pads[0], unpack_bits(top, x.shape, p.ring.dtype) - pads[1]]

    def share(dealt: list[Tensor], minus: Tensor) -> Tensor:
        quotient, top = dealt
        top = from_bit_planes(top, x.shape, p.ring.dtype) if p.is_first else top
        return exact_share(opened, quotient, top, t, first=p.is_first, minus=minus)

    both = (element, narrow)
    return Gate(element, both, both, deal, share)
