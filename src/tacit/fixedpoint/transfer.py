"""Tensors shared and revealed: one at a time, or many in few messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..errors import RangeError
from ..kernels import pack_bits
from ..protocols import Arith, Bool, PrivacySpent
from ..protocols.steps import Steps, drive, together
from .encoding import elements, require_in_range
from .extended.fine_gradients import full_share
from .format import Format, cap, decode
from .guard import check
from .value import Value

# The limits of one message: the transport's table of tensors is short, and both ends hold the whole
# message in memory.
MOST_TENSORS = 256
MOST_ELEMENTS = 1 << 23


@dataclass(frozen=True)
class Input:
    """A tensor to share, made by `checked_input`. Only its owner has the values.

    fraction_bits: of the shared elements, if not those of the dtype.
    """

    shape: torch.Size
    dtype: torch.dtype
    values: Tensor | None
    fraction_bits: int | None = None


def checked_input(n: Format, tensor: Tensor, path: str, *, mine: bool) -> Input:
    """Returns what this party contributes to `share_many`: values only if they are its own.

    Raises RangeError, which names the tensor by its `path`, if one of its own numbers is not
    representable: NaN, infinite or beyond the range. Nothing is sent.
    """
    if not mine:
        return Input(tensor.shape, tensor.dtype, None)
    values = tensor.detach()
    if tensor.dtype != torch.bool:
        check = partial(_require_representable, n, path=path)
        if n.trace is None:
            check(values)
        else:
            n.trace.check_input(check, values)
    return Input(tensor.shape, tensor.dtype, values)


def _require_representable(n: Format, values: Tensor, path: str) -> None:
    try:
        require_in_range(n, values, n.bits_of(values.dtype), path)
    except RangeError as error:
        error.party = n.protocol.rank
        raise error.about("share") from None


def share(
    n: Format, value: Tensor | None, owner: int, shape: Sequence[int], dtype: torch.dtype
) -> Value:
    """Returns the owner's tensor as a secret; the other parties pass None, shape and dtype.

    1 round, or none if the owner deals.
    """
    if value is not None:
        _require_representable(n, value, "the tensor")
    absorb_shares(n, owner, [(shape, dtype)])
    call = _share(n, Input(torch.Size(shape), dtype, value), owner)
    return _as_value(n, drive(n.protocol.context, call), dtype)


def share_many(n: Format, inputs: Sequence[Input], owner: int) -> list[Value]:
    """Returns all inputs of one owner as secrets. The rounds of `share` for each batch."""
    shared: list[Value] = []
    for batch in batches([one.shape.numel() for one in inputs]):
        chosen = inputs[batch]
        absorb_shares(n, owner, [(one.shape, one.dtype) for one in chosen])
        calls = [_share(n, one, owner) for one in chosen]
        shares = drive(n.protocol.context, together(*calls))
        shared += [_as_value(n, s, one.dtype) for s, one in zip(shares, chosen, strict=True)]
    return shared


def mark_parameters(n: Format, values: Sequence[Value]) -> None:
    """Notes that values are the parameters of a module. Only an enclave does something with it."""


def absorb_shares(
    n: Format, owner: int, forms: Sequence[tuple[Sequence[int], torch.dtype]]
) -> None:
    """Adds a share to the public record; if it is of one tensor, errors say what each party has.

    The forms of many are compared by `nn` before.
    """
    name = "share"
    if len(forms) == 1:
        [(shape, dtype)] = forms
        name = f"share: shape {tuple(shape)}, {str(dtype).removeprefix('torch.')}, owner {owner}"
    n.protocol.context.record.absorb(name, (owner, forms))


def _share(n: Format, one: Input, owner: int) -> Steps[Any]:
    value, shape = one.values, one.shape
    if one.dtype == torch.bool:
        planes = None if value is None else pack_bits(value).unsqueeze(0)
        return n.protocol.share_bits.steps(planes, owner, shape)
    bits = n.bits_of(one.dtype) if one.fraction_bits is None else one.fraction_bits
    encoded = None if value is None else elements(n, value, bits)
    return n.protocol.share.steps(encoded, owner, shape)


def _as_value(n: Format, share: Arith | Bool, dtype: torch.dtype) -> Value:
    return Value(cap(n, share) if isinstance(share, Arith) else share, dtype)


def reveal(n: Format, x: Value, to: int | None = None) -> Tensor | None:
    """Returns the plain tensor at every party, or at party `to` and None elsewhere. 1 round."""
    share, fraction_bits = full_share(n, x)
    elements = n.protocol.reveal(share, to, dtype=x.dtype)
    return _plain(n, elements, x, fraction_bits, to)


def _plain(
    n: Format, elements: Tensor | None, x: Value, fraction_bits: int, to: int | None
) -> Tensor | None:
    """The numbers; at a dealer, which does not learn what all parties learn, NaN or 0."""
    if elements is not None:
        made = decode(elements, x.dtype, fraction_bits)
        if n.trace is not None:
            n.trace.note_revealed(made)
        return made
    if to is not None:
        return None
    unknown = float("nan") if x.dtype.is_floating_point else 0
    return torch.full(x.shape, unknown, dtype=x.dtype)


def reveal_many(
    n: Format,
    values: Sequence[Value],
    to: int | None = None,
    origins: Sequence[int] = (),
    *,
    to_dealer: bool = False,
    privacy: PrivacySpent | None = None,
) -> list[Tensor | None]:
    """Returns all plain tensors at every party, or at party `to`. 1 round for each batch.

    A dealer that is no party gets NaN or 0 for what all parties get, unless `to_dealer` is set.
    origins: of the tensors that have these values, which must be the same at all parties. privacy:
    what all of it costs, if it is differentially private. With
    guards, raises RangeError instead if one of these or of the watched values left its range.
    """
    check(n, values)
    opened: list[Tensor | None] = []
    for batch in batches([value.shape.numel() for value in values]):
        forms = [(value.shape, value.dtype) for value in values[batch]]
        told = (to, to_dealer, forms, origins[batch], privacy)
        n.protocol.context.record.absorb("reveal", told)
        shares = [full_share(n, value) for value in values[batch]]
        calls: list[Steps[Tensor | None]] = []
        for (share, _), value in zip(shares, values[batch], strict=True):
            opens = n.protocol.reveal.steps
            costing = share.costing(privacy)
            calls.append(opens(costing, to, dtype=value.dtype, to_dealer=to_dealer))
            privacy = privacy and privacy.counted
        found = drive(n.protocol.context, together(*calls))
        opened += [
            _plain(n, elements, value, fraction_bits, to)
            for elements, (_, fraction_bits), value in zip(
                found, shares, values[batch], strict=True
            )
        ]
    return opened


def batches(sizes: Sequence[int]) -> Iterator[slice]:
    """Yields slices of consecutive tensors that fit one message."""
    start, elements = 0, 0
    for i, size in enumerate(sizes):
        if i > start and (elements + size > MOST_ELEMENTS or i - start == MOST_TENSORS):
            yield slice(start, i)
            start, elements = i, 0
        elements += size
    if sizes:
        yield slice(start, len(sizes))
