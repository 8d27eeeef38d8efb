"""Plain numbers of one party as a secret tensor of CrypTen's kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import ConfigError
from .initialization import current_session
from .refused_call import RefusedAssertion
from .wrapping import REAL


def checked_source(src: Any, value: Any = None) -> int:
    """Returns the rank of the party whose value this is, which may say where it was loaded."""
    session = current_session()
    if type(src) is not int or src not in range(session.parties):
        raise RefusedAssertion(f"{src=}", limit=f"the rank of a party, 0 to {session.parties - 1}")
    loaded_from = getattr(value, "src", src)
    if session.rank == src and loaded_from != src:
        raise RefusedAssertion(
            f"a tensor of party {loaded_from} is shared as one of party {src}",
            remedy=f"give src={loaded_from}",
        )
    return src


def shared(
    value: Any, src: int, precision: int | None, size: Sequence[int] | None, broadcast_size: bool
) -> Tensor:
    """Returns the secret of what party `src` gives; `size`: its shape, where nothing is given."""
    session = current_session()
    checked_source(src, value)
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
