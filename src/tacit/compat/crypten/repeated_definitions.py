"""Classes that several parties of one process define: each runs the same lines."""

from __future__ import annotations


def is_defined_again(cls: type, known: type | None) -> bool:
    """Returns whether the same lines made both classes."""
    if known is None:
        return False
    return (cls.__module__, cls.__qualname__) == (known.__module__, known.__qualname__)
