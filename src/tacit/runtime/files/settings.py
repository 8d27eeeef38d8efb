"""What a caller of `session.load` asks for, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ...errors import ConfigError
from .announcement import Expectation
from .contents import Budget, Options
from .messages import read_expectation

LIMIT = 1 << 32  # bytes of a file's tensors; also of one message

Shape = Sequence[int | None]
Shapes = Shape | Mapping[str, Shape] | None
Dtypes = torch.dtype | Mapping[str, torch.dtype] | None


def expectation(shape: Shapes, dtype: Dtypes, limit: int) -> Expectation:
    """What a party expects of a file."""
    try:
        return read_expectation(_each(shape, list), _each(dtype, _name), limit)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"load: {shape=}, {dtype=}, {limit=}: {error}") from error


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, Mapping):
        return {name: change(one) for name, one in value.items()}
    return None if value is None else change(value)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def reading_options(columns: Any, header: Any, size: Any, limit: int) -> Options:
    """How the owner's file is to be read."""
    if columns is not None and not _all_of(columns, str, int):
        raise ConfigError(f"load: {columns=}: a list of names or numbers of columns is needed")
    if header not in (None, True, False):
        raise ConfigError(f"load: {header=}: allowed are None, True and False")
    if size is not None and not (_all_of(size, int) and len(size) == 2 and min(size) > 0):
        raise ConfigError(f"load: {size=}: a height and a width in pixels are needed")
    chosen = None if columns is None else tuple(columns)
    return Options(Budget(limit), chosen, header, size)


def _all_of(values: Any, *types: type) -> bool:
    return isinstance(values, list | tuple) and bool(values) and {*map(type, values)} <= {*types}
