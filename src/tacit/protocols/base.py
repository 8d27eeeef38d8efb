"""The interface that every protocol has, and all that can be built from it.

A protocol object is one party's view. Operations take whole tensors of shares and are called by all
parties in the same order. What needs no message stands here; the interactive core is declared here
and defined by each protocol; everything else is derived from the core in `derived/`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..errors import ProtocolError
from ..kernels import pack_bits
from ..ring import Sizes, Window
from .coefficients import Row
from .context import Context
from .derived import functions, order, sorting
from .derived import piecewise as pieces
from .derived import select as choice
from .derived.chebyshev import chebyshev
from .products.bilinear import MATMUL, MUL, Bilinear, Conv, Einsum
from .share import Arith, Bool
from .steps import Group, Interactive


class Protocol(ABC):
    """One party's side of a protocol.

    exact: whether a pending division is made without failures (the default) or probabilistically.
    form: which parts a secret has; protocols of one form understand each other's shares.
    dealt_tables: whether `fourier` and `exp_negative` come from a dealer, in one round each.
    """

    name: ClassVar[str]
    dealt_tables: ClassVar[bool] = False
    form: ClassVar[str]
    context: Context
    exact: bool

    # Input and output --------------------------------------------------------------------------
    share: Interactive[..., Arith]
    share_bits: Interactive[..., Bool]
    reveal: Interactive[..., Tensor | None]
    random: Interactive[..., Arith]
    random_bits: Interactive[..., Bool]
    refresh: Interactive[..., Arith | Bool]

    # The interactive core ----------------------------------------------------------------------
    bilinear: Interactive[..., Arith]
    truncate: Interactive[..., Arith]
    settled: Interactive[[Arith], Arith]
    bit_and: Interactive[..., Bool]
    sign: Interactive[..., Bool]
    signs: Interactive[..., list[Bool]]
    is_zero: Interactive[[Arith], Bool]
    inject: Interactive[[Bool, Arith], Arith]
    inject_sums: Interactive[[Sequence[Bool], Arith | None, Sequence[Row]], list[Arith]]

    # Derived -----------------------------------------------------------------------------------
    to_arith = Interactive(choice.to_arith, Arith)
    select = Interactive(choice.select, Arith)
    relu = Interactive(choice.relu, Arith)
    relu_with_bit = Interactive(choice.relu_with_bit, Arith, Bool)
    relu_backward = Interactive(choice.relu_backward, Arith)
    absolute = Interactive(choice.absolute, Arith)
    clip = Interactive(choice.clip, Arith)
    less = Interactive(choice.less, Bool)
    less_public = Interactive(choice.less_public, Bool)
    equal = Interactive(choice.equal, Bool)
    maximum = Interactive(choice.maximum, Arith)
    minimum = Interactive(choice.minimum, Arith)
    max = Interactive(order.max_, Arith)
    min = Interactive(order.min_, Arith)
    max_with_index = Interactive(order.max_with_index, Arith, Arith)
    max_with_one_hot = Interactive(order.max_with_one_hot, Arith, Bool)
    contest = Interactive(order.contest)
    winners = Interactive(order.winners, Bool)
    argmax = Interactive(order.argmax, Arith)
    one_hot_argmax = Interactive(order.one_hot_argmax, Bool)
    sort = Interactive(sorting.sort, Arith)
    sort_with_index = Interactive(sorting.sort_with_index, Arith, Arith)
    sort_by = Interactive(sorting.sort_by, Arith, Arith)
    topk = Interactive(sorting.topk, Arith, Arith)
    piecewise = Interactive(pieces.piecewise)
    normalise = Interactive(functions.normalise)
    chebyshev = Interactive(chebyshev, Arith)
    fourier = Interactive(functions.fourier, Arith)
    saturated = Interactive(functions.saturated, Arith)
    exp_negative = Interactive(functions.exp_negative, Arith)

    def __init__(self, context: Context, *, exact: bool = True) -> None:
        self.context, self.exact = context, exact
        self.rank, self.ring, self.device = context.rank, context.ring, context.device

    @contextmanager
    def parallel(self) -> Iterator[None]:
        """Calls made inside run when the block ends, and share their rounds.

        What they return is empty until then. They must not depend on each other.
        """
        if self.context.group is not None:
            raise ProtocolError("a parallel block cannot stand in another: join them")
        self.context.group = group = Group(self.context)
        try:
            yield
        finally:
            self.context.group = None
        group.run()

    @classmethod
    def declared_costs(cls, ring_bits: int) -> Any:
        """Returns what each operation is declared to cost in the default roles, or None."""
        return None

    # Linear operations: local ------------------------------------------------------------------

    @abstractmethod
    def constant_parts(self, x: Arith | Bool) -> Sequence[int]:
        """The parts of x at this party to which a public constant is added: one or none."""

    @abstractmethod
    def public(self, value: Tensor) -> Arith:
        """Public ring elements as a share."""

    @abstractmethod
    def public_bits(self, planes: Tensor, shape: Sequence[int]) -> Bool:
        """Public planes of bits as a share."""

    def alike(self, x: Arith, y: Arith) -> tuple[Arith, Arith]:
        """x and y with the same division pending and the same parts at this party."""
        if x.pending != y.pending:
            most = max(x.pending, y.pending)
            x = x.scaled(1 << (most - x.pending)).divided(most - x.pending)
            y = y.scaled(1 << (most - y.pending)).divided(most - y.pending)
        return x, y

    def add(self, x: Arith, y: Arith) -> Arith:
        x, y = self.alike(x, y)
        parts = {i: x.parts[i] + y.parts[i] for i in x.parts}
        return x.with_parts(parts, limit=x.limit + y.limit)

    def sub(self, x: Arith, y: Arith) -> Arith:
        x, y = self.alike(x, y)
        parts = {i: x.parts[i] - y.parts[i] for i in x.parts}
        return x.with_parts(parts, limit=x.limit + y.limit)

    def neg(self, x: Arith) -> Arith:
        return x.map(torch.neg)

    def add_public(self, x: Arith, value: Tensor | int) -> Arith:
        """x + value; where a division is pending, value is of the same scale as the quotient."""
        if isinstance(value, int):
            c: Tensor | int = self.ring.wrap(value << x.pending)
            parts, largest = dict(x.parts), abs(value) << x.pending
        else:
            c = value.to(self.ring.dtype)
            c = c << x.pending if x.pending else c
            parts, largest = spread_parts(x, c.shape), _largest(c)
            c = c.to(self.device)
        for i in self.constant_parts(x):
            parts[i] = parts[i] + c
        return x.with_parts(parts, limit=x.limit + largest)

    def mul_public(self, x: Arith, value: Tensor | int) -> Arith:
        """x times public ring elements, with broadcasting; nothing is divided."""
        if isinstance(value, int):
            return x.scaled(value)
        return self.bilinear_public(MUL, x, value.to(self.ring.dtype))

    def bilinear_public(self, op: Bilinear, x: Arith, value: Tensor, *, left: bool = True) -> Arith:
        """op(x, value), or op(value, x) if not `left`, with a public operand."""
        shapes = (x.shape, value.shape) if left else (value.shape, x.shape)
        limit = x.limit * _largest(value) * op.terms(*shapes)
        value = value.to(self.device)
        return x.map(lambda part: op(part, value) if left else op(value, part), limit=limit)

    def bit_xor(self, x: Bool, y: Bool) -> Bool:
        return x.with_parts({i: x.parts[i] ^ y.parts[i] for i in x.parts})

    def bit_xor_public(self, x: Bool, planes: Tensor) -> Bool:
        """x ^ planes, for public planes of the shape of x's."""
        constant, planes = self.constant_parts(x), planes.to(self.device)
        parts = {i: part ^ planes if i in constant else part for i, part in x.parts.items()}
        return x.with_parts(parts)

    def bit_and_public(self, x: Bool, planes: Tensor) -> Bool:
        planes = planes.to(self.device)
        return x.with_parts({i: part & planes for i, part in x.parts.items()})

    def bit_not(self, x: Bool) -> Bool:
        constant = self.constant_parts(x)
        return x.with_parts({i: ~part if i in constant else part for i, part in x.parts.items()})

    def pack(self, bits: Tensor) -> Bool:
        """Public zeros and ones as a share."""
        return self.public_bits(pack_bits(bits).unsqueeze(0), bits.shape)

    # Products by name --------------------------------------------------------------------------

    def mul(self, x: Arith, y: Arith, *, shift: int = 0) -> Arith:
        return self.bilinear(MUL, x, y, shift=shift)

    def square(self, x: Arith, *, shift: int = 0) -> Arith:
        return self.bilinear(MUL, x, x, shift=shift)

    def matmul(self, x: Arith, y: Arith, *, shift: int = 0) -> Arith:
        return self.bilinear(MATMUL, x, y, shift=shift)

    def outer(self, x: Arith, y: Arith, *, shift: int = 0) -> Arith:
        return self.bilinear(Einsum("i,j->ij"), x, y, shift=shift)

    def einsum(self, equation: str, x: Arith, y: Arith, *, shift: int = 0) -> Arith:
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
        """The convolution in as many dimensions as the operands have beyond two."""
        window = Window.make(len(x.shape) - 2, stride, padding, dilation, groups)
        return self.bilinear(Conv(window), x, weight, shift=shift)


def spread_parts(x: Arith, shape: Sequence[int]) -> dict[int, Tensor]:
    """The parts of x, for each element of a shape that is broadcast with its own."""
    if x.shape == shape:
        return dict(x.parts)
    wide = torch._C._infer_size(x.shape, torch.Size(shape))
    return {i: part.expand(wide) for i, part in x.parts.items()}


def _largest(value: Tensor) -> int:
    """The largest absolute value, or what stands for it in an empty tensor."""
    if not value.numel():
        return 0
    low, high = torch.aminmax(value)
    return max(-int(low), int(high))
