"""What a party holds of a secret tensor, and the tensor that it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from ...errors import ConfigError
from ...fixedpoint import Value
from ...protocols import Arith, Bool
from ...protocols.forms import givers
from ...tensor import SecretTensor
from .initialization import current_session
from .wrapping import REAL

DTYPES = {str(dtype): dtype for dtype in (torch.float32, torch.int64, torch.bool)}


def as_secret(value: Tensor) -> Tensor:
    """Returns a tensor that is secret already, or a public one among the secrets."""
    if isinstance(value, SecretTensor):
        return value
    numbers = current_session().numbers
    return SecretTensor(numbers.public(value.detach().to(REAL)), numbers)


def settled_share(secret: Tensor) -> Arith:
    """Returns this party's share, with no division pending. 1 round, or none."""
    assert isinstance(secret, SecretTensor)
    return secret.numbers.protocol.settled(secret.value.arith)


def secret_of_share(share: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns the secret of which each party gives its share; it has to be in the range."""
    numbers, part = current_session().numbers, share.long()
    limit = 1 << (numbers.fraction_bits + numbers.range_bits)
    protocol = numbers.protocol
    if (number := only_part()) is not None:
        made = Arith({number: part}, numbers.ring, limit=limit)
    else:
        given = {protocol.rank: part}
        made = protocol.from_parts(given, one_part_each(), part.shape, limit=limit)
    return SecretTensor(Value(made, dtype), numbers)


def only_part() -> int | None:
    """Returns the number of the part that this party holds of secrets; None if it holds several."""
    held = current_session().numbers.protocol.own_parts
    return held[0] if len(held) == 1 else None


def one_part_each() -> list[tuple[int, ...]]:
    """Returns who holds which part of a secret of which each party holds its own."""
    return [(rank,) for rank in range(current_session().parties)]


def own_share(parts: Mapping[int, Tensor], join: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Returns one share of the parts that this party holds: all parties' join to the secret.

    Of a part that several parties hold, the first one counts it.
    """
    if (number := only_part()) is not None:
        return parts[number]
    protocol = current_session().numbers.protocol
    given = givers(protocol.parts_held(protocol.parties), protocol.parties)
    none = torch.zeros_like(next(iter(parts.values())))
    return reduce(join, (parts[number] for number in given.get(protocol.rank, ())), none)


def described(secret: Tensor) -> dict[str, Any]:
    """Returns this party's share, of numbers or truth values, as plain data for a file."""
    assert isinstance(secret, SecretTensor)
    is_bits = secret.dtype == torch.bool
    share = secret.value.bits if is_bits else settled_share(secret.detach())
    return {
        "session": _session(),
        "parts": {number: part.cpu().clone() for number, part in share.parts.items()},
        "form": [*share.shape] if isinstance(share, Bool) else str(share.limit),
        "dtype": str(secret.dtype),
        "requires_grad": secret.requires_grad,
    }


def restored(data: dict[str, Any]) -> Tensor:
    """Returns the secret that `described` was given, in a session like that one."""
    if data["session"] != _session():
        raise ConfigError(
            "shares of another session",
            limit="party, number of parties, protocol, ring and fraction bits must be the same",
        )
    numbers, dtype = current_session().numbers, DTYPES[data["dtype"]]
    share = (
        Bool(data["parts"], data["form"])
        if dtype == torch.bool
        else Arith(data["parts"], numbers.ring, limit=int(data["form"]))
    )
    return SecretTensor(Value(share, dtype), numbers, requires_grad=data["requires_grad"])


def _session() -> list[Any]:
    """Returns what has to be the same where shares are written and where they are read."""
    session = current_session()
    config = session.config
    return [session.rank, session.parties, config.protocol, config.ring, config.fraction_bits]
