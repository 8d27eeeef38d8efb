"""Which memory a Triton function writes, found in its source.

A pointer that a function stores through is computed from some of its parameters. All parameters
that it may be computed from count as written: too many cost a dependence that is none, but one
that is missing would let a launch move before another one that it needs. What is loaded from memory
is a number, never a pointer.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

STORING = ("store", "atomic_")  # how the names of Triton's functions begin that write


@cache
def written_parameters(function: Callable[..., None]) -> frozenset[str]:
    """Returns the names of the parameters through which a function, or one it calls, writes."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    parents = _parents(tree)
    found: set[str] = set()
    waiting = {name for call in _calls(tree) for name in _written_by(call, function)}
    while waiting:
        found |= waiting
        waiting = {source for name in waiting for source in parents.get(name, ())} - found
    return frozenset(found.intersection(inspect.signature(function).parameters))


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _written_by(call: ast.Call, caller: Callable[..., None]) -> set[str]:
    """Returns the names in the pointers that a call writes through."""
    if isinstance(call.func, ast.Attribute) and call.func.attr.startswith(STORING):
        return _names(call.func.value) | (_names(call.args[0]) if call.args else set())
    called = getattr(_resolved(call.func, caller), "fn", None)
    if called is None:
        return set()
    given = dict(zip(inspect.signature(called).parameters, call.args, strict=False))
    given |= {one.arg: one.value for one in call.keywords if one.arg is not None}
    return {
        name for parameter in written_parameters(called) for name in _names(given.get(parameter))
    }


def _resolved(called: ast.expr, caller: Any) -> Any:
    """Returns the function that an expression names in another one's module, if any."""
    if isinstance(called, ast.Name):
        return caller.__globals__.get(called.id)
    if isinstance(called, ast.Attribute):
        return getattr(_resolved(called.value, caller), called.attr, None)
    return None


def _parents(tree: ast.AST) -> dict[str, set[str]]:
    """Returns for each variable the names in what it is assigned."""
    found: dict[str, set[str]] = {}
    targets: list[Any]
    value: ast.expr | None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr):
            targets, value = [node.target], node.value
        elif isinstance(node, ast.For):
            targets, value = [node.target], node.iter
        else:
            continue
        for name in (name for target in targets for name in _names(target)):
            found.setdefault(name, set()).update(_names(value))
    return found


def _names(node: ast.AST | None) -> set[str]:
    """Returns the names in an expression, but for those in what it loads."""
    if node is None or (isinstance(node, ast.Call) and _is_load(node.func)):
        return set()
    own = {node.id} if isinstance(node, ast.Name) else set()
    return own.union(*map(_names, ast.iter_child_nodes(node)))


def _is_load(called: ast.expr) -> bool:
    return isinstance(called, ast.Attribute) and called.attr == "load"
