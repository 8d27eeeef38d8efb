"""What a party holds of a secret tensor, and the tensor that it belongs to."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...errors import ConfigError
from ...fixedpoint import Value
from ...protocols import Arith, Bool
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
    numbers = current_session().numbers
    limit = 1 << (numbers.fraction_bits + numbers.range_bits)
    made = Arith({own_part(): share.long()}, numbers.ring, limit=limit)
    return SecretTensor(Value(made, dtype), numbers)


def own_part() -> int:
    """Returns the number of the part of a secret that this party holds, if it holds only one."""
    held = current_session().numbers.protocol.own_parts
    if len(held) != 1:
        raise ConfigError(
            "shares of this protocol", limit="a party gives one part of a secret, and holds more"
        )
    return held[0]


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
