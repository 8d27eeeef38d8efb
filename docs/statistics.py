"""The reference page of `tacit.stats` and `tacit.metrics`, from their docstrings."""

from __future__ import annotations

import inspect
from types import ModuleType

from tacit import metrics, stats


def statistics_page() -> str:
    """Every function and every result of both packages, with its docstring."""
    lines = [
        "# Statistics and metrics",
        "",
        "The functions take plain and secret tensors. n is the number of rows, p that of columns, "
        "f the number of fraction bits, 16 by default. [The guide](../guides/statistics.md) has "
        "programs.",
        "",
    ]
    for package in (stats, metrics):
        lines += [f"## {package.__name__}", "", inspect.getdoc(package) or "", ""]
        for name in package.__all__:
            lines += entry(package, name)
    return "\n".join(lines)


def entry(package: ModuleType, name: str) -> list[str]:
    """A heading, the signature, and the docstring, its example as a block."""
    member = getattr(package, name)
    prose, prompt, example = (inspect.getdoc(member) or "").partition(">>> ")
    lines = [f"### {name}", ""]
    if inspect.isfunction(member):
        lines += [f"`{name}{inspect.signature(member)}`".replace("'", ""), ""]
    else:
        lines += [f"`{name}({', '.join(member._fields)})`", ""]
    lines += [prose.strip(), ""]
    return [*lines, "```text", prompt + example.rstrip(), "```", ""] if prompt else lines
