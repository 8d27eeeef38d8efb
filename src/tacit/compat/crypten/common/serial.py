"""`crypten.common.serial`: classes of models that files of other parties may name."""

from __future__ import annotations

_safe: dict[str, type] = {}

__all__ = ["register_safe_class", "safe_class", "safe_classes"]


def register_safe_class(input_class: type) -> None:
    """Lets `load_from_party` read models of this class without being told it."""
    _safe[_name(input_class)] = input_class


def safe_classes() -> list[type]:
    """Returns all registered classes."""
    return [*_safe.values()]


def safe_class(name: str) -> type | None:
    """Returns the class that was registered here and has this name at another party."""
    return _safe.get(name)


def name_of(model: object) -> str:
    """Returns the name by which another party finds the class of a model."""
    return _name(type(model))


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
