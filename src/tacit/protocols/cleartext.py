"""The plain reference: every party holds every value, and computes by itself.

NOTHING HERE IS PRIVATE. It defines what the operations of a protocol mean, and runs programs
without the cost of secrets. Its parties are threads of one process; it refuses a network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from ..errors import ConfigError, Party
from ..kernels import from_bit_planes, unpack_bits
from ..ring import num_words
from ..transport import Spec
from .base import Protocol
from .core import BitSum, check_bits
from .products.bilinear import Bilinear
from .randomness import Stream, common_stream
from .share import Arith, Bool
from .steps import Interactive, Round, Steps

A = ParamSpec("A")
R = TypeVar("R")

VALUE = 0  # the only part of every secret: its value


# Input and output -------------------------------------------------------------------------------


def share(
    p: Cleartext,
    value: Tensor | None,
    owner: int,
    shape: Sequence[int] | None = None,
    *,
    limit: int | None = None,
) -> Steps[Arith]:
    """Returns ring elements that `owner` gives, at every party. 1 round."""
    form = shape if shape is not None else getattr(value, "shape", None)
    if form is None:
        raise ConfigError(Party(p.rank) + " needs a value or shape=", subject="share")
    if value is not None and (value.is_floating_point() or value.is_complex()):
        raise ConfigError(f"ring elements are integers, not {value.dtype}", subject="share")
    plain = None if value is None else value.to(p.device, p.ring.dtype, copy=True)
    sent = yield from _from_owner(p, plain, owner, Spec(tuple(form), p.ring.dtype))
    return Arith({VALUE: sent}, p.ring, limit=limit)


def share_bits(
    p: Cleartext, planes: Tensor | None, owner: int, shape: Sequence[int], width: int = 1
) -> Steps[Bool]:
    """Returns planes of bits that `owner` gives, at every party. 1 round."""
    spec = Spec((width, num_words(torch.Size(shape).numel())), torch.int64)
    plain = None if planes is None else planes.to(p.device, copy=True)
    return Bool({VALUE: (yield from _from_owner(p, plain, owner, spec))}, shape)


def _from_owner(p: Cleartext, value: Tensor | None, owner: int, spec: Spec) -> Steps[Tensor]:
    parties = _check_party(p, "owner", owner)
    if p.rank != owner:
        return (yield Round(receive={owner: [spec]}))[owner][0]
    if value is None or tuple(value.shape) != spec.shape:
        raise ConfigError(
            "the owner, " + Party(owner) + f", has to give a value of shape {spec.shape}"
        )
    yield Round(send={party: [value] for party in parties if party != owner})
    return value


def _check_party(p: Cleartext, name: str, party: int) -> range:
    """Returns all ranks. Raises ConfigError if this is not one of them."""
    parties = range(p.context.mesh.parties)
    if party not in parties:
        raise ConfigError(f"{name}={party}", limit=f"the parties are 0 to {parties[-1]}")
    return parties


def _without_rounds(body: Callable[A, R]) -> Callable[A, Steps[R]]:
    """Makes a function an operation that needs no round."""

    def steps(*args: A.args, **kwargs: A.kwargs) -> Steps[R]:
        return body(*args, **kwargs)
        yield  # makes it a generator

    steps.__doc__, steps.__name__ = body.__doc__, body.__name__
    return steps


def reveal(
    p: Cleartext,
    x: Arith | Bool,
    to: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    to_dealer: bool = False,
) -> Steps[Tensor | None]:
    """Returns the ring elements, or bits; None at other parties than `to`, if given.

    1 round of empty messages: each receiver compares its public record with those of all others.
    """
    if to is not None:
        _check_party(p, "to", to)
    p.context.admit_reveal(x, to, dtype)
    if isinstance(x, Arith):
        x = yield from p.settled.steps(x)
    receivers = range(p.context.mesh.parties) if to is None else (to,)
    peers = [party for party in range(p.context.mesh.parties) if party != p.rank]
    send: dict[int, list[Tensor]] = {party: [] for party in receivers if party != p.rank}
    yield Round(send=send, receive={party: [] for party in peers if p.rank in receivers})
    if p.rank not in receivers:
        return None
    if isinstance(x, Arith):
        return _value(x).cpu()
    if x.width == 1:
        return unpack_bits(_planes(x)[0].cpu(), x.shape, torch.bool)
    return from_bit_planes(_planes(x).cpu(), x.shape, torch.int64)


@_without_rounds
def random(p: Cleartext, shape: Sequence[int]) -> Arith:
    """Returns uniform ring elements, the same at every party."""
    return Arith({VALUE: p.context.draw(_everybody(p), shape)}, p.ring)


@_without_rounds
def random_bits(p: Cleartext, shape: Sequence[int], width: int = 1) -> Bool:
    """Returns uniform bits, the same at every party."""
    form = (width, num_words(torch.Size(shape).numel()))
    return Bool({VALUE: p.context.draw_planes(_everybody(p), form)}, shape)


def _everybody(p: Cleartext) -> Stream:
    return common_stream("random", *range(p.context.mesh.parties))


@_without_rounds
def refresh(p: Cleartext, x: Arith | Bool) -> Arith | Bool:
    """Returns x: there is nothing to hide."""
    return _settled(x) if isinstance(x, Arith) else x


# The core ---------------------------------------------------------------------------------------


def _value(x: Arith) -> Tensor:
    """floor(x / 2^pending), in new memory: what comparisons look at."""
    return x.parts[VALUE] >> x.pending


def _nearest(x: Arith) -> Tensor:
    """x / 2^pending rounded to nearest, so that sums of many have no bias."""
    if not x.pending:
        return _value(x)
    return ((x.parts[VALUE] >> (x.pending - 1)) + 1) >> 1


def _planes(x: Bool) -> Tensor:
    return x.parts[VALUE]


def _bits(x: Bool) -> Tensor:
    """The single bits as booleans."""
    return unpack_bits(_planes(x)[0], x.shape, torch.bool)


@_without_rounds
def bilinear(p: Cleartext, op: Bilinear, x: Arith, y: Arith, *, shift: int = 0) -> Arith:
    """Returns op(x, y) / 2^shift; an exact division stays pending, as in other protocols."""
    a, b = _settled(x), _settled(y)
    limit = a.limit * b.limit * op.terms(a.shape, b.shape)
    made = Arith({VALUE: op(_value(a), _value(b))}, p.ring, limit=limit, pending=shift)
    made.check_pending()
    return made if p.exact else _settled(made)


def _settled(x: Arith) -> Arith:
    x.check_pending()
    limit = (x.limit >> x.pending) + bool(x.pending)
    return Arith({VALUE: _nearest(x)}, x.ring, limit=limit)


@_without_rounds
def truncate(p: Cleartext, x: Arith, *, exact: bool | None = None) -> Arith:
    """Returns x / 2^pending rounded to nearest, whatever `exact` is."""
    return _settled(x) if x.pending else x


@_without_rounds
def settled(p: Cleartext, x: Arith) -> Arith:
    """Returns x with nothing pending. x itself becomes that share."""
    if x.pending:
        x.fill(_settled(x))
    return x


@_without_rounds
def bit_and(p: Cleartext, *bits: Bool) -> Bool:
    """Returns the AND of all, bit by bit."""
    return bits[0].with_parts({VALUE: reduce(torch.bitwise_and, map(_planes, bits))})


@_without_rounds
def sign(p: Cleartext, x: Arith, *, low: int = 0) -> Bool:
    """Returns [x < 0]; no low bits are ignored."""
    return p.pack(_value(x) < 0)


@_without_rounds
def signs(p: Cleartext, x: Arith, thresholds: Sequence[int], *, low: int = 0) -> list[Bool]:
    """Returns [x < t] for each t."""
    return [p.pack(_value(x) < t) for t in thresholds]


@_without_rounds
def is_zero(p: Cleartext, x: Arith) -> Bool:
    """Returns [x = 0]."""
    return p.pack(_value(x) == 0)


@_without_rounds
def inject(p: Cleartext, bit: Bool, x: Arith) -> Arith:
    """Returns x where the bit is 1, 0 elsewhere."""
    plain = _settled(x)
    return plain.with_parts({VALUE: torch.where(_bits(bit), _value(plain), 0)})


@_without_rounds
def inject_sums(
    p: Cleartext, bits: Sequence[Bool], x: Arith | None, sums: Sequence[BitSum]
) -> list[Arith]:
    """Returns, for each sum, the sum over j of (offsets_j + scales_j x) b_j."""
    check_bits(bits)
    value = (
        torch.zeros(bits[0].shape, dtype=p.ring.dtype, device=p.device)
        if x is None
        else _nearest(x)
    )
    limits = [one.limit(None if x is None else _settled(x)) for one in sums]
    values = [_bit_sum(p, bits, value, one) for one in sums]
    return [Arith({VALUE: v}, p.ring, limit=n) for v, n in zip(values, limits, strict=True)]


def _bit_sum(p: Cleartext, bits: Sequence[Bool], value: Tensor, one: BitSum) -> Tensor:
    total = torch.zeros_like(value)
    for bit, scale, offset in zip(bits, one.scales, one.offsets, strict=True):
        term = p.ring.wrap(offset) + p.ring.wrap(scale) * value
        total += torch.where(_bits(bit), term, 0)
    return total


class Cleartext(Protocol):
    """No secrets, for any number of parties in one process."""

    name = "cleartext"
    form = "cleartext"

    share = Interactive(share, Arith, owned=True)
    share_bits = Interactive(share_bits, Bool, owned=True)
    reveal = Interactive(reveal)
    random = Interactive(random, Arith)
    random_bits = Interactive(random_bits, Bool)
    refresh = Interactive(refresh)
    bilinear = Interactive(bilinear, Arith)
    truncate = Interactive(truncate, Arith)
    settled = Interactive(settled, Arith)
    bit_and = Interactive(bit_and, Bool)
    sign = Interactive(sign, Bool)
    signs = Interactive(signs)
    is_zero = Interactive(is_zero, Bool)
    inject = Interactive(inject, Arith)
    inject_sums = Interactive(inject_sums)

    def constant_parts(self, x: Arith | Bool) -> Sequence[int]:
        return (VALUE,)

    def constant(self, value: Tensor, *, limit: int) -> Arith:
        return Arith({VALUE: value}, self.ring, limit=limit)

    def constant_bits(self, planes: Tensor, shape: Sequence[int]) -> Bool:
        return Bool({VALUE: planes}, shape)
