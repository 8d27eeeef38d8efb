"""From an ATen call to its rule: found, derived from the schema, or decomposed; else refused."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._pytree import tree_map

from ..errors import UnsupportedOp
from ..fixedpoint import Numbers, Value
from . import ops  # noqa: F401  registers the rules
from .decompose import decomposition
from .secret import SecretTensor
from .table import RULES, Rule

aten = torch.ops.aten


def dispatch(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of an operation with at least one secret among its arguments."""
    rule = RULES.get(func)
    if rule is not None:
        return _apply(rule, func, args, kwargs)
    target = written_argument(func)
    if target is not None:
        return _write(func, target, args, kwargs)
    if func.name().startswith("aten::_foreach_"):
        return _each(func, args, kwargs)
    decomposed = decomposition(func)
    if decomposed is not None:
        return decomposed(*args, **kwargs)
    raise unsupported(func, args, kwargs)


def _apply(rule: Rule, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    found: list[SecretTensor] = []
    numbers = _numbers(args, kwargs, found)

    def opened(x: Any) -> Any:
        return x.value if isinstance(x, SecretTensor) else x

    plain_args, plain_kwargs = tree_map(opened, args), tree_map(opened, kwargs)
    result = rule.apply(numbers, *plain_args, **plain_kwargs)
    if not rule.view:
        return tree_map(lambda x: _wrap(x, numbers), result)
    base, rest = args[0], plain_args[1:]

    def take(index: int | None) -> Any:
        def again(value: Value) -> Value:
            made = rule.apply(numbers, value, *rest, **plain_kwargs)
            return made if index is None else made[index]

        return again

    if isinstance(result, Value):
        return _wrap(result, numbers).view_of(base, take(None))
    return [_wrap(one, numbers).view_of(base, take(i)) for i, one in enumerate(result)]


def _numbers(args: Any, kwargs: Any, found: list[SecretTensor]) -> Numbers:
    def look(x: Any) -> Any:
        if isinstance(x, SecretTensor):
            found.append(x)
        return x

    tree_map(look, (args, kwargs))
    return found[0].numbers


def _wrap(x: Any, numbers: Numbers) -> Any:
    return SecretTensor(x, numbers) if isinstance(x, Value) else x


@cache
def written_argument(func: OpOverload) -> str | int | None:
    """The argument that an in-place or out variant writes to: its place, or its name."""
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            return argument.name if argument.kwarg_only else place
    return None


@cache
def functional(func: OpOverload) -> OpOverload | None:
    """The variant of the operation that returns a new tensor."""
    name = func._schema.name.removeprefix("aten::")
    packet = getattr(aten, name.removesuffix("_"), None)
    if packet is None:
        return None
    wanted = [_typed(a) for a in func._schema.arguments if not (a.kwarg_only and a.alias_info)]
    for overload in packet.overloads():
        candidate = getattr(packet, overload)
        found = [_typed(a) for a in candidate._schema.arguments]
        if found == wanted and written_argument(candidate) is None:
            return candidate
    return None


def _typed(argument: Any) -> tuple[str, str]:
    return argument.name, str(argument.type)


def _write(
    func: OpOverload, target: str | int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """In-place and out variants: the result of the functional one, written to its target."""
    pure = functional(func)
    outs = [a.name for a in func._schema.arguments if a.kwarg_only and a.alias_info is not None]
    destination = [kwargs[name] for name in outs] if outs else [args[int(target)]]
    if pure is None or not all(isinstance(one, SecretTensor) for one in destination):
        raise unsupported(func, args, kwargs)
    rule = RULES.get(pure)
    if rule is not None and rule.view:  # squeeze_, transpose_: only the shape changes
        numbers = destination[0].numbers
        return destination[0].reshape_by(lambda x: rule.apply(numbers, x, *args[1:], **kwargs))
    result = pure(*args, **{k: v for k, v in kwargs.items() if k not in outs})
    results = result if isinstance(result, tuple) else (result,)
    for one, made in zip(destination, results, strict=True):
        one.write(made.value if isinstance(made, SecretTensor) else one.numbers.public(made))
    return destination[0] if len(destination) == 1 else tuple(destination)


def _each(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`_foreach_` variants: the operation for each element of the lists."""
    name = func._schema.name.removeprefix("aten::_foreach_")
    packet = getattr(aten, name, None)
    if packet is None:
        raise unsupported(func, args, kwargs)
    count = len(args[0])

    def at(i: int) -> tuple[Any, ...]:
        return tuple(a[i] if isinstance(a, list | tuple) else a for a in args)

    def apply(*own: Any) -> Any:
        if name.startswith("addc") and len(own) == 4:  # the factor is a keyword there
            return packet(*own[:3], value=own[3], **kwargs)
        return packet(*own, **kwargs)

    results = [apply(*at(i)) for i in range(count)]
    return None if name.endswith("_") else results


def unsupported(func: OpOverload, args: Any, kwargs: Any) -> UnsupportedOp:
    """The error for an operation without a rule."""
    kinds = ", ".join(_kind(a) for a in (*args, *kwargs.values()))
    near = sorted({str(op) for op in RULES if _base(op) == _base(func)})
    hint = f"there is {', '.join(near)}" if near else "docs/reference/ops.md lists what there is"
    return UnsupportedOp(f"{func} of ({kinds}) has no rule for secret tensors; {hint}")


def _base(func: OpOverload) -> str:
    return func._schema.name.removesuffix("_")


def _kind(x: Any) -> str:
    if isinstance(x, SecretTensor):
        return f"secret {x.dtype}".replace("torch.", "")
    if isinstance(x, torch.Tensor):
        return f"public {x.dtype}".replace("torch.", "")
    return type(x).__name__


SecretTensor.dispatch = staticmethod(dispatch)
