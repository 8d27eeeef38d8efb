"""Rules for sessions whose values are plain tensors: torch's own operation runs on them.

Where the table has a rule, the operation is allowed, and runs on the tensors of an enclave, or on
tensors of the meta device at a party, which have shapes alone. So both know the shape of every
result, and the numbers are torch's. The table's rules stay for what must not run as it is:
- products, which an enclave may leave to others (`Enclave.multiply`);
- public random numbers, which all members have to draw;
- indices, where a mask that is public decides on the shape, and one that is secret would tell it;
- views, which are functions of the shape;
- what is refused, such as `nonzero`, whose result has a secret shape.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ..errors import OutOfMemory
from ..fixedpoint import PlainNumbers, Value
from .fused_rules import FUSED
from .ops import refused
from .ops.linalg import matmul
from .ops.nn import attention, conv
from .piecewise_rules import in_pieces
from .plain_shapes import shapes_only
from .table import Rule, rule_of

aten = torch.ops.aten

KEPT = {module.__name__ for module in (matmul, conv, attention, refused)}
KEPT_OPERATIONS = {
    # A public mask decides on the shape of the result; a secret one is refused.
    aten.index.Tensor,
    aten._unsafe_index.Tensor,
    aten.masked_select.default,
    aten.embedding.default,  # an index that is no row gives zeros, and no error tells of it
    aten._to_copy.default,  # to the device of this member
    # The enclaves alone draw these.
    aten.rand_like.default,
    aten.randn_like.default,
    aten.randint_like.default,
    aten.randint_like.low_dtype,
    aten.uniform.default,
    aten.exponential.default,
    aten.normal_functional.default,
    aten.bernoulli.p,
    aten.bernoulli.default,
    aten.bernoulli.Tensor,
}

# torch has no meta kernel for these: at a party the result has the shape of this argument.
AS_ARGUMENT = {aten.multi_margin_loss_backward.default: 1}


@cache
def plain_rule(func: OpOverload) -> Rule | None:
    """Returns how an operation is done on plain values; None if the table has no rule for it."""
    rule = rule_of(func)
    if rule is None or rule.view or func in KEPT_OPERATIONS or rule.apply.__module__ in KEPT:
        return rule
    if func is aten.native_dropout.default:
        return Rule(_native_dropout)
    return Rule(partial(_run, func, rule.writes), writes=rule.writes)


def _run(
    func: OpOverload, writes: tuple[str, ...], n: PlainNumbers, *args: Any, **kwargs: Any
) -> Any:
    """torch's result on the tensors of this member, as values; then what is written to `writes`."""
    if func in FUSED and (made := FUSED[func](n, *args, **kwargs)) is not None:
        return made
    run = partial(_writing, func, writes) if writes else func
    if func in AS_ARGUMENT:
        run = partial(_without_meta, func)
    if not n.protocol.is_enclave:
        run = partial(shapes_only, func, run)
    try:
        return n.compute(str(func), run, *args, **kwargs)
    except OutOfMemory:  # it has not begun
        if n.protocol.memory.limit is None:
            raise
        made = in_pieces(func, n, *args, **kwargs)
        if made is None:
            raise
        return made


def _without_meta(func: OpOverload, *args: Any, **kwargs: Any) -> Any:
    """The result of an operation, or its shape if the arguments are shapes."""
    like = args[AS_ARGUMENT[func]]
    return torch.empty_like(like) if like.is_meta else func(*args, **kwargs)


def _writing(func: OpOverload, writes: tuple[str, ...], *args: Any, **kwargs: Any) -> Any:
    """The results of an operation that writes to some arguments, then the copies it has written."""
    given, written = list(args), []
    places = {argument.name: place for place, argument in enumerate(func._schema.arguments)}
    for name in writes:
        where, key = (kwargs, name) if name in kwargs else (given, places[name])
        where[key] = _copied(where[key])  # type: ignore[index]
        written.append(where[key])  # type: ignore[index]
    result = func(*given, **kwargs)
    return (*(result if isinstance(result, tuple) else (result,)), *written)


def _copied(x: Any) -> Any:
    return [_copied(one) for one in x] if isinstance(x, list) else None if x is None else x.clone()


def _native_dropout(
    n: PlainNumbers, input: Value, p: float, train: bool | None
) -> tuple[Value, Tensor]:
    """input mask / (1 - p), and the mask, which is public."""
    if train is False or p == 0:
        return input, torch.ones(input.shape, dtype=torch.bool)
    mask = n.uniform(input.shape) >= p
    factor = mask.to(input.dtype) / (1 - p) if p < 1 else torch.zeros(input.shape)
    return n.mul(input, factor), mask
