"""Operations whose result would say something about secrets: refused, with the way out."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from ...errors import RevealForbidden, UnsupportedOp
from ...fixedpoint import Numbers
from ..table import implements

aten = torch.ops.aten


def _refuses(way_out: str, *overloads: Any, error: type[Exception] = UnsupportedOp) -> None:
    for overload in overloads:
        name = overload._schema.name.removeprefix("aten::")

        def refuse(n: Numbers, *args: Any, name: str = name, **kwargs: Any) -> NoReturn:
            raise error(f"{name} of a secret tensor: {way_out}")

        refuse.__name__ = name
        implements(overload)(refuse)


_refuses(
    "it would need the values; session.reveal(tensor, to=...) opens it to a party or to all",
    aten._local_scalar_dense.default,
    aten.equal.default,
    error=RevealForbidden,
)

_refuses(
    "the shape of the result would reveal values; keep the shape, with torch.where(mask, x, 0)",
    aten.nonzero.default,
)

_refuses(
    "the shape of the result would reveal values; compare with public values instead, (x == v)",
    aten._unique2.default,
    aten._unique.default,
    aten.unique_dim.default,
    aten.unique_consecutive.default,
    aten.bincount.default,
)
