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


@implements(aten.isnan.default, aten.isinf.default, aten.isposinf.default, aten.isneginf.default)
def isnan(n: Numbers, self: Any) -> Any:
    """False: fixed-point numbers are finite."""
    return n.public(torch.zeros(self.shape, dtype=torch.bool))


@implements(aten.masked_select.default)
def masked_select(n: Numbers, self: Any, mask: Any) -> Any:
    """What a public mask selects; how many a secret one does must not be seen."""
    if not isinstance(mask, torch.Tensor):
        raise UnsupportedOp(
            "masked_select by a secret mask: the shape of the result would reveal values; "
            "keep the shape, with torch.where(mask, x, 0)"
        )
    shape = torch.broadcast_shapes(self.shape, mask.shape)
    chosen = mask.expand(shape)
    return self.map(lambda part: part.expand(shape)[chosen])


@implements(aten.masked_scatter.default)
def masked_scatter(n: Numbers, self: Any, mask: Any, source: Any) -> Any:
    """The places that a public mask selects overwritten, in order."""
    if not isinstance(mask, torch.Tensor):
        raise UnsupportedOp(
            "masked_scatter by a secret mask: which element goes where would depend on values; "
            "choose with torch.where(mask, a, b)"
        )
    made = n.joined(
        [self, source], lambda parts: parts[0].masked_scatter(mask.to(n.device), parts[1])
    )
    return n.convert(made, self.dtype)
