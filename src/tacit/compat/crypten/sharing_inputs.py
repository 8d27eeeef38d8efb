"""Plain numbers of one party as a secret tensor of CrypTen's kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import ConfigError
from .initialization import current_session
from .wrapping import REAL


def shared(
    value: Any, src: int, precision: int | None, size: Sequence[int] | None, broadcast_size: bool
) -> Tensor:
    """Returns the secret of what party `src` gives; `size`: its shape, where nothing is given."""
    session = current_session()
    session.rank_of(src, "src")
    dtype = torch.int64 if precision == 0 else REAL
    plain = None if value is None else _plain(value, precision, session.numbers.fraction_bits)
    if broadcast_size:
        given = plain if session.rank == src else None
        loaded: Tensor = session.load(given, owner=src)
        return loaded
    if plain is None and size is None:
        raise ConfigError(
            "a tensor of unknown size", remedy="give a tensor, size= or broadcast_size"
        )
    sizes = plain.shape if plain is not None else torch.Size(size or ())
    secret: Tensor = session.share(plain, owner=src, shape=sizes, dtype=dtype)
    return secret


def _plain(value: Any, precision: int | None, fraction_bits: int) -> Tensor:
    """Returns the value as a tensor, rounded to `precision` fraction bits."""
    tensor = torch.as_tensor(value).detach()
    if precision is None or precision == fraction_bits:
        return tensor.to(REAL)
    if not 0 <= precision <= fraction_bits:
        raise ConfigError(
            f"precision={precision!r}",
            limit=f"0 to {fraction_bits}, the fraction bits of this session",
            remedy="set cfg.encoder.precision_bits before crypten.init()",
        )
    if precision == 0:
        return tensor.long()
    return (tensor.double() * 2**precision).round().div(2**precision).to(REAL)
