"""From an ATen call to its rule, or to other calls; else it is refused.

The order of resolution (`plan`): a rule of the table; a `_foreach_` variant, by the operation on
each element of the lists or on several joined (joint_lists.py); an in-place or `out=` variant, by
the functional one; torch's decomposition; an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from ..errors import Operator, UnsupportedOp
from ..fixedpoint import Numbers, Value
from ..fixedpoint.extended.fine_gradients import FineGradient, Seed, seed
from ..fixedpoint.extended.joint_vectors import split
from ..fixedpoint.lazy import Deferred, LazyValue
from ..fixedpoint.symbolic import SymbolicNumber
from ..ring.drawn_numbers import scaled
from . import ops  # noqa: F401  registers the rules
from .debug import debugged
from .decompose import decomposition
from .joint_lists import groups, together
from .plain_rules import plain_rule
from .secret import SecretTensor, layouts
from .substitutes import substitute
from .table import RULES, Rule, on_change, rule_of

aten = torch.ops.aten

Plan = Callable[[tuple[Any, ...], dict[str, Any]], Any]

# If all operands are publicly known, these are computed in plain: every machine rounds the same.
EXACT = {
    getattr(packet, overload)
    for packet in (aten.add, aten.sub, aten.mul, aten.div)
    for overload in ("Tensor", "Scalar")
} | {aten.neg.default}
# Gradients with extra fraction bits: their rules call those of the other operands' kinds.
GRADIENTS = (FineGradient, Seed)


def dispatch(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the result of an operation with at least one secret among its arguments."""
    numbers = _numbers(args, kwargs)
    if numbers.protocol.context.in_recorded_call:
        return plan(func, numbers.is_plain)(args, kwargs)
    if numbers.on_call is not None:
        return numbers.on_call(recorded_call, func, args, kwargs)
    return recorded_call(func, args, kwargs)


