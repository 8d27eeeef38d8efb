"""What a party holds of a secret tensor, and the tensor that it belongs to."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...errors import ConfigError
from ...fixedpoint import Value
from ...protocols import Arith
from ...tensor import SecretTensor
from .initialization import current_session

DTYPES = {str(dtype): dtype for dtype in (torch.float32, torch.int64)}


def settled_share(secret: Tensor) -> Arith:
    """Returns this party's share, with no division pending. 1 round, or none."""
    assert isinstance(secret, SecretTensor)
    return secret.numbers.protocol.settled(secret.value.arith)


def described(secret: Tensor) -> dict[str, Any]:
    """Returns this party's share as plain data, for a file."""
    share = settled_share(secret.detach())
    return {
        "session": _session(),
        "parts": {number: part.cpu().clone() for number, part in share.parts.items()},
        "limit": str(share.limit),
        "dtype": str(secret.dtype),
        "requires_grad": secret.requires_grad,
    }


def restored(data: dict[str, Any]) -> Tensor:
    """Returns the secret that `described` was given, in a session like that one."""
    if data["session"] != _session():
        raise ConfigError(
            "shares of another session",
            limit="party, number of parties, protocol and fraction bits have to be the same",
        )
    numbers = current_session().numbers
    share = Arith(data["parts"], numbers.ring, limit=int(data["limit"]))
    value = Value(share, DTYPES[data["dtype"]])
    return SecretTensor(value, numbers, requires_grad=data["requires_grad"])


def _session() -> list[Any]:
    """Returns what has to be the same where shares are written and where they are read."""
    session = current_session()
    config = session.config
    return [session.rank, session.parties, config.protocol, config.fraction_bits]
