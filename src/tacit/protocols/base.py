"""The class that every protocol extends: the core, and what `derived/` makes of it."""

from __future__ import annotations

from typing import Any

from ..ring import Sizes, Window
from . import conversion
from .core import ProtocolCore
from .derived import functions, order, sorting
from .derived import select as selection
from .derived.chebyshev import chebyshev
from .derived.piecewise import piecewise
from .products.bilinear import MATMUL, MUL, Conv, Einsum
from .share import Arith, Bool
from .steps import Interactive


class Protocol(ProtocolCore):
    """One party's side of a protocol. A subclass defines the interactive core of `core.py`."""

    # Derived -----------------------------------------------------------------------------------
    from_parts = Interactive(conversion.from_parts, Arith, owned=True)
    from_bit_parts = Interactive(conversion.from_bit_parts, Bool, owned=True)
    to_arith = Interactive(selection.to_arith, Arith)
    select = Interactive(selection.select, Arith)
    relu = Interactive(selection.relu, Arith)
    relu_with_bit = Interactive(selection.relu_with_bit, Arith, Bool)
    relu_backward = Interactive(selection.relu_backward, Arith)
    absolute = Interactive(selection.absolute, Arith)
    clip = Interactive(selection.clip, Arith)
    less = Interactive(selection.less, Bool)
    less_public = Interactive(selection.less_public, Bool)
    equal = Interactive(selection.equal, Bool)
    maximum = Interactive(selection.maximum, Arith)
    minimum = Interactive(selection.minimum, Arith)
    max = Interactive(order.max_, Arith)
    min = Interactive(order.min_, Arith)
    max_with_index = Interactive(order.max_with_index, Arith, Arith)
    max_with_one_hot = Interactive(order.max_with_one_hot, Arith, Bool)
    max_with_tournament = Interactive(order.max_with_tournament)
    tournament_winners = Interactive(order.tournament_winners, Bool)
    argmax = Interactive(order.argmax, Arith)
    one_hot_argmax = Interactive(order.one_hot_argmax, Bool)
    sort = Interactive(sorting.sort, Arith)
    sort_with_index = Interactive(sorting.sort_with_index, Arith, Arith)
    sort_by = Interactive(sorting.sort_by, Arith, Arith)
    topk = Interactive(sorting.topk, Arith, Arith)
    piecewise = Interactive(piecewise)
    normalise = Interactive(functions.normalise)
    chebyshev = Interactive(chebyshev, Arith)
    fourier = Interactive(functions.fourier, Arith)
    saturated = Interactive(functions.saturated, Arith)
    exp_negative = Interactive(functions.exp_negative, Arith)

    def verify(self) -> None:
        """Raises CheatingDetected if a party has deviated so far, in a protocol that can tell.

        Every reveal does this too. What is kept is verified before, and so is the end of a run.
        """

    @classmethod
    def declared_costs(cls, ring_bits: int, parties: int = 3) -> Any:
        """Returns what each operation is declared to cost in the default roles, or None."""
        return None

    # Products by name --------------------------------------------------------------------------

    def mul(self, x: Arith, y: Arith, *, shift: int = 0) -> Arith:
        """Returns x y / 2^shift, elementwise. As `bilinear`."""
        return self.bilinear(MUL, x, y, shift=shift)

    def square(self, x: Arith, *, shift: int = 0) -> Arith:
        """Returns x^2 / 2^shift. As `bilinear`."""
        return self.bilinear(MUL, x, x, shift=shift)

    def matmul(self, x: Arith, y: Arith, *, shift: int = 0) -> Arith:
        """Returns the product of matrices x @ y / 2^shift. As `bilinear`."""
        return self.bilinear(MATMUL, x, y, shift=shift)

    def outer(self, x: Arith, y: Arith, *, shift: int = 0) -> Arith:
        """Returns the outer product of two vectors, divided by 2^shift. As `bilinear`."""
        return self.bilinear(Einsum("i,j->ij"), x, y, shift=shift)

    def einsum(self, equation: str, x: Arith, y: Arith, *, shift: int = 0) -> Arith:
        """Returns a contraction in the notation of `torch.einsum`. As `bilinear`."""
        return self.bilinear(Einsum(equation), x, y, shift=shift)

    def conv(
        self,
        x: Arith,
        weight: Arith,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        *,
        shift: int = 0,
    ) -> Arith:
        """Returns the convolution in as many dimensions as the operands have beyond two."""
        window = Window.make(len(x.shape) - 2, stride, padding, dilation, groups)
        return self.bilinear(Conv(window), x, weight, shift=shift)
