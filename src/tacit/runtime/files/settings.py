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
    if columns is not None:
        columns = () if isinstance(columns, str) else tuple(columns)
        if not columns or any(type(column) not in (str, int) for column in columns):
            raise ConfigError(f"load: {columns=}: a list of names or numbers of columns is needed")
    if header not in (None, True, False):
        raise ConfigError(f"load: {header=}: allowed are None, True and False")
    if size is not None:
        size = tuple(size)
        if len(size) != 2 or any(type(side) is not int or side < 1 for side in size):
            raise ConfigError(f"load: {size=}: a height and a width in pixels are needed")
    return Options(Budget(limit), columns, header, size)
