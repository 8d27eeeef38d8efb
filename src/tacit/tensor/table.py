"""The table of rules: what each ATen operation does with secret operands.

A rule is a function named after the operation, with the operation's own argument names after the
session's numbers. Secrets arrive as `Value`s, everything else as it is. It returns a `Value`, a
tuple of them, or a plain result.

The key of a rule is the operator's overload and a kind of value. The kind is `Value` for ordinary
operands. A rule for another kind (a subclass of `Value`) is used where one of the operands is of
that kind; what it does not handle it passes to the ordinary rule, by calling that function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch._ops import OpOverload

from ..fixedpoint import Value

REFUSED = "refused"  # the file of rules that raise UnsupportedOp: each says what to do instead

Handler = Callable[..., Any]
Kind = type[Value]


@dataclass(frozen=True)
class Rule:
    """How to compute an operation.

    view: the result is an alias of the first argument. of_storage: an alias of the whole tensor
    that the first argument is a view of.
    writes: names of arguments that the operation writes to although its schema does not say so.
    The rule returns what is written to them after its results, None where nothing is.
    lazy: with an operand that nothing has read yet, the result waits until something reads it.
    """

    apply: Handler
    view: bool = False
    of_storage: bool = False
    writes: tuple[str, ...] = ()
    lazy: bool = False


RULES: dict[tuple[OpOverload, Kind], Rule] = {}
DECOMPOSED: set[OpOverload] = set()  # by torch, into operations that have rules

_on_change: list[Callable[[], None]] = []


def implements(
    *overloads: OpOverload,
    kind: Kind | tuple[Kind, ...] = Value,
    view: bool = False,
    of_storage: bool = False,
    writes: tuple[str, ...] = (),
    lazy: bool = False,
) -> Callable[[Handler], Handler]:
    """Registers a function as the rule of these overloads, for operands of this kind.

    Raises ValueError if there is a rule for one of them already, or a decomposition is allowed.
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)

    def register(function: Handler) -> Handler:
        rule = Rule(function, view, of_storage, writes, lazy)
        for key in ((overload, one) for overload in overloads for one in kinds):
            if key in RULES:
                raise ValueError(
                    f"{key[0]} has a rule for {key[1].__name__}: {RULES[key].apply.__name__}"
                )
            if key[0] in DECOMPOSED:
                raise ValueError(f"{key[0]} is decomposed by torch; its rule would be dead")
            RULES[key] = rule
        for forget in _on_change:
            forget()
        return function

    return register


def decomposed(*overloads: OpOverload) -> None:
    """Allows torch's decomposition of these operations, which must not have rules."""
    for overload in overloads:
        if (overload, Value) in RULES:
            raise ValueError(f"{overload} has a rule; its decomposition would be dead")
    DECOMPOSED.update(overloads)


def rule_of(overload: OpOverload) -> Rule | None:
    """The rule for ordinary operands."""
    return RULES.get((overload, Value))


def on_change(forget: Callable[[], None]) -> None:
    """Calls `forget` after every registration: for caches of what the table says."""
    _on_change.append(forget)


def operators() -> dict[str, list[str]]:
    """Names of ATen operations by the file of `tensor/ops/` that has their rule."""
    files: dict[str, list[str]] = {}
    for (overload, kind), rule in RULES.items():
        if kind is Value:
            file = rule.apply.__module__.split(".")[-1]
            files.setdefault(file, []).append(short_name(overload))
    files["decomposed by torch"] = [short_name(overload) for overload in DECOMPOSED]
    return {family: sorted(names) for family, names in sorted(files.items())}


def short_name(overload: OpOverload | str) -> str:
    """What people call an operation of ATen: `mm`, `add.Tensor`."""
    return str(overload).removeprefix("aten.").removesuffix(".default")
