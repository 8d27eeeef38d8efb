"""What one party holds of a secret: some of its parts, and what is publicly known about it.

A secret is the sum of its parts (mod 2^k, or bitwise mod 2); no party holds them all. The protocol
decides which party holds which part. Everything here acts on each part alone: it is local, costs
nothing and serves every protocol.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, Self

import torch
from torch import Tensor

from ..errors import ConfigError, ProtocolError
from ..kernels import pack_bits, unpack_bits
from ..ring import Ring
from .plain_memory import UNLIMITED, PlainMemory
from .reveals import PrivacySpent

# The number of the part that is a whole mask, at the dealer that alone knows it.
WHOLE_MASK = -1

Parts = dict[int, Tensor]
Change = Callable[[Tensor], Tensor]


class Share:
    """Parts by number. A result of a parallel block is empty until the block ends.

    origin: the number of the recorded call of a protocol that made it; 0 if none did.
    privacy: what it costs to reveal this very share, if that is differentially private.
    """

    parts: Parts
    shape: torch.Size
    origin = 0
    privacy: PrivacySpent | None = None

    def __init__(self, parts: Parts, shape: Sequence[int]) -> None:
        self.parts = parts
        self.shape = torch.Size(shape)

    @classmethod
    def unfilled(cls) -> Self:
        """Returns an empty share, which `fill` completes."""
        return cls.__new__(cls)

    def __getattr__(self, name: str) -> Any:
        if "shape" not in self.__dict__ and not name.startswith("__"):
            raise ProtocolError(
                "this share is computed at the end of the parallel block",
                remedy="use it after the block",
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def fill(self, other: Share) -> None:
        """Becomes `other`, which was computed later than this object was handed out."""
        self.__dict__.update(other.__dict__)

    def costing(self, privacy: PrivacySpent | None) -> Self:
        """Returns the same share, whose reveal costs this."""
        if privacy is None:
            return self
        made = copy.copy(self)
        made.privacy = privacy
        return made

    @property
    def numel(self) -> int:
        """The number of elements."""
        return self.shape.numel()


class Arith(Share):
    """Integers mod 2^k, read as signed.

    limit: |x| <= limit is promised; it decides how many bits a comparison looks at.
    pending: the secret stands for x / 2^pending; that division is still to be made.
    dealer: if not None, x is a product whose mask is known to this party alone, as one part.
    owner: the party that knows x, because it gave x; None if no party does, or that is not tracked.
    original: the share of which this one is a view of another shape; None if it is none.
    """

    ring: Ring
    limit: int
    pending: int
    dealer: int | None
    owner: int | None = None
    original: Arith | None = None

    def __init__(
        self,
        parts: Parts,
        ring: Ring,
        *,
        limit: int | None = None,
        pending: int = 0,
        dealer: int | None = None,
    ) -> None:
        self.parts, self.shape = parts, [*parts.values()][0].shape  # noqa: RUF015  is faster
        self.ring, self.pending, self.dealer = ring, pending, dealer
        most = 1 << (ring.bits - 1)
        self.limit = most if limit is None or limit > most else limit

    def __repr__(self) -> str:
        """Shows shape, ring and bookkeeping, nothing secret."""
        pending = f", pending={self.pending}" if self.pending else ""
        return f"Arith(shape={tuple(self.shape)}, ring={self.ring.bits}{pending})"

    @property
    def width(self) -> int:
        """How many bits hold x / 2^pending with its sign, according to `limit`."""
        limit = (self.limit >> self.pending) + bool(self.pending)
        return min(limit.bit_length() + 1, self.ring.bits - self.pending)

    def check_pending(self) -> None:
        """Raises ConfigError for a pending division that leaves no bit of the ring."""
        if self.pending > self.ring.bits - 2:
            raise ConfigError(
                f"a pending division by 2^{self.pending}",
                limit=f"a ring of {self.ring.bits} bits allows 2^{self.ring.bits - 2} at most",
            )

    def with_parts(self, parts: Parts, *, limit: int | None = None) -> Arith:
        """Returns a share of these parts, with the bookkeeping of this one, but of no owner."""
        limit = self.limit if limit is None else limit
        return Arith(parts, self.ring, limit=limit, pending=self.pending, dealer=self.dealer)

    def promise(self, limit: int) -> Arith:
        """Returns the same secret with |x| <= limit; if that is wrong, results are garbage."""
        return self.map(lambda part: part, limit=min(limit, self.limit))

    def settle(self, made: Arith) -> None:
        """Becomes `made`, the same secret with nothing pending, unless it is settled already.

        NOTE [settled once]: several calls of a parallel block may settle one share. The first to
        finish decides for all, so that its parts change once. A view settles its original as well,
        so that a second view of it is not settled again.
        """
        if self.pending or self.dealer is not None:
            original, self.original = self.original, None
            self.fill(made)
            if original is not None:
                original.settle(made.map(lambda part: part.reshape(original.shape)))

    def divided(self, bits: int) -> Arith:
        """Returns x / 2^bits as a pending division: nothing is computed yet."""
        share = self.with_parts(self.parts)
        share.pending += bits
        return share

    def scaled(self, factor: int) -> Arith:
        """Returns the secret times a public integer."""
        wrapped = self.ring.wrap(factor)
        return self.map(lambda part: part * wrapped, limit=self.limit * abs(factor))

    def map(self, change: Change, *, limit: int | None = None) -> Arith:
        """Returns the secret after a public linear function of each of its parts."""
        share = self.with_parts({i: change(part) for i, part in self.parts.items()}, limit=limit)
        if self.owner is not None:
            share.owner = self.owner
        return share

    # Shapes ------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Arith:
        return self.map(lambda part: part[index])

    def reshape(self, *shape: int) -> Arith:
        return self.map(lambda part: part.reshape(shape))

    def view(self, shape: Sequence[int]) -> Arith:
        """Returns the secret in another shape. Settling it settles this share as well."""
        share = self.map(lambda part: part.reshape(shape))
        share.original = self
        return share

    def permute(self, *dims: int) -> Arith:
        return self.map(lambda part: part.permute(*dims))

    def transpose(self, dim0: int, dim1: int) -> Arith:
        return self.map(lambda part: part.transpose(dim0, dim1))

    def squeeze(self, dim: int) -> Arith:
        return self.map(lambda part: part.squeeze(dim))

    def unsqueeze(self, dim: int) -> Arith:
        return self.map(lambda part: part.unsqueeze(dim))

    def expand(self, *shape: int) -> Arith:
        return self.map(lambda part: part.expand(*shape))

    def flip(self, *dims: int) -> Arith:
        return self.map(lambda part: part.flip(dims))

    def roll(self, shifts: int, dim: int) -> Arith:
        return self.map(lambda part: part.roll(shifts, dim))

    def narrow(self, dim: int, start: int, length: int) -> Arith:
        return self.map(lambda part: part.narrow(dim, start, length))

    def index_select(self, dim: int, index: Tensor) -> Arith:
        return self.map(lambda part: part.index_select(dim, index.to(part.device)))

    def unfold(self, dim: int, size: int, step: int) -> Arith:
        return self.map(lambda part: part.unfold(dim, size, step))

    def pad(self, widths: Sequence[int]) -> Arith:
        """Returns the secret with zeros around it, as `torch.nn.functional.pad`."""
        return self.map(lambda part: torch.nn.functional.pad(part, list(widths)))

    def sum(self, *dims: int, keepdim: bool = False) -> Arith:
        chosen = dims or tuple(range(len(self.shape)))
        if not chosen:
            return self
        count = prod(self.shape[dim] for dim in chosen)
        return self.map(
            lambda part: part.sum(chosen, keepdim=keepdim, dtype=part.dtype),
            limit=self.limit * max(count, 1),
        )

    def cumsum(self, dim: int) -> Arith:
        limit = self.limit * max(self.shape[dim], 1)
        return self.map(lambda part: part.cumsum(dim, dtype=part.dtype), limit=limit)

    def split(self, size: int, dim: int = 0) -> list[Arith]:
        count = self.shape[dim]
        return [self.narrow(dim, i, min(size, count - i)) for i in range(0, count, size)]


class Bool(Share):
    """Bits, `width` for each element, as planes of shape (width, words): see `tacit.kernels`.

    is_coin: they depend on nothing but random numbers, and on none that is kept, so that everybody
    may learn them. What is computed from them is no coin.
    """

    is_coin = False

    def __init__(self, parts: Parts, shape: Sequence[int]) -> None:
        super().__init__(parts, shape)

    def __repr__(self) -> str:
        return f"Bool(shape={tuple(self.shape)}, width={self.width})"

    @property
    def width(self) -> int:
        return next(iter(self.parts.values())).shape[0]

    def with_parts(self, parts: Parts, shape: Sequence[int] | None = None) -> Bool:
        return Bool(parts, self.shape if shape is None else shape)

    def planes(self, low: int, high: int) -> Bool:
        """Returns bits [low, high) of each element."""
        return self.with_parts({i: part[low:high] for i, part in self.parts.items()})

    def map(self, change: Change) -> Bool:
        """Returns the bits after a change of shape, given for a tensor of shape (width, *shape)."""
        changed = {i: change(_unpacked(part, self.shape)) for i, part in self.parts.items()}
        shape = next(iter(changed.values())).shape[1:]
        return Bool({i: _packed(bits) for i, bits in changed.items()}, shape)

    def reshape(self, *shape: int) -> Bool:
        meta = torch.empty(self.shape, device="meta").reshape(*shape)
        return self.with_parts(self.parts, meta.shape)

    def __getitem__(self, index: Any) -> Bool:
        index = index if isinstance(index, tuple) else (index,)
        return self.map(lambda bits: bits[(slice(None), *index)])

    def expand(self, *shape: int) -> Bool:
        return self.map(lambda bits: bits.expand(self.width, *shape))

    def permute(self, *dims: int) -> Bool:
        return self.map(lambda bits: bits.permute(0, *(dim % len(dims) + 1 for dim in dims)))


class Plain(Share):
    """Numbers or truth values themselves, at a member that may know them; else shapes alone.

    The only part is a tensor of the value's own dtype. At a member that may not know it, the tensor
    is on torch's meta device, which keeps no elements.
    memory: what the tensor lies in: it is read in `memory.compute` and `memory.opened` alone.
    """

    VALUE = 0  # the number of the only part

    def __init__(self, tensor: Tensor, memory: PlainMemory = UNLIMITED) -> None:
        super().__init__({self.VALUE: tensor}, tensor.shape)
        self.memory = memory

    def __repr__(self) -> str:
        return f"Plain(shape={tuple(self.shape)})"

    @property
    def tensor(self) -> Tensor:
        """The values, or their shape."""
        return self.parts[self.VALUE]

    def map(self, change: Change) -> Plain:
        """Returns the values after a change of shape."""
        return Plain(self.memory.compute("a change of shape", change, self.tensor), self.memory)

    def map_list(self, change: Callable[[Tensor], Sequence[Tensor]]) -> list[Plain]:
        """Returns the values that a change of shape with several results gives."""
        parts = self.memory.compute("a change of shape", change, self.tensor)
        return [Plain(part, self.memory) for part in parts]


def _unpacked(planes: Tensor, shape: Sequence[int]) -> Tensor:
    return torch.stack([unpack_bits(plane, shape, torch.uint8) for plane in planes])


def _packed(bits: Tensor) -> Tensor:
    return torch.stack([pack_bits(plane) for plane in bits])


def join(change: Callable[[list[Tensor]], Tensor], shares: Sequence[Arith]) -> Arith:
    """Joins secrets with equal bookkeeping, by a function of a list of tensors (`torch.cat`)."""
    first = shares[0]
    parts = {i: change([share.parts[i] for share in shares]) for i in first.parts}
    return first.with_parts(parts, limit=max(share.limit for share in shares))


def join_bits(change: Callable[[list[Tensor]], Tensor], shares: Sequence[Bool]) -> Bool:
    """Joins bits, by a function of a list of tensors of shape (width, *shape)."""
    parts = {
        i: change([_unpacked(share.parts[i], share.shape) for share in shares])
        for i in shares[0].parts
    }
    shape = next(iter(parts.values())).shape[1:]
    return Bool({i: _packed(bits) for i, bits in parts.items()}, shape)


def stack_planes(shares: Iterable[Bool]) -> Bool:
    """Returns secrets of one shape as one secret with the planes of all."""
    shares = list(shares)
    parts = {i: torch.cat([share.parts[i] for share in shares]) for i in shares[0].parts}
    return shares[0].with_parts(parts)
