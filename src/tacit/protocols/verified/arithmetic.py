"""Products of secrets, which are verified later."""

from __future__ import annotations

from ..products.bilinear import MATMUL, Bilinear, ConvGradInput
from ..products.matrix_forms import matrix_form
from ..replicated.arithmetic import replicate, sent_share
from ..share import Arith, Parts
from ..steps import Steps, together
from .base import VerifiedBase
from .verify_claims import make_room


def bilinear(p: VerifiedBase, op: Bilinear, x: Arith, y: Arith, *, shift: int = 0) -> Steps[Arith]:
    """Returns op(x, y) / 2^shift; an exact division stays pending. 1 round, 1 element a party.

    The gradient of a convolution by its input sends one for each place of the window.
    """
    yield from make_room(p)
    if y is x:
        x = y = yield from p.settled.steps(x)
    else:
        x, y = yield from together(p.settled.steps(x), p.settled.steps(y))
    limit = x.limit * y.limit * op.terms(x.shape, y.shape)
    if isinstance(op, ConvGradInput):
        parts = yield from _folded_product(p, op, x.parts, y.parts)
    else:
        parts = yield from product(p, op, x.parts, y.parts)
    made = Arith(parts, p.ring, limit=limit).divided(shift)
    return made if p.exact or not shift else (yield from p.truncate.steps(made))


def product(
    p: VerifiedBase, op: Bilinear, x: Parts, y: Parts, *, ahead: bool = False
) -> Steps[Parts]:
    """Returns op(x, y). 1 round, 1 element a party."""
    z = yield from replicate(p, sent_share(p, op, x, y), ahead=ahead)
    p.note_product(op, x, y, z)
    return z


def _folded_product(p: VerifiedBase, op: ConvGradInput, x: Parts, y: Parts) -> Steps[Parts]:
    """Returns op(x, y): its matrix product, of which several elements are added up locally."""
    forms = {part: matrix_form(op, x[part], y[part]) for part in x}
    left = {part: form.left.contiguous() for part, form in forms.items()}
    right = {part: form.right.contiguous() for part, form in forms.items()}
    columns = yield from product(p, MATMUL, left, right)
    return {part: form.finish(columns[part]) for part, form in forms.items()}
