"""The ReLU: a sign and an injection by it, for which everything is dealt at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from ..chunked import in_pieces
from ..derived import select
from ..share import Arith, Bool
from ..steps import Steps
from .deal import Known, deal_with_masks
from .injection import injection
from .sign import Signs, xor

if TYPE_CHECKING:
    from .protocol import Masked

# Elements beyond which memory counts more than calls: the injection is dealt after the sign, which
# keeps a ReLU of a million below 60 bytes an element and party.
MANY = 1 << 19


@in_pieces(256)
def relu_with_bit(p: Masked, x: Arith, *, low: int = 0) -> Steps[tuple[Arith, Bool]]:
    """relu(x), and the bits [x >= 0] that its gradient needs. r + 1 rounds, one message dealt."""
    if x.numel > MANY:
        return (yield from select.relu_with_bit(p, x, low=low))
    product = yield from injection(p, x)
    p = product.p
    sign = Signs(p, product.x, (0,), low, negate=True)
    count = len(sign.dealt)

    def correct(masks: Known, pads: list[Tensor]) -> list[Tensor]:
        y = xor(masks[-2])[0]  # of the sign, which is opened before the product
        return sign.correct(masks, pads[:count]) + product.correct(y, pads[count:])

    slots = sign.opened + product.opened, sign.dealt + product.dealt
    masks, dealt = yield from deal_with_masks(p, *slots, correct)
    [bit] = yield from sign.online(masks[:-1], dealt[:count])
    positive = yield from product.online(bit, masks[-1], dealt[count:])
    return positive, bit
