"""The rules: what each ATen operation does with secret operands.

A rule is a function named after the operation, with the operation's own argument names after the
session's numbers; secrets arrive as `Value`s, all else as it is. It returns a `Value`, a tuple of
them, or a plain result. Registering an operation twice is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch._ops import OpOverload


@dataclass(frozen=True)
class Rule:
    """view: the result is an alias of the first argument.

    writes: names of arguments that the operation writes to although its schema does not say so.
    The rule returns what is written to them after its results, None where nothing is.
    """

    apply: Callable[..., Any]
    view: bool = False
    writes: tuple[str, ...] = ()


RULES: dict[OpOverload, Rule] = {}

Handler = Callable[..., Any]


def implements(
    *overloads: OpOverload, view: bool = False, writes: tuple[str, ...] = ()
) -> Callable[[Handler], Handler]:
    """Registers a function as the rule of these overloads."""

    def register(function: Handler) -> Handler:
        for overload in overloads:
            if overload in RULES:
                raise ValueError(f"{overload} has a rule already: {RULES[overload].apply.__name__}")
            RULES[overload] = Rule(function, view, writes)
        return function

    return register
