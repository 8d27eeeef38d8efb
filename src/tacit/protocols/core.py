"""The interactive core that a protocol defines, and the local operations that follow from it.

A protocol object is one party's view. Operations take whole tensors of shares, and all parties call
them in the same order. Secrets are integers mod 2^k, or bits. `base.py` adds everything that is
derived from the core.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import torch
from torch import Tensor

from ..errors import ConfigError, ProtocolError
from ..kernels import pack_bits
from ..ring.drawn_numbers import drawn
from .context import Context
from .forms import Held
from .hidden_table import HiddenRows
from .products.bilinear import MUL, Bilinear
from .share import Arith, Bool
from .steps import Group, Interactive, local


@dataclass(frozen=True)
class BitSum:
    """The public coefficients of a sum over j of (offsets[j] + scales[j] x) b_j, for bits b_j.

    This is `inject_sum` of (M10): one result of `Protocol.inject_sums`.
    """

    scales: tuple[int, ...]
    offsets: tuple[int, ...]

    def limit(self, x: Arith | None) -> int:
        """Returns a bound on the absolute value of the sum that holds for all bits."""
        each = 0 if x is None else x.limit
        return sum(map(abs, self.offsets)) + each * sum(map(abs, self.scales))


class ProtocolCore(ABC):
    """One party's side of a protocol: what the functions in `derived/` build on.

    exact: whether a pending division never fails (the default), or is probabilistic.
    form: which parts a secret has; protocols of one form understand each other's shares.
    dealt_tables: whether `fourier` and `exp_negative` come from a dealer, in one round each; then
        `fourier` can add cosines of the same phases.
    is_recordable: whether the work of a call can be recorded on a GPU and replayed.
    verifies_reveals: whether it verifies what was computed before it opens anything.
    can_interleave: whether a call may begin before another one has ended, and never end.
    helpers: how many members of a session are no parties: they own and learn nothing.
    parties: the number of parties; their ranks come first.
    num_turns: after so many turns by one party all have their first roles again (`turn_roles`).
    """

    name: ClassVar[str]
    helpers: ClassVar[int] = 0
    dealt_tables: ClassVar[bool] = False
    is_recordable: ClassVar[bool] = True
    verifies_reveals: ClassVar[bool] = False
    can_interleave: ClassVar[bool] = True
    num_turns: ClassVar[int] = 1
    form: str
    context: Context
    exact: bool

    # Input and output --------------------------------------------------------------------------
    share: Interactive[..., Arith]
    share_bits: Interactive[..., Bool]
    reveal: Interactive[..., Tensor | None]
    random: Interactive[..., Arith]
    random_bits: Interactive[..., Bool]
    refresh: Interactive[..., Arith | Bool]

    # What every protocol defines ---------------------------------------------------------------
    bilinear: Interactive[..., Arith]
    truncate: Interactive[..., Arith]
    settled: Interactive[[Arith], Arith]
    bit_and: Interactive[..., Bool]
    sign: Interactive[..., Bool]
    signs: Interactive[..., list[Bool]]
    is_zero: Interactive[[Arith], Bool]
    inject: Interactive[[Bool, Arith], Arith]
    inject_sums: Interactive[[Sequence[Bool], Arith | None, Sequence[BitSum]], list[Arith]]

    # What `base.py` derives, and a protocol with a dealer replaces by something faster -----------
    relu_with_bit: Interactive[..., tuple[Arith, Bool]]
    fourier: Interactive[..., Arith]
    exp_negative: Interactive[..., Arith]

    # What some protocols have: see `can_hide_rows` ------------------------------------------------
    hide_rows: Interactive[[Arith, int], HiddenRows]
    take_hidden: Interactive[[HiddenRows, Tensor | None, int], Arith]

    def __init__(self, context: Context, *, exact: bool = True) -> None:
        self.context, self.exact = context, exact
        self.rank, self.ring, self.device = context.rank, context.ring, context.device
        self.parties = context.mesh.parties - self.helpers

    def wipe(self) -> None:
        """Overwrites all secrets that operations draw from, at the end of a session.

        Ends calls in flight that the program has given up.
        """
        for lanes in list(self.context.parked):
            lanes.end()
        self.context.streams.wipe()

    def turn_roles(self, by: int) -> None:  # noqa: B027  most protocols have no roles to turn
        """Gives every role to the party that is `by` ranks further, on the same shares. Local."""

    def can_hide_rows(self, owner: int) -> bool:
        """Whether `owner` can take rows of a table without telling which (`hide_rows`)."""
        return False

    def rounded_locally(self, x: Arith) -> Arith | None:
        """Returns x / 2^pending, rounded down or up, for differences whose signs are taken.

        None if that takes a round. The result has its window right, and nothing above it.
        """
        return None

    @contextmanager
    def parallel(self) -> Iterator[None]:
        """Within the block, calls are collected; they run when it ends and share their rounds.

        The shares that they return are empty until then. The calls must not depend on each other.
        """
        if self.context.group is not None:
            raise ProtocolError("a parallel block cannot stand in another", remedy="join them")
        self.context.group = group = Group(self.context)
        try:
            yield
        finally:
            self.context.group = None
        group.run()

    @property
    def own_parts(self) -> Sequence[int]:
        """The numbers of the parts that this member holds of every secret."""
        return [*self.constant(torch.zeros(1, dtype=torch.int64), limit=0).parts]

    def file_key(self, key: bytes | str) -> bytes | str:
        """Returns the key of what this member keeps in files, from the one that it was given."""
        return key

    @classmethod
    def parts_held(cls, parties: int) -> Held:
        """Returns the numbers of the parts that each member holds, by rank."""
        raise NotImplementedError

    @classmethod
    def sent_part(cls, parties: int) -> int:
        """Returns the number of the part that a client sends as ring elements."""
        return 0

    @classmethod
    def client_senders(cls, parties: int) -> Sequence[int]:
        """Returns the ranks of those whose messages a client adds up."""
        return range(parties)

    @classmethod
    def joined_output(cls, messages: Sequence[Tensor]) -> Tensor:
        """Returns a result, at a client, from the messages of those senders."""
        return reduce(torch.add, messages)

    # Linear operations: local ------------------------------------------------------------------

    @abstractmethod
    def constant_parts(self, x: Arith | Bool) -> Sequence[int]:
        """Returns the parts of x at this party to which a public constant is added: one or none."""

    @abstractmethod
    def constant(self, value: Tensor, *, limit: int) -> Arith:
        """Returns the share of public ring elements, which lie in memory of its own."""

    @abstractmethod
    def constant_bits(self, planes: Tensor, shape: Sequence[int]) -> Bool:
        """Returns the share of public planes of bits."""

    @local
    def public(self, value: Tensor) -> Arith:
        """Returns public ring elements as a share."""
        elements = value.to(self.ring.dtype, copy=True).to(self.device)
        return self.constant(elements, limit=_largest(value))

    @local
    def public_bits(self, planes: Tensor, shape: Sequence[int]) -> Bool:
        """Returns public planes of bits as a share."""
        return self.constant_bits(planes.to(self.device), shape)

    def aligned(self, x: Arith, y: Arith) -> tuple[Arith, Arith]:
        """Returns x and y with the same pending division and the same parts at this party."""
        if x.pending != y.pending:
            most = max(x.pending, y.pending)
            x = x.scaled(1 << (most - x.pending)).divided(most - x.pending)
            y = y.scaled(1 << (most - y.pending)).divided(most - y.pending)
        return x, y

    @local
    def add(self, x: Arith, y: Arith) -> Arith:
        """Returns x + y, with broadcasting; pending divisions are added before they are made."""
        x, y = self.aligned(x, y)
        parts = {i: x.parts[i] + y.parts[i] for i in x.parts}
        return x.with_parts(parts, limit=x.limit + y.limit)

    @local
    def sub(self, x: Arith, y: Arith) -> Arith:
        """Returns x - y, as `add`."""
        x, y = self.aligned(x, y)
        parts = {i: x.parts[i] - y.parts[i] for i in x.parts}
        return x.with_parts(parts, limit=x.limit + y.limit)

    @local
    def neg(self, x: Arith) -> Arith:
        """Returns -x."""
        return x.map(torch.neg)

    @local
    def add_public(self, x: Arith, value: Tensor | int) -> Arith:
        """Returns x + value; if a division is pending, value has the scale of the quotient."""
        if not isinstance(value, Tensor):
            c: Tensor | int = self.ring.wrap(value << x.pending)
            parts, largest = dict(x.parts), abs(value) << x.pending
        else:
            c = value.to(self.ring.dtype)
            c = c << x.pending if x.pending else c
            parts, largest = spread_parts(x, c.shape), _largest(value) << x.pending
            c = c.to(self.device)
        for i in self.constant_parts(x):
            parts[i] = parts[i] + c
        return x.with_parts(parts, limit=x.limit + largest)

    @local
    def mul_public(self, x: Arith, value: Tensor | int) -> Arith:
        """Returns x times public ring elements, with broadcasting; nothing is divided."""
        if not isinstance(value, Tensor):
            return x.scaled(value)
        return self.bilinear_public(MUL, x, value.to(self.ring.dtype))

    @local
    def bilinear_public(self, op: Bilinear, x: Arith, value: Tensor, *, left: bool = True) -> Arith:
        """Returns op(x, value), or op(value, x) if not `left`, for a public value."""
        shapes = (x.shape, value.shape) if left else (value.shape, x.shape)
        limit = x.limit * _largest(value) * op.terms(*shapes)
        value = value.to(self.device)
        return x.map(lambda part: op(part, value) if left else op(value, part), limit=limit)

    @local
    def bit_xor(self, x: Bool, y: Bool) -> Bool:
        """Returns x ^ y."""
        return x.with_parts({i: x.parts[i] ^ y.parts[i] for i in x.parts})

    @local
    def bit_xor_public(self, x: Bool, planes: Tensor) -> Bool:
        """Returns x ^ planes, for public planes of the shape of x's."""
        constant, planes = self.constant_parts(x), planes.to(self.device)
        parts = {i: part ^ planes if i in constant else part for i, part in x.parts.items()}
        return x.with_parts(parts)

    @local
    def bit_and_public(self, x: Bool, planes: Tensor) -> Bool:
        """Returns x & planes, for public planes of the shape of x's."""
        planes = planes.to(self.device)
        return x.with_parts({i: part & planes for i, part in x.parts.items()})

    @local
    def bit_not(self, x: Bool) -> Bool:
        """Returns ~x: one part is flipped."""
        constant = self.constant_parts(x)
        return x.with_parts({i: ~part if i in constant else part for i, part in x.parts.items()})

    @local
    def pack(self, bits: Tensor) -> Bool:
        """Returns public zeros and ones as a share."""
        return self.public_bits(pack_bits(bits).unsqueeze(0), bits.shape)


def spread_parts(x: Arith, shape: Sequence[int]) -> dict[int, Tensor]:
    """Returns the parts of x, expanded to its shape broadcast with another."""
    if x.shape == shape:
        return dict(x.parts)
    wide = torch._C._infer_size(x.shape, torch.Size(shape))
    return {i: part.expand(wide) for i, part in x.parts.items()}


def _largest(value: Tensor) -> int:
    """The largest absolute value; 0 for an empty tensor."""
    if not value.numel():
        return 0
    if (known := drawn(value)) is not None:
        return int(known.largest)
    low, high = torch.aminmax(value)
    return max(-int(low), int(high))


def check_bits(bits: Sequence[Bool]) -> None:
    """Raises ConfigError for a sum over no bits, which would have no shape."""
    if not bits:
        raise ConfigError(
            "inject_sums: a sum over no bits has no shape", remedy="give at least one bit"
        )
