"""The operations that have rules, for people."""

from __future__ import annotations

from torch._ops import OpOverload

from . import dispatch  # noqa: F401  registers the rules
from .decompose import DECOMPOSED
from .table import RULES

REFUSED = "refused"  # their rule says why, and what to do instead


def operators() -> dict[str, list[str]]:
    """Names of ATen operations by the file of `tensor/ops/` that their rule stands in."""
    files: dict[str, list[str]] = {}
    for overload, rule in RULES.items():
        files.setdefault(rule.apply.__module__.split(".")[-1], []).append(short_name(overload))
    files["decomposed by torch"] = [short_name(overload) for overload in DECOMPOSED]
    return {family: sorted(names) for family, names in sorted(files.items())}


def short_name(overload: OpOverload | str) -> str:
    """What people call an operation of ATen: `mm`, `add.Tensor`."""
    return str(overload).removeprefix("aten.").removesuffix(".default")