def recorded_call(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Returns the result of an operation that the program calls, and adds it to the record."""
    numbers = _numbers(args, kwargs)
    context = numbers.protocol.context
    apply = plan(func, numbers.is_plain)
    context.record.absorb(func.name(), args, kwargs)
    if (trace := numbers.trace) is not None:
        args, kwargs = trace.note_call(func, args, kwargs)
    if context.watcher is not None:
        apply = context.watcher.around(str(func.overloadpacket), apply)
    context.in_recorded_call = True
    try:
        return apply(args, kwargs)
    finally:
        context.in_recorded_call = False


def _numbers(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Numbers:
    """The arithmetic of the first secret."""
    secret = args[0] if args and type(args[0]) is SecretTensor else _first_secret(args, kwargs)
    return secret.numbers


def _first_secret(args: tuple[Any, ...], kwargs: dict[str, Any]) -> SecretTensor:
    return next(x for x in tree_leaves((args, kwargs)) if isinstance(x, SecretTensor))


def _has_secret(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(isinstance(x, SecretTensor) for x in tree_leaves((args, kwargs)))


@cache
def plan(func: OpOverload, is_plain: bool = False) -> Plan:
    """Returns how an operation is done, on shares or plain values: a function of its arguments."""
    find = plain_rule if is_plain else rule_of
    rule = find(func)
    if rule is not None:
        return partial(_view if rule.view else _apply, rule, func)
    if func.name().startswith("aten::_foreach_"):
        return partial(_each, func)
    if written_argument(func) is not None:
        return _writing(func, find)
    decomposed = decomposition(func)
    if decomposed is not None:
        return lambda args, kwargs: decomposed(*args, **kwargs)
    return partial(_refuse, func)


on_change(plan.cache_clear)
on_change(plain_rule.cache_clear)


def _refuse(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise unsupported(func, args, kwargs)


def _apply(rule: Rule, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule's result as tensors."""
    numbers, result = _result(rule, func, args, kwargs, lazy=rule.lazy)
    if rule.writes:
        result = _written(rule, func, result, args, kwargs)
    if isinstance(result, Value):
        return SecretTensor(result, numbers)
    if isinstance(result, list | tuple):
        return type(result)([_wrapped(one, numbers) for one in result])
    return result


def _result(
    rule: Rule,
    func: OpOverload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    lazy: bool = False,
) -> tuple[Numbers, Any]:
    """The arithmetic of the secrets, and the result of the rule as values."""
    secrets: list[SecretTensor] = []
    values: list[Value] = []
    plain = [_opened(x, secrets, values) for x in args]
    named = {name: _opened(x, secrets, values) for name, x in kwargs.items()}
    numbers = secrets[0].numbers
    for value in values:
        if type(value) is not Value or value.known is not None:
            if lazy and any(isinstance(x, LazyValue) and x.unread for x in values):
                return numbers, _deferred(rule, func, numbers, plain, named, values)
            return numbers, _special(rule, func, numbers, plain, named, values)
    if numbers.debug:
        return numbers, debugged(rule, func, numbers, plain, named)
    return numbers, rule.apply(numbers, *plain, **named)


def _special(
    rule: Rule,
    func: OpOverload,
    numbers: Numbers,
    plain: list[Any],
    named: dict[str, Any],
    values: Sequence[Value],
) -> Any:
    """The same, where some operands are publicly known or of a kind with own rules."""
    hidden = [x for x in values if x.known is None]
    if not hidden and func in EXACT:
        given = _together(_known(plain))
        made = func(*given, **{name: _known(x) for name, x in named.items()})
        public = numbers.public(_as_drawn(func, given, made))
        return seed(public) if any(type(x) is Seed for x in values) else public
    linear = next((x for x in values if type(x) in GRADIENTS and (func, type(x)) in RULES), None)
    if hidden and len(hidden) < len(values):
        kept = () if linear is None else Seed
        plain = _known(plain, kept)
        named = {name: _known(x, kept) for name, x in named.items()}
    for value in [linear] if linear is not None else hidden or values:
        kind = type(value)
        if kind is not Value and (found := RULES.get((func, kind))) is not None:
            rule = found
            break
    if numbers.debug:
        return debugged(rule, func, numbers, plain, named)
    return rule.apply(numbers, *plain, **named)


def _as_drawn(func: OpOverload, given: Sequence[Any], made: Tensor) -> Tensor:
    """Returns what was made of known numbers, with what is known of them, whatever was drawn."""
    if func.overloadpacket not in (aten.mul, aten.div) or not isinstance(given[1], int | float):
        return made
    if not given[1]:
        return made
    number = given[1] if func.overloadpacket is aten.mul else 1 / given[1]
    return scaled(made, given[0], number) if number > 0 else made


def _deferred(
    rule: Rule,
    func: OpOverload,
    numbers: Numbers,
    plain: list[Any],
    named: dict[str, Any],
    values: Sequence[Value],
) -> Value:
    """The result as a value that is computed when something reads it.

    A training step needs the gradient of its loss, not the loss: a cross-entropy that is never
    revealed costs no logarithm.
    """
    with _disable_current_modes():  # its form alone is asked for: that is no work to record
        like = func(*tree_map(_meta, plain), **tree_map(_meta, named))
    plain = tree_map_only(Tensor, torch.clone, plain)  # later writes to public tensors do not count
    return Deferred(
        lambda: _special(rule, func, numbers, plain, named, values), like.shape, like.dtype
    )


def _meta(x: Any) -> Any:
    if isinstance(x, Tensor | Value):
        return torch.empty(x.shape, dtype=x.dtype, device="meta")
    return x


def _written(
    rule: Rule, func: OpOverload, result: tuple[Any, ...], args: tuple[Any, ...], kwargs: Any
) -> tuple[Any, ...] | None:
    """The results, after the values behind them are written to the arguments in `writes`."""
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    count = len(rule.writes)
    for name, value in zip(rule.writes, result[-count:], strict=True):
        if isinstance(value, list):
            for one, new in zip(given[name], value, strict=True):
                one.write(new)
        elif value is not None:
            given[name].write(value)
    return result[:-count] or None


def _opened(x: Any, secrets: list[SecretTensor], values: list[Value]) -> Any:
    """An argument with values in place of secret tensors; both are appended to the lists."""
    kind = type(x)
    if kind is SecretTensor:
        value = x.value
        secrets.append(x)
        values.append(value)
        return value
    if kind is list or kind is tuple:
        return [_opened(one, secrets, values) for one in x]
    return x


def _known(x: Any, kept: Any = ()) -> Any:
    """An argument with public tensors in place of values that are known, but for those kept."""
    if isinstance(x, Value):
        return x if x.known is None or isinstance(x, kept) else x.known
    return [_known(one, kept) for one in x] if type(x) is list else x


def _together(plain: list[Any]) -> list[Any]:
    """Public arguments, on the GPU if one of them is there."""
    gpu = next((x.device for x in tree_leaves(plain) if isinstance(x, Tensor) and x.is_cuda), None)
    return plain if gpu is None else tree_map_only(Tensor, lambda x: x.to(gpu), plain)


def _wrapped(x: Any, numbers: Numbers) -> Any:
    return SecretTensor(x, numbers) if isinstance(x, Value) else x


def _view(rule: Rule, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule's result as aliases of the first argument."""
    if rule.of_storage:
        args, kwargs = _of_storage(*args, **kwargs), {}
    base, rest = args[0], args[1:]
    numbers = base.numbers

    def take(value: Value) -> Any:
        return rule.apply(numbers, value, *rest, **kwargs)

    values, found = take(base.value), layouts(func, base, rest, kwargs)
    if isinstance(values, Value):
        return base.viewed(values, found[0], take)
    pairs = enumerate(zip(values, found, strict=True))
    return [base.viewed(value, one, partial(_nth, take, i)) for i, (value, one) in pairs]


def _of_storage(
    self: SecretTensor, size: Any, stride: Any, storage_offset: int | None = None
) -> tuple[Any, ...]:
    """The arguments of as_strided for the whole tensor that `self` is a view of."""
    offset = self.storage_offset() if storage_offset is None else storage_offset
    return self.base(), size, stride, offset


def _nth(take: Callable[[Value], Any], i: int, value: Value) -> Value:
    return take(value)[i]


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
    wanted = [_typed(a) for a in func._schema.arguments if not (a.kwarg_only and a.alias_info)]
    for pure in (name.removesuffix("_"), f"{name}functional"):  # the second of normal_, for one
        packet = getattr(aten, pure, None)
        for overload in () if packet is None else packet.overloads():
            candidate = getattr(packet, overload)
            found = [_typed(a) for a in candidate._schema.arguments]
            if found == wanted and written_argument(candidate) is None:
                return candidate
    return None


def _typed(argument: Any) -> tuple[str, str]:
    return argument.name, str(argument.type)


def _writing(func: OpOverload, find: Callable[[OpOverload], Rule | None]) -> Plan:
    """In-place and out variants: the result of the functional one, written to its target."""
    pure, target = functional(func), written_argument(func)
    outs = [a.name for a in func._schema.arguments if a.kwarg_only and a.alias_info is not None]
    rule = None if pure is None else find(pure)

    def write(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        written = [kwargs[name] for name in outs] if outs else [args[target]]  # type: ignore[index]
        if pure is None:
            raise unsupported(func, args, kwargs)
        if not all(type(one) is SecretTensor for one in written):
            raise _into_public(func)
        rest = {k: v for k, v in kwargs.items() if k not in outs} if outs else kwargs
        if rule is None or (outs and not _has_secret(args, rest)):
            made = pure(*args, **rest)
        elif rule.view:  # squeeze_, transpose_: only the shape changes
            return written[0].become(_view(rule, pure, args, kwargs))
        else:
            _, made = _result(rule, pure, args, rest)
        results = made if isinstance(made, list | tuple) else (made,)
        for one, new in zip(written, results, strict=True):
            one.write(_value_of(new, one.numbers))
        return written[0] if len(written) == 1 else tuple(written)

    return write


def _into_public(func: OpOverload) -> UnsupportedOp:
    return UnsupportedOp(
        Operator(str(func)) + " would write secrets into a public tensor, which stays public",
        remedy="make it with secret.new_zeros(...) or torch.zeros_like(secret), share it, or use "
        "what returns a new one",
    )


def _value_of(x: Any, numbers: Numbers) -> Value:
    if isinstance(x, Value):
        return x
    return x.value if isinstance(x, SecretTensor) else numbers.public(x)


def _each(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`_foreach_` variants: the operation for each element of the lists, or for several joined."""
    name = func._schema.name.removeprefix("aten::_foreach_")
    packet = getattr(aten, name, None)
    writes = name.endswith("_")
    into = packet is None and writes  # no such variant in place: maximum, for one
    if into:
        packet = getattr(aten, name[:-1], None)
    if packet is None:
        raise unsupported(func, args, kwargs)

    def at(i: int) -> list[Any]:
        return [a[i] if isinstance(a, list | tuple) else a for a in args]

    def apply(*own: Any) -> Any:
        named: dict[str, Any] = dict(kwargs)
        call: Callable[..., Any] = packet
        if name.startswith("addc") and len(own) == 4:  # the factor is a keyword there
            *own, named["value"] = own  # type: ignore[assignment]
        if any(type(x) is SymbolicNumber for x in (*own, *named.values())):
            call = partial(_symbolic, packet)
        return call(*own, **named)

    results = [None] * len(args[0])
    for places in groups(name.removesuffix("_"), args):
        if len(places) == 1:
            made = [apply(*at(places[0]))]
        else:
            numbers, shapes = args[0][places[0]].numbers, [args[0][i].shape for i in places]
            whole = apply(*together(numbers, args, places))
            pieces = split(numbers, whole.value, shapes)
            made = [SecretTensor(piece, numbers) for piece in pieces]
        for i, result in zip(places, made, strict=True):
            if into or (writes and len(places) > 1):
                _write(func, args[0][i], result)
            results[i] = result
    return None if writes else results


def _write(func: OpOverload, target: Tensor, result: Any) -> None:
    if not isinstance(target, SecretTensor):
        raise _into_public(func)
    target.write(_value_of(result, target.numbers))


def _symbolic(packet: OpOverloadPacket, *args: Any, **kwargs: Any) -> Any:
    """An operation whose factor is symbolic: torch would take it for no number."""
    overload = "Scalar" if "Scalar" in packet.overloads() else "default"
    return plan(getattr(packet, overload))(args, kwargs)


def unsupported(func: OpOverload, args: Any, kwargs: Any) -> UnsupportedOp:
    """The error for an operation without a rule."""
    kinds = ", ".join(_kind(a) for a in (*args, *kwargs.values()))
    near = sorted({str(op) for op, _ in RULES if _base(op) == _base(func)})
    there = f"there is {', '.join(near)}" if near else "docs/reference/ops.md lists what there is"
    reason = Operator(str(func)) + f" of ({kinds}) has no rule for secret tensors"
    return UnsupportedOp(reason, remedy=substitute(func) or there)


def _base(func: OpOverload) -> str:
    return func._schema.name.removesuffix("_")


def _kind(x: Any) -> str:
    if isinstance(x, SecretTensor):
        return f"secret {x.dtype}".replace("torch.", "")
    if isinstance(x, torch.Tensor):
        return f"public {x.dtype}".replace("torch.", "")
    return type(x).__name__


SecretTensor.dispatch = staticmethod(dispatch)
