"""Operations whose result would reveal something about secrets. They raise an error."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from ...errors import Error, RevealForbidden, UnsupportedOp
from ...fixedpoint import Numbers
from ..table import implements

aten = torch.ops.aten

SHAPE_REVEALS = "the shape of the result would reveal values"


def _refuse(limit: str, remedy: str, *overloads: Any, error: type[Error] = UnsupportedOp) -> None:
    """Registers rules that raise an error which says why, and what to do instead."""
    for overload in overloads:
        name = overload._schema.name.removeprefix("aten::")

        def refuse(n: Numbers, *args: Any, name: str = name, **kwargs: Any) -> NoReturn:
            raise error(f"{name} of a secret tensor", limit=limit, remedy=remedy)

        refuse.__name__ = name
        implements(overload)(refuse)


_refuse(
    "it would need the values",
    "session.reveal(tensor, to=...) opens it to a party or to all",
    aten._local_scalar_dense.default,
    aten.equal.default,
    aten.allclose.default,
    error=RevealForbidden,
)

_refuse(
    "one kernel updates all parameters",
    'give the optimizer fused=False (TrainingArguments of transformers: optim="adamw_torch")',
    aten._fused_adam_.default,
    aten._fused_adamw_.default,
    aten._fused_sgd_.default,
    aten._fused_adagrad_.default,
)

_refuse(
    SHAPE_REVEALS,
    "keep the shape, with torch.where(mask, x, 0)",
    aten.nonzero.default,
)

_refuse(
    SHAPE_REVEALS,
    "compare with public values instead, (x == v)",
    aten._unique2.default,
    aten._unique.default,
    aten.unique_dim.default,
    aten.unique_consecutive.default,
)

_refuse(
    SHAPE_REVEALS,
    "torch.nn.functional.one_hot(x, classes).sum(0) counts a public number of classes",
    aten.bincount.default,
)
